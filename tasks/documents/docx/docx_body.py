"""Paragraphs and tables of one story of a Word document (body, note, header …), in reading order."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from tasks.documents.blocks import Cell, Kind
from tasks.documents.document_readers import format_table
from tasks.documents.docx import docx_inline
from tasks.documents.docx.docx_inline import CHART, MC, A, read_first_alternative
from tasks.documents.docx.docx_styles import Numbering, ParagraphLook, Styles, format_number, is_white, parse_integer
from tasks.documents.list_marks import find_mark
from tasks.documents.office_package import Part, W, WordPackage, child_is_on, child_value, word_attribute
from tasks.documents.raised_signs import OFFICE_PLACES, raise_signs, shift_signs

_WRAPPERS = {f"{W}{name}" for name in ["sdt", "sdtContent", "customXml", "smartTag", "ins", "moveTo"]} | {f"{MC}Choice"}
_MOST_COLUMNS = 1000  # Word itself allows 63


class Item(NamedTuple):
    """A block that has no place in the document yet."""

    kind: Kind
    text: str
    page: int
    section: int
    level: int | None = None
    cells: tuple[Cell, ...] = ()
    title: bool = False
    marker: str | None = None


@dataclass
class PageCounter:
    """Counts the pages of a Word document by the page breaks in its file."""

    page: int = 1
    manual_breaks: int = 0
    """Breaks set by the author since the last text or rendered break."""

    def turn(self, *, at_least: int = 0) -> int:
        """Return the page of the next text; a rendered break that follows a manual one is the same break."""
        self.page += max(at_least, self.manual_breaks)
        self.manual_breaks = 0
        return self.page


@dataclass
class Findings:
    """Everything besides text that the walk over a Word document meets."""

    references: list[tuple[docx_inline.NoteReference, int]] = field(
        default_factory=list[tuple[docx_inline.NoteReference, int]]
    )
    """Notes in the order of their references, with the page of the reference."""
    sections: list[ET.Element] = field(default_factory=list[ET.Element])
    """Properties of each section, in order."""
    hidden: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """Texts that are not seen, each with the reason and its page."""
    pictures: list[tuple[Part, str]] = field(default_factory=list[tuple[Part, str]])
    """In the order of the text: the part that shows each, and the id of its relationship there."""
    external_images: int = 0
    foreign_parts: int = 0
    """Embedded documents of other formats (altChunk)."""
    note_formats: dict[str, str] = field(default_factory=lambda: {"footnotes": "decimal", "endnotes": "lowerRoman"})
    """Number formats of the notes; comments have no numbers."""
    note_marks: dict[str, dict[str, str]] = field(default_factory=lambda: {"footnotes": {}, "endnotes": {}})
    """The raised number of each note by kind and id."""

    def mark_note(self, reference: docx_inline.NoteReference) -> str:
        """Return the next number of its kind for a note; "" for a comment, and where the author typed a mark."""
        marks = self.note_marks.get(reference.kind)
        if marks is None or reference.own_mark:
            return ""
        number = format_number(1 + len(marks), self.note_formats[reference.kind])
        return marks.setdefault(reference.id, raise_signs(number))


class StoryWalker:
    """Reads one part of a Word document; list numbers and findings continue from part to part."""

    def __init__(
        self, package: WordPackage, part: Part, *, styles: Styles, numbering: Numbering, findings: Findings
    ) -> None:
        self._package = package
        self._part = part
        self._styles = styles
        self._numbering = numbering
        self._findings = findings
        self.pages = PageCounter()
        self._section = 0
        self._on_white = True
        """Whether the paper behind the text is known to be white."""
        self._later: list[Item] = []
        """Text boxes and figures, kept until the text that they are anchored in is out."""

    def items(self, node: ET.Element) -> Iterator[Item]:
        """Yield the paragraphs, tables and figures below `node` in reading order."""
        for child in _unwrap(node):
            if child.tag == f"{W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{W}tbl":
                yield from self._table(child)
            elif child.tag == f"{W}sectPr":
                self._findings.sections.append(child)
            elif child.tag == f"{W}altChunk":  # a whole document inside, in RTF, HTML or Word's format
                self._findings.foreign_parts += 1

    def _paragraph(self, node: ET.Element) -> Iterator[Item]:
        """Yield the paragraph, cut where a page ends; each part is followed by what is anchored in it."""
        look = self._styles.resolve(node, self._numbering)
        self.pages.manual_breaks += look.starts_page  # `pageBreakBefore` counts as a break of the author's
        text, labelled, last = "", False, None
        hides = self._styles.judge_runs(node, on_white=self._on_white)
        for token in docx_inline.read_tokens(node, hides):
            if isinstance(token, docx_inline.PageBreak):
                yield from self._part_of_paragraph(text, look, labelled=labelled)
                labelled, text = labelled or bool(text.strip()), ""
                if token.rendered:
                    self.pages.turn(at_least=1)
                else:
                    self.pages.manual_breaks += 1
            elif isinstance(token, str):
                text += token
            elif isinstance(token, docx_inline.StyledText):
                align = token.align or self._styles.alignment_of(token.style)
                text += shift_signs(token.text, OFFICE_PLACES.get(align, 0), before=text)
            elif isinstance(token, docx_inline.HiddenRun):
                self._hide(token, follows=last)
            else:
                self._take_note(token)
                if isinstance(token, docx_inline.NoteReference):
                    text += self._findings.mark_note(token)
            last = token
        yield from self._part_of_paragraph(text, look, labelled=labelled)
        mark = node.find(f"{W}pPr/{W}rPr")
        is_shown = mark is None or all(mark.find(W + name) is None for name in ("del", "moveFrom", "vanish"))
        if not labelled and not text.strip() and look.item and is_shown:
            self._numbering.next_label(*look.item)  # Word numbers empty paragraphs too
        section = node.find(f"{W}pPr/{W}sectPr")
        if section is not None:
            self._findings.sections.append(section)
            self._section += 1

    def _part_of_paragraph(self, text: str, look: ParagraphLook, *, labelled: bool) -> Iterator[Item]:
        """Yield a part of a paragraph, behind its number unless an earlier part has it, then what is anchored in it."""
        if text.strip():
            label = None if labelled or look.item is None else self._numbering.next_label(*look.item)
            text = f"{label} {text.strip()}" if label else text.strip()
            kind: Kind = "paragraph"
            level = marker = None
            if look.title or look.heading is not None:
                kind, level = "heading", 1 if look.title else look.heading
            elif look.caption:
                kind = "caption"
            elif look.item is not None:
                kind, level, marker = "list", look.item.level + 1, label
            elif typed_mark := find_mark(text) if look.hangs else "":  # as many people make their lists
                kind, level, marker = "list", 1, typed_mark
            yield Item(kind, text, self.pages.turn(), self._section, level, title=look.title, marker=marker)
        yield from self._later
        self._later.clear()

    def _hide(self, run: docx_inline.HiddenRun, *, follows: docx_inline.Token | None = None) -> None:
        """Keep hidden text; one that directly follows another of the same kind goes on with it."""
        hidden, text = self._findings.hidden, run.text
        if isinstance(follows, docx_inline.HiddenRun) and follows.reason == run.reason:
            text = hidden.pop()[0] + text
        hidden.append((text, run.reason, self.pages.page + self.pages.manual_breaks))

    def _take_note(self, token: docx_inline.Token) -> None:
        """Take note of what is anchored at this point of a paragraph."""
        if isinstance(token, docx_inline.NoteReference):
            self._findings.references.append((token, self.pages.turn()))
        elif isinstance(token, docx_inline.Picture):
            relationship = self._part.relationships.get(token.relationship or "")
            self._findings.external_images += bool(relationship and relationship.external)
            self._findings.pictures += [(self._part, token.relationship)] if token.relationship else []
            self._later.append(Item("figure", token.alt, self.pages.turn(), self._section))
        elif isinstance(token, docx_inline.LinkedDrawing):
            text, relationship = token.alt, self._part.relationships.get(token.relationship)
            if relationship and not relationship.external and relationship.target in self._package.names:
                text = "\n".join(filter(None, (text, read_drawing(self._package.tree(relationship.target)))))
            self._later.append(Item("figure", text, self.pages.turn(), self._section))
        elif isinstance(token, docx_inline.TextBox):
            # what it holds stands on the anchor's page, whatever breaks there are
            page, later, on_white = self.pages.turn(), self._later, self._on_white
            self._later, self._on_white = [], False
            enclosed = [item._replace(page=page) for item in self.items(token.content)]
            self.pages.page, self._later, self._on_white = page, [*later, *enclosed], on_white

    def _table(self, node: ET.Element) -> Iterator[Item]:
        """Yield the table, cut where a page ends, then its figures; the content alone if it is a single cell, a box."""
        rows = list[ET.Element]()
        for row in (child for child in _unwrap(node) if child.tag == f"{W}tr"):
            if row.find(f"{W}trPr/{W}del") is not None:
                self._hide(docx_inline.HiddenRun(docx_inline.read_hidden(row), docx_inline.DELETED))
            elif child_is_on(row, "trPr/hidden"):
                self._hide(docx_inline.HiddenRun(docx_inline.read_hidden(row), "hidden row"))
            else:
                rows.append(row)
        inside = [cell for row in rows for cell in _unwrap(row) if cell.tag == f"{W}tc"]
        if len(inside) == 1:
            yield from self._cell(inside[0], node)
            return
        grid = _Grid()
        figures: list[Item] = []
        for number, row in enumerate(rows):
            figures += self._row(row, number, grid, node)
        for page, cells in grid.by_page():
            yield Item("table", format_table(cells), page, self._section, cells=cells)
        yield from figures

    def _cell(self, node: ET.Element, table: ET.Element) -> Iterator[Item]:
        """Yield what stands in a cell; the style of a table may shade it."""
        on_white, ground = self._on_white, node.find(f"{W}tcPr/{W}shd")
        plain = ground is not None or child_value(table, "tblPr/tblStyle") is None
        self._on_white = on_white and is_white(ground) and plain
        yield from self.items(node)
        self._on_white = on_white

    def _row(self, node: ET.Element, number: int, grid: _Grid, table: ET.Element) -> list[Item]:
        """Put a row into the grid and return the figures of its cells.

        Cells are side by side, so each begins on the same page.
        """
        first = self.pages.page
        header = node.find(f"{W}trPr/{W}tblHeader") is not None
        # empty places before the first cell
        column = min(parse_integer(child_value(node, "trPr/gridBefore"), 0), _MOST_COLUMNS)
        starts, ends, figures = list[int](), list[int](), list[Item]()
        for cell in (child for child in _unwrap(node) if child.tag == f"{W}tc"):
            self.pages.page = first
            items = list(self._cell(cell, table))
            span = min(max(1, parse_integer(child_value(cell, "tcPr/gridSpan"), 1)), _MOST_COLUMNS)
            texts = [item for item in items if item.kind != "figure"]
            # a nested table with tabs, as ` | ` would look like columns of the outer one
            text = "\n".join(format_table(item.cells, between="\t") if item.cells else item.text for item in texts)
            figures += [item for item in items if item.kind == "figure"]
            merged = cell.find(f"{W}tcPr/{W}vMerge")  # `restart` begins a cell, `continue` goes on with the one above
            merge = None if merged is None else word_attribute(merged, "val") or "continue"
            starts += [item.page for item in items[:1]]
            ends.append(self.pages.page)
            grid.put(number, column, text, span=span, merge=merge, header=header)
            column += span
        grid.pages[number] = min(starts, default=max(ends, default=first))
        self.pages.page = max(ends, default=first)
        return figures


class _Grid:
    """The cells of a table that is being read."""

    def __init__(self) -> None:
        self.pages: dict[int, int] = {}
        """Page on which each row begins."""
        self._cells: list[Cell] = []
        self._open: dict[int, int] = {}
        """Column → index of the cell that continues downwards."""

    def put(self, row: int, column: int, text: str, *, span: int, merge: str | None, header: bool) -> None:
        """Add a cell, or extend the one above it where `merge` is `continue`."""
        above = self._open.get(column)
        if merge == "continue" and above is not None:
            cell = self._cells[above]
            joined = "\n".join(filter(None, (cell.text, text)))
            self._cells[above] = cell.model_copy(update={"row_span": row - cell.row + 1, "text": joined})
            return
        self._open.pop(column, None)
        if merge is not None:
            self._open[column] = len(self._cells)
        self._cells.append(Cell(row=row, col=column, text=text, col_span=span, header=header))

    def by_page(self) -> Iterator[tuple[int, tuple[Cell, ...]]]:
        """Yield each page with its cells; rows are counted from the first on the page and spans end with its last."""
        ordered = sorted(self._cells, key=lambda cell: (cell.row, cell.col))
        for page, cells in groupby(ordered, key=lambda cell: self.pages[cell.row]):
            rows = [row for row, its_page in self.pages.items() if its_page == page]
            moved: list[Cell] = []
            for cell in cells:
                span = min(cell.row_span, rows[-1] - cell.row + 1)
                moved.append(cell.model_copy(update={"row": cell.row - rows[0], "row_span": span}))
            yield page, tuple(moved)


def _unwrap(node: ET.Element) -> Iterator[ET.Element]:
    """Yield the children of `node`, with content controls, insertions and the like replaced by their content."""
    for child in node:
        if child.tag in _WRAPPERS:
            yield from _unwrap(child)
        elif child.tag == f"{MC}AlternateContent":
            yield from read_first_alternative(child, _unwrap)
        else:
            yield child


def read_drawing(root: ET.Element) -> str:
    """Return a chart as title and rows (`category | series | series`), a diagram as lines."""
    paragraphs = ("".join(text.text or "" for text in paragraph.iter(f"{A}t")) for paragraph in root.iter(f"{A}p"))
    lines = [text for text in paragraphs if text.strip()]
    series = list(root.iter(f"{CHART}ser")) if root.tag == f"{CHART}chartSpace" else []
    columns = [_points(node, "val", "yVal") for node in series]
    categories = next((points for node in series if (points := _points(node, "cat", "xVal"))), {})
    names = [" ".join(_points(node, "tx").values()) for node in series]
    rows = [[column.get(n, "") for column in (categories, *columns)] for n in sorted(set(categories).union(*columns))]
    table = [["", *names], *rows] if rows else []
    return "\n".join([*lines, *(" | ".join(row) for row in table)])


def _points(series: ET.Element, *parts: str) -> dict[int, str]:
    """Return cached values by position; categories of several levels are joined."""
    points: dict[int, str] = {}
    nodes = (node for part in parts for node in series.findall(CHART + part))
    for point in (point for node in nodes for point in node.iter(f"{CHART}pt")):
        index, value = int(point.get("idx", "0")), point.findtext(f"{CHART}v") or ""
        points[index] = f"{value} {points[index]}" if index in points else value
    return points
