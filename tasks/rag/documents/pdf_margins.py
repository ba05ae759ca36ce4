"""Running headers and footers of a PDF page: rows at its edges that its neighbours repeat, and page numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tasks.rag.documents.pdf_layout import rows_of
from tasks.rag.documents.pdf_text import Fragment, PageText

EDGE_ROWS = 3
"""Rows at each end of a page that may be a header or footer."""
EDGE_RUNS = 40
"""Runs of text in which these rows are sought."""
EDGE_SHARE = 0.09
"""Share of the page's height in which headers and footers stand."""
NUMBER_SHARE = 0.1
"""Share of the page's height in which a lone number is a page number."""
SAME_HEIGHT = 4.0
"""Points by which repeated rows may differ in height."""
NUMBER = re.compile(r"\d{1,6}")
COUNTED = re.compile(r"^\W?\s*\d{1,6}\b(?![.)])|\b\d{1,6}\s*\W?$")
"""A row that begins or ends with its number."""
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
    """The rows that a neighbour must know to find what repeats."""
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
        " ".join(" ".join(f.text for f in row).split()),
        frozenset(f.line for f in row),
    )


def _from_edge(
    rows: Iterable[tuple[EdgeRow, float]], height: float, neighbours: Mapping[int, Sequence[EdgeRow]]
) -> frozenset[tuple[int, int]]:
    """Runs of the outermost rows up to the first that belongs to the page's own text; rows come with their depth."""
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
    """The same words: at the same height near the edge, or, anywhere, with a number that counts the pages."""
    if NUMBER.sub("#", row.text) != NUMBER.sub("#", other.text):
        return False
    if at_edge and abs(row.y0 - other.y0) <= SAME_HEIGHT and not PAGE_NUMBER.fullmatch(row.text):
        return True
    steps = [int(b) - int(a) for a, b in zip(NUMBER.findall(row.text), NUMBER.findall(other.text), strict=True)]
    counted = COUNTED.search(row.text) is not None
    return counted and distance in (steps[0], steps[-1]) and all(step in (0, distance) for step in steps)
