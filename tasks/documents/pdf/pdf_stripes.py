"""Tables with every other row shaded: the stripes and the rows between them are one grid."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.documents.pdf.pdf_grids import SNAP, SPILL, Grid, grid_of, text_row_boxes
from tasks.documents.pdf.pdf_text import Word
from tasks.documents.pdf.pdf_words import gaps_of, is_amount, lines_of, phrases_of, words_in

PROSE_SHARE = 0.6
"""Share of a table's width that a line of words fills only if it is prose."""
STRIPE_ROWS = 2
"""A shaded stripe has at most so many rows; a single row may also lead to or end a grid of many."""
HEADER_LINES = 6
"""Lines above a striped table that may name its columns."""
STRIPE_GAP = 2.2
"""Heights of a stripe that may lie between two stripes of one table."""
LAST_ROW_HEIGHTS = 1.2
"""Heights of a stripe in which the row below the last stripe stands."""
SIGN_COLUMNS = 3
"""Columns that an amount, its currency and its closing bracket take up."""
CENTRED_POINTS = 6.0
"""Points by which a title may be off the middle of its table."""


def join_stripes(grids: list[Grid], words: Sequence[Word]) -> list[Grid]:
    """Grids of equal width, one below the other, whose gap holds a few rows of text, as one grid.

    Tables with every other row shaded are drawn so.
    """
    runs: list[list[Grid]] = []
    for grid in grids:
        for run in runs:
            if _continues(run[-1], grid) and not _prose_between(run[-1], grid, words):
                run.append(grid)
                break
        else:
            runs.append([grid])
    return sorted(
        (_stack(run, words) if len(run) > 1 else run[0] for run in runs), key=lambda grid: (grid.ys[0], grid.xs[0])
    )


def _continues(above: Grid, below: Grid) -> bool:
    gap = below.ys[0] - above.ys[-1]
    stripe = min(above.ys[-1] - above.ys[-2], below.ys[1] - below.ys[0])
    rows = sorted((len(above.ys) - 1, len(below.ys) - 1))
    striped = rows[1] <= STRIPE_ROWS or (rows[0] == 1 and gap <= 1.5 * stripe)
    return (
        abs(above.xs[0] - below.xs[0]) <= SNAP
        and abs(above.xs[-1] - below.xs[-1]) <= SNAP
        and 0 <= gap <= STRIPE_GAP * stripe
        and len(above.xs) > 2
        and len(below.xs) > 2
        and striped
    )


def _prose_between(above: Grid, below: Grid, words: Sequence[Word]) -> bool:
    """Whether a line of text in the gap runs on over most of the columns."""
    width = above.xs[-1] - above.xs[0]
    lines = lines_of(words_in((above.xs[0], above.ys[-1], above.xs[-1], below.ys[0]), words))
    return any(sum(w.x1 - w.x0 for w in line) > PROSE_SHARE * width and gaps_of(line) < 2 for line in lines)


def _stack(run: list[Grid], words: Sequence[Word]) -> Grid:
    """One grid over all columns of the run; rows between its members follow the lines of text there."""
    xs = _columns(run)
    top = run[0].ys[0]
    boxes = text_row_boxes(xs, _header_top(run[0], words), top, words)
    for grid, following in zip(run, [*run[1:], None], strict=True):
        boxes += [grid.box(cell) for cell in grid.cells]
        below = following.ys[0] if following else _last_row(grid, xs, words)
        boxes += text_row_boxes(xs, grid.ys[-1], below, words)
    return grid_of(xs, boxes)


def _header_top(grid: Grid, words: Sequence[Word]) -> float:
    """Where the lines begin that name the columns of a striped table: above it, right of its first column."""
    top = grid.ys[0]
    x0, x1 = grid.xs[:2]
    height = grid.ys[1] - grid.ys[0]
    above = lines_of(words_in((x0, top - HEADER_LINES * height, grid.xs[-1], top), words))
    for line in reversed(above[-HEADER_LINES:]):
        if (
            top - max(w.y1 for w in line) > height
            or _is_title(line, grid)
            or (line[0].x0 < x1 - SPILL and gaps_of(line) < 2)
        ):
            break
        top = min(w.y0 for w in line)
    return top


def _is_title(line: Sequence[Word], grid: Grid) -> bool:
    """Whether a line stands centred over the whole table, labels included, and so names no column."""
    off = (line[0].x0 + line[-1].x1) / 2 - (grid.xs[0] + grid.xs[-1]) / 2
    return gaps_of(line) == 0 and abs(off) < CENTRED_POINTS and line[0].x0 < grid.xs[1]


def _last_row(grid: Grid, xs: Sequence[float], words: Sequence[Word]) -> float:
    """Where the row without shade ends that follows the last shaded one; the end of the grid where there is none."""
    bottom, height = grid.ys[-1], grid.ys[-1] - grid.ys[-2]
    lines = lines_of(words_in((xs[0], bottom, xs[-1], bottom + LAST_ROW_HEIGHTS * height), words))
    if not lines:
        return bottom
    phrases = phrases_of(lines[0])
    inside = all(any(a - SPILL <= p.x0 and p.x1 <= b + SPILL for a, b in _spans(xs)) for p in phrases)
    amounts = sum(is_amount(p.text) for p in phrases if p.x0 >= xs[1] - SPILL)
    label = phrases[0].x0 < xs[1] and not is_amount(phrases[0].text)
    return max(w.y1 for w in lines[0]) if inside and label and amounts else bottom


def _spans(xs: Sequence[float]) -> list[tuple[float, float]]:
    """What a cell may reach over: a column, or one with those of its signs."""
    return [(a, b) for i, a in enumerate(xs) for b in xs[i + 1 : i + 1 + SIGN_COLUMNS]]


def _columns(run: list[Grid]) -> tuple[float, ...]:
    xs: list[float] = []
    for x in sorted(x for grid in run for x in grid.xs):
        if not xs or x > xs[-1] + SNAP:
            xs.append(x)
    return tuple(xs)
