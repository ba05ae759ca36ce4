"""Lays Word documents out as pages with LibreOffice, where it is installed, and draws pages with boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tasks.documents.blocks import BBox
from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.laid_pages import LaidPage, LayoutFailed
from tasks.documents.office_program import ProgramFailed, converted


class PageMargins(NamedTuple):
    """Points above and below the body of a page, where headers and footers stand."""

    top: float
    bottom: float


def lay_out(path: Path, *, suffix: str, margins: PageMargins) -> list[LaidPage]:
    """The pages of a document. Raises LayoutFailed."""
    import pymupdf

    try:
        with converted(path, suffix=suffix, to="pdf") as made, pymupdf.open(made, filetype="pdf") as document:
            pages = [_laid_page(page, margins) for page in document]
    except (ProgramFailed, RuntimeError) as failure:  # MuPDF raises the latter over what is no PDF
        raise LayoutFailed(str(failure)) from failure
    if not any(page.signs for page in pages):
        raise LayoutFailed("LibreOffice draws no text")
    return pages


def _laid_page(page: Any, margins: PageMargins) -> LaidPage:
    signs, zones, boxes, images = list[str](), list[str](), list[BBox](), list[tuple[int, BBox]]()
    bottom = page.rect.height - margins.bottom
    for block in page.get_text("rawdict")["blocks"]:
        if block["type"]:
            images.append((len(boxes), tuple(block["bbox"])))
        for span in (span for line in block.get("lines", ()) for span in line["spans"]):
            for char in span["chars"]:
                middle = (char["bbox"][1] + char["bbox"][3]) / 2
                if not char["c"].isspace():
                    signs.append(char["c"])
                    zones.append("h" if middle < margins.top else "f" if middle > bottom else "b")
                    boxes.append(tuple(char["bbox"]))
    size = page.rect
    return LaidPage(size.width, size.height, "".join(signs), "".join(zones), tuple(boxes), tuple(images))


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """(1-based page, PNG) for each existing page of `boxes`. Raises DocumentError."""
    from tasks.documents.pdf import pdf_document

    try:
        with converted(path, suffix="docx", to="pdf") as made:
            yield from pdf_document.render_pages(made, boxes, password=password)
    except ProgramFailed as failure:
        raise UnsupportedDocument(f"The document cannot be laid out ({failure}); convert it to PDF.") from failure
