"""All tables of a PDF page: drawn ones first, then columns without lines; each word goes into one table at most."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.rag.documents.pdf_columns import find_aligned
from tasks.rag.documents.pdf_grids import Edges, Grid
from tasks.rag.documents.pdf_layout import rows_of
from tasks.rag.documents.pdf_tables import Table, drawn_tables, fill_grids, outside
from tasks.rag.documents.pdf_text import Fragment, PageText, Word

PARTIAL_SHARE = 0.6
"""A drawn grid narrower than this share of an aligned table around it is a highlight in that table."""


def page_tables(text: PageText, own: Sequence[Fragment], edges: Edges) -> list[Table]:
    """Tables in `own`, the runs of the page that are not headers or footers."""
    if not _asks(own, edges):
        return []
    lines = {fragment.line for fragment in own}
    words = [word for word in text.words() if word.line in lines]
    drawn = drawn_tables(edges, words, text.chars)
    aligned = _aligned(own, words, edges, around=[])
    kept = [table for table in drawn if not any(_highlights(table, grid) for grid in aligned)]
    if drawn:
        aligned = _aligned(own, words, edges, around=kept)
    taken = {word for table in kept for word in table.words}
    return kept + fill_grids(aligned, [word for word in words if word not in taken], text.chars)


def _asks(fragments: Sequence[Fragment], edges: Edges) -> bool:
    """Whether there are lines both ways, or texts that stand side by side."""
    if len(edges.horizontal) > 1 and len(edges.vertical) > 1:
        return True
    return any(len(row) > 1 for row in rows_of(fragments))


def _aligned(own: Sequence[Fragment], words: Sequence[Word], edges: Edges, *, around: Sequence[Table]) -> list[Grid]:
    return find_aligned(outside(own, words, around), edges.horizontal, words)


def _highlights(table: Table, grid: Grid) -> bool:
    """Whether a drawn grid marks a part of an aligned table that goes on beside it."""
    x0, y0, x1, y1 = table.bbox
    left, top, right, bottom = grid.bbox
    inside = min(y1, bottom) - max(y0, top) > 0.5 * (y1 - y0) and x0 < right and x1 > left
    return inside and x1 - x0 < PARTIAL_SHARE * (right - left)
