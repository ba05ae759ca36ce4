"""Blocks of a PDF page in reading order: running headers, paragraphs and tables, comments, running footers.

The kind of a paragraph follows from its number, size and weight. A running header or footer is a row near the edge
that neighbouring pages repeat, or a page number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from tasks.documents.blocks import BBox, Block, Cell, Place
from tasks.documents.document_readers import Headings
from tasks.documents.list_marks import mark_of
from tasks.documents.pdf.pdf_headings import BodyStyle, Draft, classify, with_numbered_headings
from tasks.documents.pdf.pdf_layout import Paragraph, arrange, join_rows, rows_of
from tasks.documents.pdf.pdf_lists import items_of
from tasks.documents.pdf.pdf_tables import Table, table_text
from tasks.documents.pdf.pdf_text import Fragment, PageText
from tasks.documents.pdf.pdf_words import outline

SHORT_SHARE = 0.2  # of the column's width that a title leaves free


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
    found = [draft for item in arrange(own, tables) for draft in _drafts(item, body)]
    drafts += _with_list_levels(with_numbered_headings(found))
    drafts += [Draft("note", text, bbox) for text, bbox in comments]
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
            marker=draft.mark or None,
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
) -> list[Draft]:
    rows = rows_of([fragment for fragment in fragments if fragment.line in lines]) if lines else []
    return [Draft(kind, _row_text(row), outline([f[:4] for f in row])) for row in rows]


def _row_text(row: Sequence[Fragment]) -> str:
    return " ".join(" ".join(fragment.text for fragment in row).split())


def _drafts(item: Paragraph | Table, body: BodyStyle) -> list[Draft]:
    if isinstance(item, Table) and item.listed:
        rows = items_of(item.cells)
        return [Draft("list", row.text, row.bbox, left=item.bbox[0], mark=mark_of(row.text)) for row in rows]
    if isinstance(item, Table):
        return [Draft("table", table_text(item.cells), item.bbox, cells=item.cells)]
    text = join_rows(item.rows)
    kind, level = classify(item, text, body)
    first = item.rows[0]
    mark = first.mark or mark_of(text) if kind == "list" else ""
    alone = len(item.rows) == 1 and first.x1 < item.right - SHORT_SHARE * (item.right - item.left)
    return [Draft(kind, text, outline([row[:4] for row in item.rows]), level, (), first.x0, mark, alone)]


def _with_list_levels(drafts: Sequence[Draft]) -> list[Draft]:
    """Items of a run of list items, with their depth."""
    leveled: list[Draft] = []
    for is_list, run in groupby(drafts, key=lambda draft: draft.kind == "list"):
        items = list(run)
        if is_list:
            levels = list_levels([item.left for item in items])
            items = [item._replace(level=level) for item, level in zip(items, levels, strict=True)]
        leveled += items
    return leveled


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
