"""A `HangulDocument` becomes blocks: body in reading order, then notes, headers and footers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from tasks.documents.blocks import Block, Cell, Kind, Page, PageStatus, Place
from tasks.documents.hwp.hwp_model import (
    Aside,
    Caption,
    Generated,
    HangulDocument,
    Paragraph,
    Run,
    Section,
    Shape,
    Table,
)
from tasks.documents.hwp.hwp_numbering import ListCounters
from tasks.documents.read_options import Header

_NO_TEXT = "the document holds no text"
_ONLY_FIGURES = "image-only: the document holds figures but no text"


class HangulReader:
    """An open HWP or HWPX document. It stores no pages, so its whole text is one page without a number."""

    def __init__(self, header: Header, blocks: tuple[Block, ...]) -> None:
        self.header = header
        self._blocks = blocks

    def pages(self, first: int = 1) -> Iterator[Page]:
        """The one page, unless reading starts behind it."""
        if first > 1:
            return
        if any(block.text for block in self._blocks):
            yield Page(number=None, status=PageStatus.OK, blocks=self._blocks)
        else:
            reason = _ONLY_FIGURES if any(block.kind == "figure" for block in self._blocks) else _NO_TEXT
            yield Page(number=None, status=PageStatus.EMPTY, reason=reason, blocks=self._blocks)


def assemble(document: HangulDocument) -> tuple[Block, ...]:
    """All blocks of the document; `place.block` counts them in this order."""
    assembly = _Assembly(document)
    for index, section in enumerate(document.sections):
        assembly.add_section(index, section)
    return assembly.finish()


class _Draft(NamedTuple):
    """A block that does not know its position yet."""

    kind: Kind
    text: str
    section: int
    heading_path: tuple[str, ...]
    level: int | None
    cells: tuple[Cell, ...]

    def block(self, position: int) -> Block:
        place = Place(section=self.section, block=position, heading_path=self.heading_path)
        return Block(kind=self.kind, text=self.text, level=self.level, cells=self.cells, place=place)


class _Assembly:
    """The blocks so far, and what reading order needs to remember: list counts, headings, asides for the end."""

    def __init__(self, document: HangulDocument) -> None:
        self._counters = ListCounters(document.styles)
        self._body: list[_Draft] = []
        self._asides: dict[Kind, list[_Draft]] = {"note": [], "header": [], "footer": []}
        self._headings: list[tuple[int, str]] = []
        self._section = 0
        self._outline_id = 0

    def add_section(self, index: int, section: Section) -> None:
        self._section, self._outline_id = index, section.outline_id
        self._add_paragraphs(section.paragraphs)

    def finish(self) -> tuple[Block, ...]:
        drafts = [*self._body, *self._asides["note"], *self._asides["header"], *self._asides["footer"]]
        return tuple(draft.block(position) for position, draft in enumerate(drafts))

    def _add_paragraphs(self, paragraphs: Iterable[Paragraph]) -> None:
        for paragraph in paragraphs:
            self._add_paragraph(paragraph)

    def _add_paragraph(self, paragraph: Paragraph) -> None:
        """Text and objects in their order; what floats waits for the end of a sentence that has begun."""
        mark = self._mark(paragraph)
        text, floating = "", list[Table | Shape]()
        for run in paragraph.runs:
            match run:
                case str() | Generated():
                    text += _run_text(run)
                case Aside():
                    self._add_aside(run)
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
        """Adds the text behind its mark; returns the mark if it is still to be written."""
        if not text.strip():
            return mark
        text, head = _marked(mark, text), paragraph.head
        if head and head.kind == "outline":
            self._open_heading(head.level + 1, text)
            self._add("heading", text, level=head.level + 1)
        elif head:
            self._add("list", text, level=head.level + 1)
        else:
            self._add("paragraph", text)
        return ""

    def _open_heading(self, level: int, text: str) -> None:
        self._headings = [heading for heading in self._headings if heading[0] < level]
        self._headings.append((level, _clean(text)))

    def _add_object(self, object_: Table | Shape) -> None:
        caption = object_.caption
        if caption and caption.before:
            self._add_caption(caption)
        match object_:
            case Table() if _is_frame(object_):
                self._add_paragraphs(object_.cells[0].paragraphs)
            case Table():
                self._add_table(object_)
            case Shape():
                if object_.picture:
                    self._add_figure(object_)
                self._add_paragraphs(object_.paragraphs)
        if caption and not caption.before:
            self._add_caption(caption)

    def _add_caption(self, caption: Caption) -> None:
        text, pictures = self._flatten(caption.paragraphs)
        if text:
            self._add("caption", text)
        self._add_figures(pictures)

    def _add_table(self, table: Table) -> None:
        cells, pictures = list[Cell](), list[Shape]()
        for cell in sorted(table.cells, key=lambda cell: (cell.row, cell.col)):
            text, inside = self._flatten(cell.paragraphs)
            pictures += inside
            cells.append(
                Cell(
                    row=cell.row,
                    col=cell.col,
                    text=text,
                    row_span=cell.row_span,
                    col_span=cell.col_span,
                    header=cell.header,
                )
            )
        self._add("table", _table_text(cells), cells=tuple(cells))
        self._add_figures(pictures)

    def _add_figure(self, picture: Shape) -> None:
        self._add("figure", picture.alt)

    def _add_figures(self, pictures: Iterable[Shape]) -> None:
        for picture in pictures:
            self._add_figure(picture)

    def _add_aside(self, aside: Aside) -> None:
        text, pictures = self._flatten(aside.paragraphs)
        drafts = self._asides[aside.kind]
        if text:
            drafts.append(self._draft(aside.kind, text))
        drafts += [self._draft("figure", picture.alt) for picture in pictures]

    def _flatten(self, paragraphs: Iterable[Paragraph]) -> tuple[str, list[Shape]]:
        """The text of a cell, caption or aside, a line per paragraph or row; and the pictures that stand in it."""
        lines, pictures = list[str](), list[Shape]()
        for paragraph in paragraphs:
            mark, text = self._mark(paragraph), ""
            objects = list[str]()
            for run in paragraph.runs:
                if isinstance(run, Aside):
                    self._add_aside(run)
                elif isinstance(run, Table | Shape):
                    inside, found = self._flatten_object(run)
                    pictures += found
                    if run.in_line or not text.strip():
                        text += ("\n" if text.strip() and inside else "") + inside + ("\n" if inside else "")
                    else:
                        objects.append(inside)
                else:
                    text += _run_text(run)
            if text.strip():
                lines.append(_marked(mark, text.rstrip()))
            lines += filter(None, objects)
        return _clean("\n".join(lines)), pictures

    def _flatten_object(self, object_: Table | Shape) -> tuple[str, list[Shape]]:
        lines, pictures = list[str](), list[Shape]()

        def add(paragraphs: Iterable[Paragraph], *, row: bool = False) -> str:
            text, found = self._flatten(paragraphs)
            pictures.extend(found)
            return _one_line(text) if row else text

        caption = object_.caption
        if caption and caption.before:
            lines.append(add(caption.paragraphs))
        if isinstance(object_, Shape):
            pictures += [object_] if object_.picture else []
            lines.append(add(object_.paragraphs))
        else:
            cells = sorted(object_.cells, key=lambda cell: (cell.row, cell.col))
            for _, row in groupby(cells, key=lambda cell: cell.row):
                # a tab, as ` | ` would look like one more column of the table around
                lines.append("\t".join(add(cell.paragraphs, row=True) for cell in row))
        if caption and not caption.before:
            lines.append(add(caption.paragraphs))
        return "\n".join(line for line in lines if line.strip()), pictures

    def _add(self, kind: Kind, text: str, *, level: int | None = None, cells: tuple[Cell, ...] = ()) -> None:
        self._body.append(self._draft(kind, text, level=level, cells=cells))

    def _draft(self, kind: Kind, text: str, *, level: int | None = None, cells: tuple[Cell, ...] = ()) -> _Draft:
        path = tuple(heading for depth, heading in self._headings if kind != "heading" or depth < (level or 0))
        text = text if kind == "table" else _clean(text)  # an empty first cell is not white space
        return _Draft(kind, text, self._section, path, level, cells)


def _run_text(run: str | Generated) -> str:
    return run if isinstance(run, str) else run.text


def _marked(mark: str, text: str) -> str:
    return f"{mark} {text.lstrip()}" if mark else text


def _clean(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table_text(cells: list[Cell]) -> str:
    """A line per row, cells joined by ` | `; "" for a table of empty cells."""
    if not any(cell.text for cell in cells):
        return ""
    rows = groupby(cells, key=lambda cell: cell.row)
    return "\n".join(" | ".join(_one_line(cell.text) for cell in row) for _, row in rows)


def _is_frame(table: Table) -> bool:
    """One cell around another table: a border, not a table. Its content stands as if the border were not there."""
    return len(table.cells) == 1 and any(
        isinstance(run, Table) for paragraph in table.cells[0].paragraphs for run in paragraph.runs
    )


def _has_text(object_: Table | Shape) -> bool:
    if isinstance(object_, Shape):
        return bool(object_.paragraphs)
    return any(_says(run) for cell in object_.cells for paragraph in cell.paragraphs for run in paragraph.runs)


def _says(run: Run) -> bool:
    return bool(_run_text(run).strip()) if isinstance(run, str | Generated) else True
