"""The common model of HWP 5 and HWPX: sections of paragraphs whose runs are text, objects and asides; list numbers.

Both readers make a `HangulDocument`, which becomes blocks here: a document gives the same text from either format.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from tasks.documents.blocks import Block, Cell, HiddenText, Kind, Page, PageSource, PageStatus, Place
from tasks.documents.document_readers import Headings, SimpleReader, format_table, make_storable, read_whole
from tasks.documents.marks import WINGDINGS, format_number, raise_signs
from tasks.documents.page_join import LaidPage, LayoutFailed, doubt_pages, place_on_pages
from tasks.documents.receipt import compare_letters, count_letters

MAX_NESTING = 50  # tables in tables, boxes in boxes; deeper nesting is an attempt to exhaust the stack
MAX_LEVEL = 9  # deepest level of lists and outlines; 0 is the outermost


class Generated(str):
    """Text that the word processor makes: the number of a note, a table, a figure."""

    __slots__ = ()


class Caption(NamedTuple):
    """The caption of a table, picture or text box."""

    paragraphs: tuple[Paragraph, ...]
    before: bool
    """Whether it stands above or left of its object; else below or right."""


class TableCell(NamedTuple):
    """A cell at its 0-based row and column, with its spans and paragraphs."""

    row: int
    col: int
    row_span: int
    col_span: int
    header: bool
    paragraphs: tuple[Paragraph, ...]


class Table(NamedTuple):
    """A table with the caption that belongs to it."""

    cells: tuple[TableCell, ...]
    caption: Caption | None
    in_line: bool
    """Whether it is treated like a character; else it floats beside the paragraph."""


class Shape(NamedTuple):
    """A drawing object: a text box, a picture, or a group of them."""

    paragraphs: tuple[Paragraph, ...]
    picture: bool
    alt: str
    caption: Caption | None
    in_line: bool


class AnchoredText(NamedTuple):
    """Text that is anchored in a paragraph and shown elsewhere on the page, such as a footnote."""

    kind: AsideKind
    paragraphs: tuple[Paragraph, ...]

    @property
    def mark(self) -> str:
        """The number of a note, raised as Hangul shows it where the note is anchored; "" without one."""
        first = next(iter(self.paragraphs[0].runs), "") if self.kind == "note" else ""
        return raise_signs(first) if isinstance(first, Generated) else ""


Run = str | Table | Shape | AnchoredText
AsideKind = Literal["note", "header", "footer", "hidden comment", "deleted in tracked changes"]
"""The last two are shown nowhere."""
ListKind = Literal["outline", "number", "bullet"]


class ListHead(NamedTuple):
    """The list of which a paragraph is an item, with its number or bullet."""

    kind: ListKind
    list_id: int
    level: int
    """Level in the list; 0 is the outermost."""


class Paragraph(NamedTuple):
    """Text and objects in their order, and the list that the paragraph is an item of."""

    runs: tuple[Run, ...]
    head: ListHead | None


class Section(NamedTuple):
    """The paragraphs of one section of the body."""

    paragraphs: tuple[Paragraph, ...]
    outline_id: int
    """The numbering that this section's outline paragraphs follow; 0 if none."""
    least_pages: int = 0
    """Pages that its lines and breaks take at least; 0 where the section defines no page."""


class NumberingLevel(NamedTuple):
    """How one level of a list writes its numbers."""

    pattern: str
    """`제^1조`, `^1.^2.`: ^n stands for the number of level n."""
    style: str
    """Number style by OWPML's name: DIGIT, HANGUL_SYLLABLE …"""
    start: int


class ListStyles(NamedTuple):
    """The lists that a document defines, by id, and what its paragraph and character shapes say of text."""

    numberings: Mapping[int, tuple[NumberingLevel, ...]]
    bullets: Mapping[int, str]
    heads: Mapping[str, ListHead]
    """Paragraph shape id → the list that paragraphs of this shape belong to."""
    places: Mapping[str, int]
    """Id of each character shape that is raised (1) or lowered (-1)."""


class HangulDocument(NamedTuple):
    """A document of HWP 5 or HWPX before its conversion to blocks."""

    sections: tuple[Section, ...]
    styles: ListStyles
    title: str | None
    notes: tuple[str, ...]


def count_pages(paragraphs: Iterable[tuple[bool, Sequence[int]]], *, columns: int) -> int:
    """Return how many pages a section takes at least, as the word processor broke its lines.

    paragraphs: whether a page begins with it, and how far each of its lines stands below the top of the page. Lines of
    several columns are not compared, and tables that go over pages have no lines here.
    """
    pages, last = 1, 0
    for number, (begins_page, tops) in enumerate(paragraphs):
        lines = tops if columns <= 1 else ()
        higher = [top for before, top in zip((last, *lines), lines, strict=False) if top < before]
        pages += max(len(higher), begins_page and number > 0)
        last = lines[-1] if lines else last
    return pages


def anchor_text(kind: AsideKind, paragraphs: tuple[Paragraph, ...]) -> list[Run]:
    """Return the text as a run of its kind; nothing if it is empty."""
    return [AnchoredText(kind, paragraphs)] if paragraphs else []


_BULLETS = {0xAD: "-"} | {0xF000 + code: sign for code, sign in WINGDINGS.items()}
"""Bullets are stored as private-use codes of the font Wingdings, or as a soft hyphen; these are the signs that show."""


class ListCounters:
    """Counts the paragraphs of every list of one document, in reading order."""

    def __init__(self, styles: ListStyles) -> None:
        self._styles = styles
        self._counts: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)

    def mark(self, head: ListHead, *, outline_id: int) -> str:
        """Count the next paragraph of a list and return its bullet or number; "" where the list has none."""
        if head.kind == "bullet":
            return self._styles.bullets.get(head.list_id, "").translate(_BULLETS)
        list_id = outline_id if head.kind == "outline" else head.list_id
        levels = self._styles.numberings.get(list_id, ())
        if head.level >= len(levels):
            return ""
        counts = self._counts[head.kind, list_id]
        counts[head.level] = counts.get(head.level, levels[head.level].start - 1) + 1
        for deeper in [level for level in counts if level > head.level]:
            del counts[deeper]  # deeper levels start again below each item
        numbers = [format_number(counts.get(n, level.start), level.style) for n, level in enumerate(levels)]

        def fill(match: re.Match[str]) -> str:
            """Return the number for `^1` … `^9`, `^0` (the tenth), `^n` or `^N`; "" for a level without one."""
            code = match[1]
            if code in "nN":  # ^n is the path 1.2.3, ^N the path 1.2.3.
                return ".".join(numbers[: head.level + 1]) + "." * (code == "N")
            index = (int(code) - 1) % 10  # ^0 is the tenth level
            return numbers[index] if index < len(numbers) else ""

        return re.sub(r"\^([0-9nN])", fill, levels[head.level].pattern)


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
        least, why = [section.least_pages for section in document.sections], ""
        if len(pages) > 1 and not all(least):
            why = "a section defines no page, and A4 is assumed"
        elif sum(least) > len(pages):
            drawn = f"the layout has {len(pages)} pages"
            why = f"{drawn}, and the lines of the document were broken into at least {sum(least)}"
        if pages[0].number and why:
            pages, notes = doubt_pages(pages, why), (*notes, f"page numbers are estimated: {why}")
    except LayoutFailed as error:
        pages, notes = [_unpaged(blocks)], (*notes, f"without pages: {error}")
    # which page they are anchored on is not kept: nobody sees them on any
    pages[0] = pages[0].model_copy(update={"hidden": (*pages[0].hidden, *assembly.hidden)})
    if texts is not None:
        pages[-1] = compare_letters(pages[-1], count_letters(texts), earlier=pages[:-1])
    source: PageSource = "layout" if pages[0].number else "none"
    return read_whole(pages, page_source=source, format=format, reader=reader, title=document.title, notes=notes)


def _unpaged(blocks: tuple[Block, ...]) -> Page:
    """Return the blocks as one page without number, which is EMPTY, with a reason, if none has text."""
    status, reason = PageStatus.OK, None
    if not any(block.text for block in blocks):
        figures = any(block.kind == "figure" for block in blocks)
        status = PageStatus.EMPTY
        reason = "image-only: the document holds figures but no text" if figures else "the document holds no text"
    return Page(number=None, status=status, reason=reason, blocks=blocks)


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
        return tuple(block.with_place(block=position) for position, block in enumerate(blocks))

    def _add_paragraphs(self, paragraphs: Iterable[Paragraph]) -> None:
        """Add texts and objects in order; floating objects follow the text that has begun."""
        for paragraph in paragraphs:
            head = paragraph.head
            mark = self._counters.mark(head, outline_id=self._outline_id) if head else ""
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

    def _add_text(self, paragraph: Paragraph, mark: str, text: str) -> str:
        """Add the text behind its list mark and return ""; without text, return the mark for the text that follows."""
        if not text.strip():
            return mark
        text, head = f"{mark} {text.lstrip()}" if mark else text, paragraph.head
        kind: Kind = "paragraph" if head is None or self._is_inside else "heading" if head.kind == "outline" else "list"
        marker = mark if mark and kind == "list" else None
        self._body.append(self._block(kind, text, level=head.level + 1 if head else None, marker=marker))
        return ""

    def _add_object(self, object_: Table | Shape) -> None:
        """Add a table, or what a cell around another holds, or a shape's picture and text; the caption on its side."""
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
        """Add a note, header or footer to those of its kind; a comment or deleted text is kept as hidden."""
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
        return make_storable("\n".join(lines)).strip()

    def _block(
        self,
        kind: Kind,
        text: str,
        *,
        level: int | None = None,
        marker: str | None = None,
        cells: tuple[Cell, ...] = (),
    ) -> Block:
        """Return a block in its section, below the headings so far; a heading with a level becomes one of them."""
        # an empty first cell is not white space, and inside a cell, lines keep their indents
        text = text if kind == "table" else text.rstrip() if self._is_inside else make_storable(text).strip()
        place = Place(section=self._section, heading_path=self._headings.path_of(kind, text, level))
        return Block(kind=kind, text=text, level=level, marker=marker, cells=cells, place=place)


def _has_text(object_: Table | Shape) -> bool:
    if isinstance(object_, Shape):
        return bool(object_.paragraphs)
    runs = (run for cell in object_.cells for paragraph in cell.paragraphs for run in paragraph.runs)
    return any(not isinstance(run, str) or run.strip() for run in runs)
