"""Reads Word documents (DOCX, both variants of the standard): blocks and pictures.

It reads the XML itself: python-docx skips text boxes, content controls, notes, equations and generated numbers.
Order: body with text boxes at their anchors, then notes and comments, then headers and footers, once each.
Its pages are those that Word noted when it saved the document; they have no boxes.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tasks.documents.blocks import Cell, ImageCandidate, Kind
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, format_table, make_storable, read_whole
from tasks.documents.docx import docx_inline
from tasks.documents.docx.docx_inline import MC, A, read_first_alternative, read_hidden
from tasks.documents.docx.docx_styles import Numbering, ParagraphLook, Styles, find_ground, format_number, parse_integer
from tasks.documents.embedded_images import EXTERNAL_IMAGE, EmbeddedImage, make_candidates, read_embedded
from tasks.documents.marks import find_mark, raise_signs, shift_signs
from tasks.documents.office_package import (
    Part,
    R,
    W,
    WordPackage,
    child_value,
    find_main_part,
    is_on,
    list_unread,
    read_chart,
    read_title,
    refuse_encrypted,
    word_attribute,
)
from tasks.documents.visibility import WHITE, Color

READER = "trivet docx 2"


def open_docx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a Word document whole; its pages are those that its last editor noted, if any. Raises DocumentError."""
    refuse_encrypted(path, password, program="Word")
    try:
        with WordPackage(path) as package:
            return _read(package)
    except RecursionError as error:
        raise RefusedDocument("The document nests elements hundreds deep, as no program writes them.") from error


def _read(package: WordPackage) -> Reader:
    """Return the reader of a document; its pages have numbers only where Word stored where each begins."""
    findings, blocks = Findings(), BlockList()
    items, page_count = _items(package, findings)
    for kind, text, page, section, level, cells, _, marker, _ in items:
        at = page if page_count and page else None
        blocks.add(kind, text, level=level, marker=marker, cells=cells, page=at, section=section)
    for text, reason, page in findings.hidden:
        blocks.hide(text, reason, page=page if page_count else None)
    pages = blocks.paged(page_count) if page_count else blocks.unpaged()
    title = next((item.text for item in items if item.title), None) or read_title(package)
    counts = {
        "Images that lie outside the document were not fetched": findings.external_images,
        "Embedded documents of other formats were left out": findings.foreign_parts,
    }
    notes, title = list_unread(package, "document", counts), title and make_storable(title)
    return read_whole(pages, format="docx", reader=READER, title=title, notes=tuple(notes))


def _items(package: WordPackage, findings: Findings) -> tuple[list[Item], int | None]:
    """Return all items in reading order, and the number of the body's last page; None where no page is recorded."""
    main = package.part(find_main_part(package, "word/document.xml", kind="Word document"))
    styles_part, numbering_part = package.find_related(main, "styles"), package.find_related(main, "numbering")
    styles, numbering = Styles(styles_part and styles_part.root), Numbering(numbering_part and numbering_part.root)

    def walker(part: Part) -> StoryWalker:
        return StoryWalker(package, part, styles, numbering, findings)

    settings = package.find_related(main, "settings")
    for root in [settings.root, main.root] if settings else [main.root]:
        for kind in findings.note_formats:
            for node in root.iter(f"{W}{kind[:-1]}Pr"):
                findings.note_formats[kind] = child_value(node, "numFmt") or findings.note_formats[kind]
    body = walker(main)
    items = [item for node in main.root.findall(f"{W}body") for item in body.items(node)]
    for kind in ("footnotes", "endnotes", "comments"):
        if part := package.find_related(main, kind):
            items += _note_items(part, kind, walker(part), findings)
    # headers, then footers, in the order in which sections name them, each once
    kinds: tuple[Kind, ...] = ("header", "footer")
    for kind in kinds:
        references = [node for section in findings.sections for node in section.findall(f"{W}{kind}Reference")]
        links = [main.relationships.get(reference.get(f"{R}id", "")) for reference in references]
        for target in dict.fromkeys(link.target for link in links if link and link.target in package.names):
            part = package.part(target)
            items += _merge_story(list(walker(part).items(part.root)), kind, page=0)
    return items, None if main.root.find(f".//{W}lastRenderedPageBreak") is None else body.page


def _note_items(part: Part, kind: str, walker: StoryWalker, findings: Findings) -> Iterator[Item]:
    """Yield notes in the order of their references; without one, comments come last, other notes are kept as hidden."""
    # a separator line is a note with a type
    notes = {word_attribute(node, "id"): node for node in part.root if word_attribute(node, "type") in (None, "normal")}
    pages = findings.references[kind]
    unreferenced = [name for name in notes if name not in pages]
    for name in unreferenced if kind != "comments" else ():
        findings.hidden.append((read_hidden(notes[name]), "a note whose mark is deleted or hidden", 0))
    for name in [*pages, *(unreferenced if kind == "comments" else ())]:
        if name in notes:
            # an endnote stands behind the text, on a page that nothing names
            page = 0 if kind == "endnotes" else pages.get(name or "", 0)
            mark = findings.note_marks.get(kind, {}).get(name or "", "")
            for item in _merge_story(list(walker.items(notes[name])), "note", page=page):
                yield item._replace(
                    text=f"{mark} {item.text}" if mark and item.text and item.kind == "note" else item.text
                )


def _merge_story(items: list[Item], kind: Kind, *, page: int) -> Iterator[Item]:
    """Yield the texts of a story as one item; figures stay items of their own. Page 0 means unknown."""
    text = "\n".join(item.text for item in items if item.kind != "figure" and item.text)
    if text:
        yield Item(kind, text, page, section=0)
    yield from (item._replace(page=page, section=0) for item in items if item.kind == "figure")


def docx_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures of body, notes, headers and footers in the order of the text. Raises DocumentError."""
    del password  # encrypted documents are refused on opening
    with WordPackage(path) as package:
        findings = Findings()
        _items(package, findings)

        def pictures() -> Iterator[EmbeddedImage]:
            """Yield the images of pictures in order; one that lies outside or is missing has a reason, no bytes."""
            for part, id_ in findings.pictures:
                relationship = part.relationships.get(id_)
                if relationship is None:
                    yield EmbeddedImage(b"", f"the picture {id_} of {part.name} points to nothing")
                elif relationship.external:
                    yield EXTERNAL_IMAGE
                else:
                    yield read_embedded(partial(package.read, relationship.target))

        yield from make_candidates(pictures())


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
    indent: float = 0
    """How far its first line is set in, in widths of a space."""


@dataclass
class Findings:
    """Everything besides text that the walk over a Word document meets."""

    references: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict[str, dict[str, int]](dict))
    """By the kind of note, the id and the page of each, in the order of their references."""
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
        """Return the raised number of a note, which it keeps; "" for a comment, and where the author typed a mark."""
        marks = self.note_marks.get(reference.kind)
        if marks is None or reference.own_mark:
            return ""
        number = format_number(1 + len(marks), self.note_formats[reference.kind])
        return marks.setdefault(reference.id, raise_signs(number))


@dataclass
class StoryWalker:
    """Reads one part of a Word document; list numbers and findings continue from part to part."""

    package: WordPackage
    part: Part
    styles: Styles
    numbering: Numbering
    findings: Findings
    page: int = 1
    _manual_breaks: int = 0
    """Page breaks set by the author since the last text or the last break that a program recorded."""
    _section: int = 0
    _paper: Color | None = WHITE
    """The colour of what lies behind the text; None where that is not known."""
    _later: list[Item] = field(default_factory=list[Item])
    """Text boxes and figures, kept until the text that they are anchored in is out."""

    def _turn(self, *, at_least: int = 0) -> int:
        """Return the page of the next text; a recorded break that follows an author's one is the same break."""
        self.page += max(at_least, self._manual_breaks)
        self._manual_breaks = 0
        return self.page

    def items(self, node: ET.Element) -> Iterator[Item]:
        """Yield the paragraphs, tables and figures below `node` in reading order."""
        for child in _unwrap(node):
            if child.tag == f"{W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{W}tbl":
                yield from self._table(child)
            elif child.tag == f"{W}sectPr":
                self.findings.sections.append(child)
            elif child.tag == f"{W}altChunk":  # a whole document inside, in RTF, HTML or Word's format
                self.findings.foreign_parts += 1

    def _paragraph(self, node: ET.Element) -> Iterator[Item]:
        """Yield the paragraph, cut where a page ends; each part is followed by what is anchored in it."""
        look = self.styles.resolve(node, self.numbering, paper=self._paper)
        self._manual_breaks += look.starts_page  # `pageBreakBefore` counts as a break of the author's
        text, labelled, last = "", False, None
        for token in docx_inline.read_tokens(node, look.look_at_run):
            if isinstance(token, str):
                text += token
            elif isinstance(token, docx_inline.PageBreak):
                yield from self._part_of_paragraph(text, look, labelled=labelled)
                labelled, text = labelled or bool(text.strip()), ""
                self._manual_breaks += not token.rendered
                if token.rendered:
                    self._turn(at_least=1)
            elif isinstance(token, docx_inline.ShiftedText):
                text += shift_signs(token.text, token.place, before=text)
            elif isinstance(token, docx_inline.HiddenRun):
                goes_on = isinstance(last, docx_inline.HiddenRun) and last.reason == token.reason
                before = self.findings.hidden.pop()[0] if goes_on else ""
                self._hide(before + token.text, token.reason)
            elif isinstance(token, docx_inline.NoteReference):
                self.findings.references[token.kind][token.id] = self._turn()
                text += self.findings.mark_note(token)
            else:
                self._anchor(token)
            last = token
        yield from self._part_of_paragraph(text, look, labelled=labelled)
        properties = node.find(f"{W}pPr")
        mark, section = (None if properties is None else properties.find(W + name) for name in ("rPr", "sectPr"))
        is_shown = mark is None or all(mark.find(W + name) is None for name in ("del", "moveFrom", "vanish"))
        if not labelled and not text.strip() and look.item and is_shown:
            self.numbering.next_label(*look.item)  # Word numbers empty paragraphs too
        if section is not None:
            self.findings.sections.append(section)
            self._section += 1

    def _part_of_paragraph(self, text: str, look: ParagraphLook, *, labelled: bool) -> Iterator[Item]:
        """Yield a part of a paragraph, behind its number unless an earlier part has it, then what is anchored in it."""
        indent = look.indent + len(text) - len(text.lstrip())
        if text := text.strip():
            label = None if labelled or look.item is None else self.numbering.next_label(*look.item)
            kind, level, marker = "paragraph", None, None
            if look.title or look.heading is not None:
                kind, level = "heading", 1 if look.title else look.heading
            elif look.caption:
                kind = "caption"
            elif look.item is not None:
                kind, level, marker = "list", look.item.level + 1, label
            elif typed_mark := find_mark(text) if look.hangs else "":  # as many people make their lists
                kind, level, marker = "list", 1, typed_mark
            text = f"{label} {text}" if label else text
            place = self._turn(), self._section
            yield Item(kind, text, *place, level, title=look.title, marker=marker, indent=indent)
        yield from self._later
        self._later.clear()

    def _hide(self, text: str, reason: str) -> None:
        self.findings.hidden.append((text, reason, self.page + self._manual_breaks))

    def _anchor(self, token: docx_inline.Drawing | docx_inline.TextBox) -> None:
        """Keep what is anchored at this point of a paragraph for after its text."""
        page = self._turn()
        if isinstance(token, docx_inline.TextBox):
            # what it holds stands on the anchor's page, whatever breaks there are
            later, paper = self._later, self._paper
            self._later, self._paper = [], None
            enclosed = [item._replace(page=page) for item in self.items(token.content)]
            self.page, self._later, self._paper = page, [*later, *enclosed], paper
            return
        text, relationship = token.alt, self.part.relationships.get(token.relationship or "")
        if token.is_picture:
            self.findings.external_images += bool(relationship and relationship.external)
            self.findings.pictures += [(self.part, token.relationship)] if token.relationship else []
        elif relationship and not relationship.external and relationship.target in self.package.names:
            # a chart as its title and rows (`category | series | series`), a diagram as its lines
            root = self.package.tree(relationship.target)
            lines = ("".join(run.text or "" for run in paragraph.iter(f"{A}t")) for paragraph in root.iter(f"{A}p"))
            rows = map(" | ".join, read_chart(root))
            text = "\n".join(filter(None, (text, *(line for line in lines if line.strip()), *rows)))
        self._later.append(Item("figure", text, page, self._section))

    def _table(self, node: ET.Element) -> Iterator[Item]:
        """Yield the table, cut where a page ends, then its figures; the content alone if it is a single cell, a box."""
        rows = list[ET.Element]()
        for row in (child for child in _unwrap(node) if child.tag == f"{W}tr"):
            if row.find(f"{W}trPr/{W}del") is not None:
                self._hide(docx_inline.read_hidden(row), docx_inline.DELETED)
            elif is_on(row.find(f"{W}trPr/{W}hidden")):
                self._hide(docx_inline.read_hidden(row), "hidden row")
            else:
                rows.append(row)
        inside = [cell for row in rows for cell in _unwrap(row) if cell.tag == f"{W}tc"]
        if len(inside) == 1:
            yield from self._cell(inside[0], node)
            return
        grid, figures = _Grid(), list[Item]()
        for number, row in enumerate(rows):
            figures += self._row(row, number, grid, node)
        for page, cells in grid.by_page():
            yield Item("table", format_table(cells), page, self._section, cells=cells)
        yield from figures

    def _cell(self, node: ET.Element, table: ET.Element) -> Iterator[Item]:
        """Yield what stands in a cell; the style of a table may shade it."""
        paper, ground = self._paper, node.find(f"{W}tcPr/{W}shd")
        is_plain = ground is not None or child_value(table, "tblPr/tblStyle") is None
        self._paper = find_ground([ground], paper if is_plain else None)
        yield from self.items(node)
        self._paper = paper

    def _row(self, node: ET.Element, number: int, grid: _Grid, table: ET.Element) -> list[Item]:
        """Put a row into the grid, each cell on the page where the row begins; return the figures of its cells."""
        first, header = self.page, node.find(f"{W}trPr/{W}tblHeader") is not None
        # empty places before the first cell
        column = min(parse_integer(child_value(node, "trPr/gridBefore"), 0), _MOST_COLUMNS)
        starts, ends, figures = list[int](), list[int](), list[Item]()
        for cell in (child for child in _unwrap(node) if child.tag == f"{W}tc"):
            self.page = first
            is_deleted = cell.find(f"{W}tcPr/{W}cellDel") is not None
            if is_deleted:
                self._hide(docx_inline.read_hidden(cell), docx_inline.DELETED)
            items = [] if is_deleted else list(self._cell(cell, table))
            span = min(max(1, parse_integer(child_value(cell, "tcPr/gridSpan"), 1)), _MOST_COLUMNS)
            texts = [item for item in items if item.kind != "figure"]
            # a nested table with tabs, as ` | ` would look like columns of the outer one
            text = "\n".join(format_table(item.cells, between="\t") if item.cells else item.text for item in texts)
            figures += [item for item in items if item.kind == "figure"]
            merged = cell.find(f"{W}tcPr/{W}vMerge")  # `restart` begins a cell, `continue` goes on with the one above
            merge = None if merged is None else word_attribute(merged, "val") or "continue"
            starts += [item.page for item in items[:1]]
            ends.append(self.page)
            indent = texts[0].indent if texts else 0
            grid.put(Cell(row=number, col=column, text=text, col_span=span, header=header, indent=indent), merge)
            column += span
        grid.pages[number] = min(starts, default=max(ends, default=first))
        self.page = max(ends, default=first)
        return figures


class _Grid:
    """The cells of a table that is being read."""

    def __init__(self) -> None:
        self.pages: dict[int, int] = {}
        """Page on which each row begins."""
        self._cells: list[Cell] = []
        self._open: dict[int, int] = {}
        """Column → index of the cell that continues downwards."""

    def put(self, cell: Cell, merge: str | None) -> None:
        """Add a cell, or extend the one above it where `merge` is `continue`; one without `merge` ends there."""
        above = self._open.pop(cell.col, None)
        if merge == "continue" and above is not None:
            upper = self._cells[above]
            text = "\n".join(filter(None, (upper.text, cell.text)))
            self._cells[above] = upper.model_copy(update={"row_span": cell.row - upper.row + 1, "text": text})
        else:
            above = len(self._cells)
            self._cells.append(cell)
        if merge is not None:
            self._open[cell.col] = above

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
