"""A conversation as a file to pass on: DOCX and PDF, with the sources of each answer and what nothing supports."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from flows.service.web.answer_parts import NOT_SUPPORTED, Part, blocks_of, unmarked
from flows.service.web.rendering import Language, fill
from tasks.rag.answers import Answered, Citation
from tasks.rag.places import cited_place

Link = Callable[[Citation], str | None]
"""The address of the picture of a citation; None without one."""
A4, WRITTEN_ON = (0, 0, 595, 842), (56, 56, 539, 786)
"""The page, and what of it has text, in points."""


def docx_of(conversation: Sequence[Answered], *, link: Link) -> bytes:
    """The answers as a Word document, a question a heading."""
    from docx import Document

    document = Document()
    for answered in conversation:
        document.add_heading(_plain(answered.question), level=2)
        for block in blocks_of(answered):
            if block.is_table:
                _add_table(document, block.rows, link)
            else:
                _add_parts(document.add_paragraph(), block.rows[0][0], link)
        for one in unmarked(answered):
            document.add_paragraph().add_run(f"⚠ {NOT_SUPPORTED}: {_plain(one)}").bold = True
        for one in answered.citations:
            paragraph = document.add_paragraph(f"[{one.n}] ", style="List Paragraph")
            _add_link(paragraph, _where(one), link(one))
            paragraph.add_run(_plain(f": “{one.quote}”"))
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def _add_table(document: Any, rows: Sequence[Sequence[Sequence[Part]]], link: Link) -> None:
    table = document.add_table(rows=0, cols=max(map(len, rows)), style="Table Grid")
    for row in rows:
        for cell, parts in zip(table.add_row().cells, row, strict=False):
            _add_parts(cell.paragraphs[0], parts, link)


def _add_parts(paragraph: Any, parts: Sequence[Part], link: Link) -> None:
    for part in parts:
        if part.cited:
            _add_link(paragraph, f"[{part.text}]", link(part.cited))
        elif part.doubtful:
            paragraph.add_run(_plain(part.text)).underline = True
            paragraph.add_run(f" (⚠ {NOT_SUPPORTED})").bold = True
        else:
            paragraph.add_run(_plain(part.text))


def _add_link(paragraph: Any, text: str, address: str | None) -> None:
    """Text that leads to an address; python-docx reads such links, and makes none."""
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    run = paragraph.add_run(_plain(text))
    if address:
        run.font.underline = True
        around = OxmlElement("w:hyperlink")
        around.set(qn("r:id"), paragraph.part.relate_to(address, RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
        around.append(run._r)  # pyright: ignore[reportPrivateUsage] # the element of a run has no other name
        paragraph._p.append(around)


def _plain(text: str) -> str:
    """The text without what XML does not take."""
    return "".join(sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in ("Cc", "Cs", "Cn"))


def _where(one: Citation) -> str:
    return cited_place(one)


def pdf_of(conversation: Sequence[Answered], *, link: Link, language: Language) -> bytes:
    """The answers as a PDF of A4 pages, a question a heading."""
    import pymupdf

    turns = [(one, blocks_of(one), unmarked(one)) for one in conversation]
    written = fill("conversation_print.html", language, {"turns": turns, "link": link, "where": _where})
    page, inner = pymupdf.Rect(A4), pymupdf.Rect(WRITTEN_ON)
    story: Any = pymupdf.Story(_plain(written))
    document = story.write_with_links(lambda _number, _filled: (page, inner, None))
    document.subset_fonts()  # that of Korean alone has 2 MB
    return document.tobytes(garbage=3, deflate=True)
