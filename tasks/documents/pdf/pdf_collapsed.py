"""Adds the lines that the drawing of a table lacks: between columns, between rows, and around its header.

A shaded or half ruled table is often drawn with fewer lines than it has columns and rows; the reader sees them by the
white between the amounts. Lines are added from what the words show, before the words are put into cells.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tasks.documents.pdf.pdf_grids import HEADER_LINES, SNAP, SPILL, Grid, GridCell, build_grid, make_text_row_boxes
from tasks.documents.pdf.pdf_text import Word
from tasks.documents.pdf.pdf_words import (
    CLOSING,
    CURRENCY,
    Phrase,
    find_gutters,
    find_words,
    group_lines,
    group_phrases,
    is_amount,
    is_number,
    is_year,
    place_line,
)

MIN_GUTTER = 2.0
"""Points between two columns of amounts."""
APART_POINTS = 30.0
"""Points between a label and the one amount of its row from which they are two columns."""
HEADER_POINTS = 90.0
"""How far above a table its header begins at most."""
TITLES_POINTS = 60.0
"""How far above a table titles of columns decide where exactly between two columns a line is drawn."""


def complete_grid(grid: Grid, words: Sequence[Word]) -> Grid:
    """Return the grid with the lines that its words call for.

    words: of the page, without those in other tables.
    """
    inside = find_words(grid.bbox, words)
    return _with_header(_with_rows(_with_columns(grid, inside, words), inside), inside, words)


def _with_columns(grid: Grid, inside: Sequence[Word], words: Sequence[Word]) -> Grid:
    """Return the grid with column lines through cells that hold several amounts in a line."""
    lines = {cell: [group_phrases(line) for line in cell_lines] for cell, cell_lines in _by_cell(grid, inside).items()}
    spans = {(cell.col, cell.col + cell.col_span) for cell in lines if any(map(holds_columns, lines[cell]))}
    if not spans:
        return grid
    titled = [w for w in words if grid.ys[0] - TITLES_POINTS <= w.y0 < grid.ys[-1]]
    added: set[float] = set()
    # the widest first, as narrow spans then share its lines
    for first, last in sorted(spans, key=lambda span: span[0] - span[1]):
        within = [cell for cell in lines if first <= cell.col and cell.col + cell.col_span <= last]
        added |= set(_missing_lines([line for cell in within for line in lines[cell]], [*grid.xs, *added], titled))
    xs = tuple(sorted({*grid.xs, *added}))
    cells: list[GridCell] = []
    for cell in grid.cells:
        left, right = grid.xs[cell.col], grid.xs[cell.col + cell.col_span]
        own = lines.get(cell, [])
        phrases = [phrase for line in own for phrase in line]
        # no line goes through a phrase, or through a title over several columns
        titles = own and all(len(line) == 1 for line in own) and not any(is_amount(p.text) for p in phrases)
        inner = [] if titles else [x for x in xs if left < x < right]
        cuts = [x for x in inner if not any(phrase.x0 + 1 < x < phrase.x1 - 1 for phrase in phrases)]
        for a, b in pairwise([left, *cuts, right]):
            cells.append(GridCell(cell.row, xs.index(a), cell.row_span, xs.index(b) - xs.index(a)))
    return Grid(xs, grid.ys, tuple(sorted(cells)))


def holds_columns(line: Sequence[Phrase]) -> bool:
    """Return whether a line in a cell is a row of several columns: two amounts, or a label far before its amount."""
    if sum(is_amount(phrase.text) for phrase in line) > 1:
        return True
    return len(line) == 2 and is_amount(line[1].text) and line[1].x0 - line[0].x1 > APART_POINTS


def _missing_lines(
    rows: Iterable[Sequence[Phrase]], column_lines: Sequence[float], words: Sequence[Word]
) -> Iterator[float]:
    """Yield the x of each missing column line: where the fewest words cross it, in the middle of the widest place."""
    several = [line for line in rows if holds_columns(line)]
    below = [line for line in several if not all(is_year(phrase.text) for phrase in line)]  # years may span columns
    extents = [[(phrase.x0, phrase.x1) for phrase in line] for line in below or several]
    for start, end in find_gutters(extents, least=MIN_GUTTER):
        if any(start - SNAP < x < end + SNAP for x in column_lines):
            continue
        yield place_line(start, end, words)


def _with_rows(grid: Grid, inside: Sequence[Word]) -> Grid:
    """Return the grid with row lines between amounts that stand one below the other in several cells of a row."""
    by_cell = _by_cell(grid, inside)
    cuts: dict[int, list[float]] = {}
    # rows that are cut nowhere, as a cell goes on through them
    spanned = {row for cell in grid.cells if cell.row_span > 1 for row in range(cell.row, cell.row + cell.row_span)}
    for row in range(len(grid.ys) - 1):
        cells = [by_cell.get(cell, []) for cell in grid.cells if cell.row == row]
        top, bottom = grid.ys[row], grid.ys[row + 1]
        heights = [] if row in spanned else [y for y in _row_cuts(cells) if top < y < bottom]
        if heights:
            cuts[row] = heights
    if not cuts:
        return grid
    ys: list[float] = []
    rows: list[GridCell] = []
    for row, top in enumerate(grid.ys[:-1]):
        ys += [top, *cuts.get(row, [])]
    ys.append(grid.ys[-1])
    row_at = {y: i for i, y in enumerate(ys)}
    for cell in grid.cells:
        bounds = [grid.ys[cell.row], *cuts.get(cell.row, []), grid.ys[cell.row + cell.row_span]]
        if cell.row in cuts:
            rows += [GridCell(row_at[a], cell.col, 1, cell.col_span) for a, _ in pairwise(bounds)]
        else:
            first, last = row_at[bounds[0]], row_at[bounds[-1]]
            rows.append(GridCell(first, cell.col, last - first, cell.col_span))
    return Grid(grid.xs, tuple(ys), tuple(sorted(rows)))


def _row_cuts(cells: Sequence[Sequence[Sequence[Word]]]) -> list[float]:
    """Return the y between the amounts of a row's cells, which are given as lines; none where it is one row."""

    def is_pile(line: Sequence[Word]) -> bool:
        return is_amount(" ".join(word.text for word in line)) or all(is_amount(p.text) for p in group_phrases(line))

    piles = [lines for lines in cells if len(lines) > 1 and all(map(is_pile, lines))]
    pile = max(piles, key=len, default=[])
    if len(pile) < 2 or sum(len(lines) == len(pile) for lines in cells) < 2:
        return []
    labels = [lines for lines in cells if len(lines) > 1 and lines not in piles]
    first = min((min(w.y0 for w in lines[0]) for lines in labels), default=None)
    tops = [min(w.y0 for w in line) for line in pile]
    bottoms = [max(w.y1 for w in line) for line in pile]
    if first is not None and first < tops[0] - (bottoms[0] - tops[0]) / 2:
        return [bottom + 0.5 for bottom in bottoms[:-1]]  # labels end where their amounts stand
    if labels:
        return [top - 0.5 for top in tops[1:]]  # labels begin where their amounts stand
    return [(bottom + top) / 2 for bottom, top in zip(bottoms, tops[1:], strict=False)]


def _with_header(grid: Grid, inside: Sequence[Word], words: Sequence[Word]) -> Grid:
    """Return the grid with the lines of text above that name its columns, if its own columns begin with amounts."""
    top = grid.ys[0]
    column_texts = [[p.text for p in group_phrases(line) if p.x0 > grid.xs[1] - SNAP] for line in group_lines(inside)]
    first = next(filter(None, column_texts), [])
    if not any(is_amount(text) and not is_year(text) and any(map(str.isdigit, text)) for text in first):
        return grid
    above = group_lines(find_words((grid.xs[0] - SNAP, top - HEADER_POINTS, grid.xs[-1] + SNAP, top), words))
    begins = reached = top
    for line in reversed(above[-HEADER_LINES:]):
        height = max(w.y1 - w.y0 for w in line)
        phrases = group_phrases(line)
        # a title over the whole table names no column
        is_title = any(p.x0 < grid.xs[1] - SNAP and p.x1 > grid.xs[1] + SNAP for p in phrases)
        if reached - max(w.y1 for w in line) > height or is_title:
            break
        reached = min(w.y0 for w in line)
        if phrases[-1].x0 > grid.xs[1] - SNAP:  # a line with a label alone heads a group of rows
            begins = reached
    if begins == top:
        return grid
    header = make_text_row_boxes(grid.xs, begins, top, words)
    return build_grid(grid.xs, [*header, *map(grid.box, grid.cells)])


def _by_cell(grid: Grid, words: Iterable[Word]) -> dict[GridCell, list[list[Word]]]:
    """Return the words of each cell in lines; a word belongs to the cell around its middle."""
    places = grid.places()
    by_cell: dict[GridCell, list[Word]] = defaultdict(list)
    for word in words:
        if cell := places.get(grid.place((word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2)):
            by_cell[cell].append(word)
    return {cell: group_lines(inside) for cell, inside in by_cell.items()}


def drop_sign_columns(grid: Grid, cell_words: Mapping[GridCell, list[Word]]) -> tuple[Grid, dict[GridCell, list[Word]]]:
    """Return the grid with currency signs and closing brackets beside their amounts, not in columns of their own.

    Neighbouring columns are one if no row fills both, but for such a sign, and some row shows that they are.
    """
    texts = {(cell.row, cell.col): " ".join(word.text for word in words) for cell, words in cell_words.items()}
    # the columns of each amount, and those into which its words reach
    wide = [
        range(
            min([cell.col, *(bisect_right(grid.xs, word.x0 + SPILL) - 1 for word in words)]),
            max([cell.col + cell.col_span, *(bisect_left(grid.xs, word.x1 - SPILL) for word in words)]),
        )
        for cell, words in cell_words.items()
        if is_number(texts[cell.row, cell.col])
    ]
    groups: list[list[int]] = []
    for col in sorted({cell.col for cell in cell_words}):
        if groups and _are_one(groups[-1], col, texts, wide):
            groups[-1].append(col)
        else:
            groups.append([col])
    first = {col: group[0] for group in groups for col in group}
    ends = {group[0]: group[-1] for group in groups}
    moved: dict[tuple[int, int], GridCell] = {}
    words: dict[GridCell, list[Word]] = defaultdict(list)
    for cell in grid.cells:
        col = first.get(cell.col, cell.col)
        before = moved.get((cell.row, col), GridCell(cell.row, col))
        end = max(cell.col + cell.col_span, ends.get(col, col) + 1, before.col + before.col_span)
        moved[cell.row, col] = GridCell(cell.row, col, max(cell.row_span, before.row_span), end - col)
    for cell, own in cell_words.items():
        words[moved[cell.row, first[cell.col]]] += own
    return grid._replace(cells=tuple(moved.values())), dict(words)


def _are_one(group: Sequence[int], col: int, texts: Mapping[tuple[int, int], str], wide: Iterable[range]) -> bool:
    """Return whether a column belongs to the group before it: no row fills both, but for signs, and a row joins both.

    wide: the columns into which the words of each amount reach.
    """
    joined = any(col in columns and group[-1] in columns for columns in wide)
    for row, text in ((row, text) for (row, column), text in texts.items() if column == col):
        for own in (texts.get((row, before), "") for before in group):
            if own and own not in CURRENCY and text not in CLOSING:
                return False
            joined = joined or bool(own)
    return joined
