"""Converts a `HangulDocument` to blocks: body in reading order, then notes, headers and footers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from operator import attrgetter

from tasks.documents.blocks import Block, Cell, HiddenText, Kind, Page, PageSource, PageStatus, Place
from tasks.documents.document_readers import Headings, SimpleReader, format_table, read_whole
from tasks.documents.hwp.hwp_model import (
    AnchoredText,
    Caption,
    HangulDocument,
    ListCounters,
    Paragraph,
    Section,
    Shape,
    Table,
)
from tasks.documents.page_join import LaidPage, LayoutFailed, doubt_pages, place_on_pages
from tasks.documents.receipt import compare_letters, count_letters


def make_hangul_reader(
    document: HangulDocument,
    laid: Sequence[LaidPage] | str | None,
    *,
    format: str,
    reader: str,
    texts: Sequence[str] | None = None,
) -> SimpleReader:
    """Return the reader of a document with its pages as laid out, or, where that fails, with one page without number.

    laid: the pages, or why there are none; None to do without. texts: all that the blocks should hold, if it is known.
    """
    assembly, notes = _Assembly(document), document.notes
    blocks = assembly.blocks(document.sections)
    try:
        if isinstance(laid, str):
            raise LayoutFailed(laid)
        pages = [_unpaged(blocks)] if laid is None else place_on_pages(blocks, laid)
        if pages[0].number and (why := _find_doubt(document, len(pages))):
            pages, notes = doubt_pages(pages, why), (*notes, f"page numbers are estimated: {why}")
    except LayoutFailed as error:
        pages, notes = [_unpaged(blocks)], (*notes, f"without pages: {error}")
    # which page they are anchored on is not kept: nobody sees them on any
    pages[0] = pages[0].model_copy(update={"hidden": (*pages[0].hidden, *assembly.hidden)})
    if texts is not None:
        pages[-1] = compare_letters(pages[-1], count_letters(texts), earlier=pages[:-1])
    source: PageSource = "layout" if pages[0].number else "none"
    fields = {"title": document.title, "metadata": document.metadata, "notes": notes}
    return read_whole(pages, page_source=source, format=format, reader=reader, **fields)


def _find_doubt(document: HangulDocument, laid: int) -> str | None:
    """Return why the layout cannot have the pages of the word processor, if the document itself tells."""
    least = [section.least_pages for section in document.sections]
    if laid > 1 and not all(least):
        return "a section defines no page, and A4 is assumed"
    if sum(least) > laid:
        return f"the layout has {laid} pages, and the lines of the document were broken into at least {sum(least)}"
    return None


def _unpaged(blocks: tuple[Block, ...]) -> Page:
    status, reason = PageStatus.OK, None
    if not any(block.text for block in blocks):
        figures = any(block.kind == "figure" for block in blocks)
        status = PageStatus.EMPTY
        reason = "image-only: the document holds figures but no text" if figures else "the document holds no text"
    return Page(number=None, status=status, reason=reason, blocks=blocks)


def assemble(document: HangulDocument) -> tuple[Block, ...]:
    """Return all blocks of the document, whose `place.block` counts them in this order."""
    return _Assembly(document).blocks(document.sections)


class _Assembly:
    """Collects blocks and keeps list counters, open headings, and anchored texts for the end."""

    def __init__(self, document: HangulDocument) -> None:
        self._counters = ListCounters(document.styles)
        self._body: list[Block] = []
        self._asides: dict[Kind, list[Block]] = {"note": [], "header": [], "footer": []}
        self.hidden: list[HiddenText] = []
        """Comments and deleted texts that are shown nowhere."""
        self._headings = Headings()
        self._section = 0
        self._outline_id = 0
        self._is_inside = False
        """Whether the paragraphs are those of a cell, caption or aside, of which only the text is used."""

    def blocks(self, sections: Iterable[Section]) -> tuple[Block, ...]:
        """Return the blocks of the body, then those of notes, headers and footers."""
        for index, section in enumerate(sections):
            self._section, self._outline_id = index, section.outline_id
            self._add_paragraphs(section.paragraphs)
        blocks = [*self._body, *self._asides["note"], *self._asides["header"], *self._asides["footer"]]
        return tuple(
            block.model_copy(update={"place": block.place.model_copy(update={"block": position})})
            for position, block in enumerate(blocks)
        )

    def _add_paragraphs(self, paragraphs: Iterable[Paragraph]) -> None:
        """Add texts and objects in order; floating objects follow the text that has begun."""
        for paragraph in paragraphs:
            mark = self._mark(paragraph)
            text, floating = "", list[Table | Shape]()
            for run in paragraph.runs:
                match run:
                    case str():
                        text += run
                    case AnchoredText():
                        self._add_aside(run)
                        text += run.mark
                    case _ if text.strip() and not (run.in_line and _has_text(run)):
                        floating.append(run)
                    case _:
                        mark = self._add_text(paragraph, mark, text)
                        text = ""
                        self._add_object(run)
            self._add_text(paragraph, mark, text)
            for object_ in floating:
                self._add_object(object_)

    def _mark(self, paragraph: Paragraph) -> str:
        head = paragraph.head
        return self._counters.mark(head, outline_id=self._outline_id) if head else ""

    def _add_text(self, paragraph: Paragraph, mark: str, text: str) -> str:
        """Add the text behind its list mark and return ""; without text, return the mark for the text that follows."""
        if not text.strip():
            return mark
        text, head = _marked(mark, text), paragraph.head
        kind: Kind = "paragraph" if head is None or self._is_inside else "heading" if head.kind == "outline" else "list"
        marker = mark if mark and kind == "list" else None
        self._body.append(self._block(kind, text, level=head.level + 1 if head else None, marker=marker))
        return ""

    def _add_object(self, object_: Table | Shape) -> None:
        caption = object_.caption
        if caption and caption.before:
            self._add_caption(caption)
        if isinstance(object_, Shape):
            self._body += [self._block("figure", object_.alt)] if object_.picture else []
            self._add_paragraphs(object_.paragraphs)
        elif len(object_.cells) == 1 and any(
            isinstance(run, Table) for paragraph in object_.cells[0].paragraphs for run in paragraph.runs
        ):
            # a cell around another table is a border: its content is read without it
            self._add_paragraphs(object_.cells[0].paragraphs)
        else:
            pictures, cells = list[Block](), list[Cell]()
            for row, col, down, across, header, inside in sorted(object_.cells, key=attrgetter("row", "col")):
                text = self._flatten(inside, pictures)
                cells.append(Cell(row=row, col=col, text=text, row_span=down, col_span=across, header=header))
            self._body += [self._block("table", format_table(cells), cells=tuple(cells)), *pictures]
        if caption and not caption.before:
            self._add_caption(caption)

    def _add_caption(self, caption: Caption) -> None:
        pictures = list[Block]()
        if text := self._flatten(caption.paragraphs, pictures):
            self._body.append(self._block("caption", text))
        self._body += pictures

    def _add_aside(self, anchored: AnchoredText) -> None:
        pictures = list[Block]()
        text, kind = self._flatten(anchored.paragraphs, pictures), anchored.kind
        if kind == "hidden comment" or kind == "deleted in tracked changes":
            self.hidden += [HiddenText(text=text, reason=kind)] if text else []
            return
        self._asides[kind] += [self._block(kind, text)] if text else []
        self._asides[kind] += pictures

    def _flatten(self, paragraphs: Iterable[Paragraph], pictures: list[Block]) -> str:
        """Return the text of a cell, caption or aside, a line per paragraph or row; its pictures join `pictures`."""
        body, is_inside = self._body, self._is_inside
        self._body, self._is_inside = [], True
        self._add_paragraphs(paragraphs)
        blocks, self._body, self._is_inside = self._body, body, is_inside
        pictures += [block for block in blocks if block.kind == "figure"]
        # a tab, as ` | ` would look like one more column of the table around
        texts = [format_table(block.cells, between="\t") if block.cells else block.text for block in blocks]
        lines = (text for text, block in zip(texts, blocks, strict=True) if text and block.kind != "figure")
        return _clean("\n".join(lines))

    def _block(
        self,
        kind: Kind,
        text: str,
        *,
        level: int | None = None,
        marker: str | None = None,
        cells: tuple[Cell, ...] = (),
    ) -> Block:
        # an empty first cell is not white space, and inside a cell, lines keep their indents
        text = text if kind == "table" else text.rstrip() if self._is_inside else _clean(text)
        path = self._headings.add(text, level) if kind == "heading" and level else self._headings.path()
        place = Place(section=self._section, heading_path=path)
        return Block(kind=kind, text=text, level=level, marker=marker, cells=cells, place=place)


def _marked(mark: str, text: str) -> str:
    return f"{mark} {text.lstrip()}" if mark else text


def _clean(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _has_text(object_: Table | Shape) -> bool:
    if isinstance(object_, Shape):
        return bool(object_.paragraphs)
    runs = (run for cell in object_.cells for paragraph in cell.paragraphs for run in paragraph.runs)
    return any(not isinstance(run, str) or run.strip() for run in runs)
