"""Blocks of a PDF page in reading order: running headers, paragraphs and tables, comments, running footers.

The kind of a paragraph follows from its number, size and weight. A running header or footer is a row near the edge
that neighbouring pages repeat, or a page number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from tasks.documents.blocks import BBox, Block, Cell, Kind, Place
from tasks.documents.document_readers import Headings
from tasks.documents.pdf.pdf_layout import (
    BULLET,
    COUNTED,
    DIVISION,
    SMALL_WORD,
    Paragraph,
    arrange,
    join_rows,
    rows_of,
)
from tasks.documents.pdf.pdf_lists import items_of
from tasks.documents.pdf.pdf_tables import Table, table_text
from tasks.documents.pdf.pdf_text import Fragment, PageText
from tasks.documents.pdf.pdf_words import outline


class BodyStyle(NamedTuple):
    """Font size (points) and weight of most of the text."""

    size: float
    bold: bool


def body_style(fragments: Iterable[Fragment]) -> BodyStyle | None:
    """The commonest style, by characters; None without text."""
    styles: Counter[BodyStyle] = Counter()
    for fragment in fragments:
        styles[BodyStyle(round(fragment.size * 2) / 2, fragment.bold)] += len(fragment.text)
    return styles.most_common(1)[0][0] if styles else None


class _Draft(NamedTuple):
    kind: Kind
    text: str
    bbox: BBox
    level: int | None = None
    cells: tuple[Cell, ...] = ()
    left: float = 0.0
    """Where the first row begins."""


def page_blocks(
    fragments: Sequence[Fragment],
    tables: Sequence[Table] = (),
    *,
    running: Running,
    body: BodyStyle,
    page: int,
    comments: Iterable[tuple[str, BBox]] = (),
    to_page: Callable[[BBox], BBox] | None = None,
) -> tuple[Block, ...]:
    """Blocks of a page with their places, from boxes in reading space.

    fragments: text outside of tables; comments: annotations that are not printed;
    to_page: from reading space to the shown page, where these differ.
    """
    own = [fragment for fragment in fragments if fragment.line not in running.header | running.footer]
    drafts = _edge_drafts(fragments, running.header, "header")
    drafts += _with_list_levels([draft for item in arrange(own, tables) for draft in _drafts(item, body)])
    drafts += [_Draft("note", text, bbox) for text, bbox in comments]
    drafts += _edge_drafts(fragments, running.footer, "footer")
    headings = Headings()
    return tuple(
        Block(
            kind=draft.kind,
            text=draft.text,
            page=page,
            bbox=to_page(draft.bbox) if to_page else draft.bbox,
            cells=_mapped(draft.cells, to_page),
            level=draft.level,
            place=Place(block=number, heading_path=headings.path_of(draft.kind, draft.text, draft.level)),
        )
        for number, draft in enumerate(drafts)
    )


def _mapped(cells: tuple[Cell, ...], to_page: Callable[[BBox], BBox] | None) -> tuple[Cell, ...]:
    if to_page is None:
        return cells
    return tuple(c.model_copy(update={"bbox": to_page(c.bbox)}) if c.bbox else c for c in cells)


def _edge_drafts(
    fragments: Iterable[Fragment], lines: frozenset[tuple[int, int]], kind: Literal["header", "footer"]
) -> list[_Draft]:
    rows = rows_of([fragment for fragment in fragments if fragment.line in lines]) if lines else []
    return [_Draft(kind, _row_text(row), outline([f[:4] for f in row])) for row in rows]


def _row_text(row: Sequence[Fragment]) -> str:
    return " ".join(" ".join(fragment.text for fragment in row).split())


def _drafts(item: Paragraph | Table, body: BodyStyle) -> list[_Draft]:
    if isinstance(item, Table) and item.listed:
        return [_Draft("list", row.text, row.bbox, left=item.bbox[0]) for row in items_of(item.cells)]
    if isinstance(item, Table):
        return [_Draft("table", table_text(item.cells), item.bbox, cells=item.cells)]
    text = join_rows(item.rows)
    kind, level = classify(item, text, body)
    return [_Draft(kind, text, outline([row[:4] for row in item.rows]), level, left=item.rows[0].x0)]


def _with_list_levels(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Items of a run of list items, with their depth."""
    leveled: list[_Draft] = []
    for is_list, run in groupby(drafts, key=lambda draft: draft.kind == "list"):
        items = list(run)
        if is_list:
            levels = list_levels([item.left for item in items])
            items = [item._replace(level=level) for item, level in zip(items, levels, strict=True)]
        leveled += items
    return leveled


MAX_HEADING_CHARS = 120
MAX_HEADING_ROWS = 3
MAX_NUMBERED_HEADING_CHARS = 60  # a longer numbered line is a sentence, not a title
LARGER = 1.12  # font size of a heading over that of running text

DIVISION_LEVEL = {"편": 1, "부": 1, "장": 1, "절": 2, "관": 3, "조": 4}
DECIMAL = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+(?=\D)")
HANGUL_NUMBER = re.compile(r"[가나다라마바사아자차카타파하]\s*[.)]\s*")
CAPTION = re.compile(
    r"[<\[【〈(]?\s*(?:그림|표|사진|도표|별표|Figure|Fig\.|Table|Chart|Exhibit)\s*[\dⅠ-ⅩA-Z][\d.\-–]*\s*[>\]】〉)]?[\s.:]"
    r"|[(\[]\s*단위\s*[:：]"
)
SENTENCE_END = re.compile(r"[.;,。][”’\"']*\s*$|(?:다|요|음|함|임)\.\s*$")


def classify(paragraph: Paragraph, text: str, body: BodyStyle) -> tuple[Kind, int | None]:
    """Kind of a paragraph, and its level where it has one."""
    rows = paragraph.rows
    larger = rows[0].size >= LARGER * body.size
    bold = all(row.bold for row in rows) and not body.bold
    if CAPTION.match(text) and len(text) < 2 * MAX_HEADING_CHARS and len(rows) <= MAX_HEADING_ROWS and not larger:
        return "caption", None
    if _could_head(paragraph, text):
        level = _heading_level(text, rows[0].size / body.size, larger=larger, bold=bold)
        if level is not None:
            return "heading", level
    if BULLET.match(text) or COUNTED.match(text):
        return "list", None
    return "paragraph", None


def list_levels(lefts: Sequence[float]) -> list[int]:
    """Depth of each item of a run, by where its first row begins; 1 is the outermost."""
    levels: list[int] = []
    stack: list[float] = []
    for left in lefts:
        while stack and left < stack[-1] - 4:
            stack.pop()
        if not stack or left > stack[-1] + 4:
            stack.append(left)
        levels.append(len(stack))
    return levels


def _could_head(paragraph: Paragraph, text: str) -> bool:
    return bool(
        len(paragraph.rows) <= MAX_HEADING_ROWS
        and len(text) <= MAX_HEADING_CHARS
        and any(char.isalpha() for char in text)
        and not SENTENCE_END.search(text)
        and not SMALL_WORD.match(text)
        and text.count("”") <= text.count("“")
        and (DIVISION.match(text) or not any(row.tabular for row in paragraph.rows))
    )


def _heading_level(text: str, ratio: float, *, larger: bool, bold: bool) -> int | None:
    """Level by number where there is one, else by size; None for what is no heading."""
    short = len(text) <= MAX_NUMBERED_HEADING_CHARS
    division = DIVISION.match(text)
    if division and short and (larger or bold or not division["word"]):
        if division["unit"]:
            return DIVISION_LEVEL[division["unit"]]
        return 3 if division["square"] else 1
    if (decimal := DECIMAL.match(text)) and short and (larger or bold):
        return 1 + decimal["number"].count(".") + 1
    if HANGUL_NUMBER.match(text) and short and (larger or bold):
        return 4
    if BULLET.match(text) or COUNTED.match(text):
        return 4 if short and larger else None
    if larger:
        return 1 if ratio >= 1.7 else 2 if ratio >= 1.35 else 3
    return 4 if bold else None


EDGE_ROWS = 3  # rows at each end of a page that may be a header or footer
EDGE_RUNS = 40  # runs of text among which these rows are searched
EDGE_SHARE = 0.09  # share of the page's height in which headers and footers stand
NUMBER_SHARE = 0.1  # share of the page's height in which a lone number is a page number
SAME_HEIGHT = 4.0  # points by which repeated rows may differ in height
NUMBER = re.compile(r"\d{1,6}")
COUNTING = re.compile(r"^\W?\s*\d{1,6}\b(?![.)])|\b\d{1,6}\s*\W?$")  # begins or ends with a number
PAGE_NUMBER = re.compile(r"\W*(?:(?:page|p\.|쪽)\s*)?\d{1,4}(?:\s*(?:/|of|쪽|면)\s*\d{0,4})?\W*", re.IGNORECASE)


class EdgeRow(NamedTuple):
    """A row near an end of a page."""

    y0: float
    y1: float
    text: str
    lines: frozenset[tuple[int, int]]
    """Runs that it is made of."""


class Margins(NamedTuple):
    """Outermost rows of a page, from its edge inwards."""

    height: float
    top: tuple[EdgeRow, ...]
    bottom: tuple[EdgeRow, ...]


class Running(NamedTuple):
    """Runs (`Fragment.line`) of headers and footers."""

    header: frozenset[tuple[int, int]]
    footer: frozenset[tuple[int, int]]


def margins_of(text: PageText) -> Margins:
    """The outermost rows of a page, which are compared with those of its neighbours."""
    upright = sorted((f for f in text.fragments if f.upright), key=lambda f: f.y0 + f.y1)
    top = tuple(map(_edge_row, rows_of(upright[:EDGE_RUNS])[:EDGE_ROWS]))
    bottom = tuple(map(_edge_row, reversed(rows_of(upright[-EDGE_RUNS:])[-EDGE_ROWS:])))
    return Margins(text.height, top, bottom)


def running_rows(own: Margins, neighbours: Mapping[int, Margins]) -> Running:
    """Headers and footers of a page; neighbours: by distance in pages (-1 is the page before)."""
    above = {distance: margins.top for distance, margins in neighbours.items()}
    below = {distance: margins.bottom for distance, margins in neighbours.items()}
    header = _from_edge([(row, row.y1) for row in own.top], own.height, above)
    footer = _from_edge([(row, own.height - row.y0) for row in own.bottom], own.height, below)
    return Running(header, footer - header)


def _edge_row(row: Sequence[Fragment]) -> EdgeRow:
    return EdgeRow(
        min(f.y0 for f in row),
        max(f.y1 for f in row),
        _row_text(row),
        frozenset(f.line for f in row),
    )


def _from_edge(
    rows: Iterable[tuple[EdgeRow, float]], height: float, neighbours: Mapping[int, Sequence[EdgeRow]]
) -> frozenset[tuple[int, int]]:
    """Runs of the outermost rows up to the first of the page's own text; rows come with their depth from the edge."""
    found: frozenset[tuple[int, int]] = frozenset()
    for row, depth in rows:
        at_edge = depth <= EDGE_SHARE * height
        lone_number = depth <= NUMBER_SHARE * height and PAGE_NUMBER.fullmatch(row.text)
        if not lone_number and not any(
            _repeats(row, other, distance=distance, at_edge=at_edge)
            for distance, others in neighbours.items()
            for other in others
        ):
            break
        found |= row.lines
    return found


def _repeats(row: EdgeRow, other: EdgeRow, *, distance: int, at_edge: bool) -> bool:
    """Whether both have the same words at the same height near the edge, or a number that counts the pages."""
    if NUMBER.sub("#", row.text) != NUMBER.sub("#", other.text):
        return False
    if at_edge and abs(row.y0 - other.y0) <= SAME_HEIGHT and not PAGE_NUMBER.fullmatch(row.text):
        return True
    steps = [int(b) - int(a) for a, b in zip(NUMBER.findall(row.text), NUMBER.findall(other.text), strict=True)]
    counted = COUNTING.search(row.text) is not None
    return counted and distance in (steps[0], steps[-1]) and all(step in (0, distance) for step in steps)
