"""Grids drawn on a PDF page: lines and rectangles → edges → crossings → cells → grids.

The tolerances are those of pdfplumber's default finder, so that both see the same cells; the search is our own.

Tables with every other row shaded: the stripes and the rows between them are one grid (`join_stripes`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Any, NamedTuple

import pymupdf

from tasks.documents.blocks import BBox
from tasks.documents.pdf.pdf_text import Word
from tasks.documents.pdf.pdf_words import count_gaps, find_words, group_lines, group_phrases, is_amount

SNAP = 3.0
"""Points within which parallel edges are one, gaps in an edge are closed, and edges meet."""
SPILL = 1.5
"""Points by which a word may reach over a line of its cell before it is cut there."""
MIN_EDGE = 3.0
"""Points; what is shorter after joining is a dot or a tick."""
MIN_STROKE = 1.0
"""Points; what is shorter before joining is a dot of a dotted curve."""
PADDING = 6.0
"""Points between the side of a cell and its text, at most, as Word sets them."""
SLANT = 0.1
"""Points by which the ends of a straight line may differ."""
COLUMN_LINE_SHARE = 0.5
"""Share of a table's height that a line between its columns has, where its sides are not drawn."""
MOST_COLUMN_LINES = 400
"""Vertical edges of a page of tables; a drawing has more."""
MAX_CROSSINGS = 20_000
"""Beyond this the drawing is a map or a chart, not a table."""

Point = tuple[float, float]


class Edge(NamedTuple):
    """A drawn line along one axis, in points."""

    at: float
    """Position across the line: y of a horizontal edge, x of a vertical one."""
    start: float
    end: float


class Edges(NamedTuple):
    """All drawn edges of a page, by direction."""

    horizontal: list[Edge]
    vertical: list[Edge]


class GridCell(NamedTuple):
    """A rectangle of a grid, counted in its rows and columns."""

    row: int
    col: int
    row_span: int = 1
    col_span: int = 1


class Grid(NamedTuple):
    """Lines of a table: `xs` and `ys` bound its columns and rows; a place without a cell is a hole.

    A grid without any cell is an outline with columns, whose rows are still to be found.
    """

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    cells: tuple[GridCell, ...]

    @property
    def bbox(self) -> BBox:
        """Return the outline of all cells, in points."""
        return (self.xs[0], self.ys[0], self.xs[-1], self.ys[-1])

    def box(self, cell: GridCell) -> BBox:
        """Return the outline of a cell, in points."""
        row, col = cell.row, cell.col
        return (self.xs[col], self.ys[row], self.xs[col + cell.col_span], self.ys[row + cell.row_span])

    def places(self) -> dict[tuple[int, int], GridCell]:
        """Return the cell that covers each (row, column)."""
        return {
            (row, col): cell
            for cell in self.cells
            for row in range(cell.row, cell.row + cell.row_span)
            for col in range(cell.col, cell.col + cell.col_span)
        }

    def place(self, x: float, y: float) -> tuple[int, int]:
        """Return the row and column of a point, which may lie outside of the grid."""
        return bisect_right(self.ys, y) - 1, bisect_right(self.xs, x) - 1


class _Crossing(NamedTuple):
    """Edges (by index) that meet at a point."""

    horizontal: set[int]
    vertical: set[int]


def find_edges(drawings: Iterable[dict[str, Any]], to_reading: pymupdf.Matrix, *, width: float, height: float) -> Edges:
    """Return the edges of all straight lines and rectangles but for a frame around the page; curves have none.

    drawings: as `Page.get_cdrawings` reports them, in unrotated page space; to_reading: from there to reading space.
    """
    a, b, c, d, e, f = to_reading

    def move(point: Point) -> Point:
        return a * point[0] + c * point[1] + e, b * point[0] + d * point[1] + f

    edges = Edges([], [])
    shaded: tuple[Any, BBox] = (None, (0.0, 0.0, 0.0, 0.0))
    for drawing, item in ((path, item) for path in drawings for item in path["items"]):
        if item[0] == "l":
            _add_line(move(item[1]), move(item[2]), edges)
        elif item[0] == "qu":
            upper_left, upper_right, lower_left, lower_right = map(move, item[1])
            for start, end in pairwise((upper_left, upper_right, lower_right, lower_left, upper_left)):
                _add_line(start, end, edges)
        elif item[0] == "re":
            (ax, ay), (bx, by) = move(item[1][:2]), move(item[1][2:])
            x0, x1, y0, y1 = min(ax, bx), max(ax, bx), min(ay, by), max(ay, by)
            if x1 - x0 > 0.95 * width and y1 - y0 > 0.95 * height:
                continue
            if drawing["type"] == "f":
                fill, (left, top, right, bottom) = shaded
                padded = drawing["fill"] == fill and 0 <= x0 - left < PADDING > right - x1 >= 0
                if padded and top - MIN_STROKE <= y0 < y1 <= bottom + MIN_STROKE:
                    continue  # Word shades a cell, and in the same colour each line of its text
                shaded = drawing["fill"], (x0, y0, x1, y1)
            if x1 - x0 >= MIN_STROKE:
                edges.horizontal.extend((Edge(y0, x0, x1), Edge(y1, x0, x1)))
            if y1 - y0 >= MIN_STROKE:
                edges.vertical.extend((Edge(x0, y0, y1), Edge(x1, y0, y1)))
    return edges


def find_grids(edges: Edges) -> list[Grid]:
    """Return the grids that the edges draw, from top to bottom; a single box is not a grid."""
    horizontal, vertical = merge_edges(edges.horizontal), merge_edges(edges.vertical)
    crossings = _crossings(horizontal, merge_edges([*vertical, *_open_sides(horizontal, vertical)]))
    parts = [boxes for boxes in _connected(_boxes(crossings)) if len(boxes) > 1]
    grids = [build_grid(tuple(sorted({x for box in boxes for x in (box[0], box[2])})), boxes) for boxes in parts]
    return sorted(grids, key=lambda grid: (grid.ys[0], grid.xs[0]))


def build_grid(xs: tuple[float, ...], boxes: Iterable[BBox]) -> Grid:
    """Return the grid over given column lines with the boxes as cells; a box need not lie on the lines exactly."""
    boxes = list(boxes)
    ys = sorted({y for box in boxes for y in (box[1], box[3])})
    row = {y: i for i, y in enumerate(ys)}

    def nearest(x: float) -> int:
        at = bisect_left(xs, x)
        return at if at == 0 or (at < len(xs) and xs[at] - x < x - xs[at - 1]) else at - 1

    cells: list[GridCell] = []
    for x0, y0, x1, y1 in boxes:
        col = nearest(x0)
        cells.append(GridCell(row[y0], col, row[y1] - row[y0], max(nearest(x1) - col, 1)))
    return Grid(xs, tuple(ys), tuple(sorted(cells)))


def _add_line(a: Point, b: Point, edges: Edges) -> None:
    if abs(a[1] - b[1]) <= SLANT and abs(a[0] - b[0]) >= MIN_STROKE:
        edges.horizontal.append(Edge((a[1] + b[1]) / 2, min(a[0], b[0]), max(a[0], b[0])))
    elif abs(a[0] - b[0]) <= SLANT and abs(a[1] - b[1]) >= MIN_STROKE:
        edges.vertical.append(Edge((a[0] + b[0]) / 2, min(a[1], b[1]), max(a[1], b[1])))


def merge_edges(edges: Iterable[Edge], *, gap: float = SNAP) -> list[Edge]:
    """Return parallel edges, but short ones, at their mean position, joined over gaps of up to `gap` points, sorted."""
    groups: list[list[Edge]] = []
    for edge in sorted(edges):
        if groups and edge.at <= groups[-1][-1].at + SNAP:  # chained, as pdfplumber does: SNAP counts from the last
            groups[-1].append(edge)
        else:
            groups.append([edge])
    merged: list[Edge] = []
    for group in groups:
        at = fmean([edge.at for edge in group])
        joined: list[Edge] = []
        for edge in sorted(group, key=lambda e: e.start):
            if joined and edge.start <= joined[-1].end + gap:
                joined[-1] = joined[-1]._replace(end=max(joined[-1].end, edge.end))
            else:
                joined.append(Edge(at, edge.start, edge.end))
        merged += [edge for edge in joined if edge.end - edge.start >= MIN_EDGE]
    return merged


def _open_sides(horizontal: Sequence[Edge], vertical: Sequence[Edge]) -> Iterator[Edge]:
    """Yield the sides of tables that are drawn without: from the first to the last of rules of one length.

    Lines between columns show that the rules are those of a table.
    """
    if not vertical or len(vertical) > MOST_COLUMN_LINES:
        return
    rules: dict[tuple[int, int], list[Edge]] = defaultdict(list)
    for rule in horizontal:
        rules[round(rule.start / SNAP), round(rule.end / SNAP)].append(rule)
    for group in rules.values():
        start, end, top, bottom = group[0].start, group[0].end, group[0].at, group[-1].at
        near = [edge for edge in vertical if top - SNAP <= edge.start and edge.end <= bottom + SNAP]
        inside = [edge for edge in near if start + SNAP < edge.at < end - SNAP and edge.end >= bottom - SNAP]
        inside = [edge for edge in inside if edge.end - edge.start > COLUMN_LINE_SHARE * (bottom - top)]
        if bottom > top + SNAP and inside:
            bare = (x for x in (start, end) if not any(abs(edge.at - x) <= 2 * SNAP for edge in near))
            yield from (Edge(x, top, bottom) for x in bare)


def _crossings(horizontal: list[Edge], vertical: list[Edge]) -> dict[Point, _Crossing]:
    """Return where edges meet, by (x, y), with the edges; empty when there are too many crossings to be tables."""
    crossings: dict[Point, _Crossing] = {}
    levels = [edge.at for edge in horizontal]
    for v, upright in enumerate(vertical):
        first, last = bisect_left(levels, upright.start - SNAP), bisect_right(levels, upright.end + SNAP)
        for h in range(first, last):
            across = horizontal[h]
            if across.start - SNAP <= upright.at <= across.end + SNAP:
                crossing = crossings.setdefault((upright.at, across.at), _Crossing(set(), set()))
                crossing.horizontal.add(h)
                crossing.vertical.add(v)
        if len(crossings) > MAX_CROSSINGS:  # counted on the way: a map has millions
            return {}
    return crossings


def _boxes(crossings: dict[Point, _Crossing]) -> list[BBox]:
    """Return the smallest drawn rectangle to the lower right of each crossing that has one."""
    points = sorted(crossings)
    below = {x: list(group) for x, group in groupby(points, key=lambda p: p[0])}
    right: dict[float, list[Point]] = defaultdict(list)
    for point in points:
        right[point[1]].append(point)

    def after(line: list[Point], point: Point) -> list[Point]:
        return line[bisect_right(line, point) :]

    boxes = (_smallest_box(p, after(below[p[0]], p), after(right[p[1]], p), crossings) for p in points)
    return [box for box in boxes if box]


def _smallest_box(
    point: Point, below: list[Point], right: list[Point], crossings: dict[Point, _Crossing]
) -> BBox | None:
    """Return the smallest box with its top left corner at `point` and all sides drawn; None without one."""
    corner_edges = crossings[point]
    # corners count only along one drawn edge: crossings may lie on different ones
    sides = [p for p in right if not corner_edges.horizontal.isdisjoint(crossings[p].horizontal)]
    for under in below:
        if corner_edges.vertical.isdisjoint(crossings[under].vertical):
            continue
        for side in sides:
            corner = crossings.get((side[0], under[1]))
            if (
                corner
                and not corner.vertical.isdisjoint(crossings[side].vertical)
                and not corner.horizontal.isdisjoint(crossings[under].horizontal)
            ):
                return (*point, side[0], under[1])
    return None


def _connected(boxes: list[BBox]) -> list[list[BBox]]:
    """Return the boxes in groups that are connected by their corners."""
    parent = list(range(len(boxes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]  # path halving keeps the trees of this union-find flat
        return i

    owner: dict[Point, int] = {}
    for i, box in enumerate(boxes):
        x0, y0, x1, y1 = box
        for corner in ((x0, y0), (x0, y1), (x1, y0), (x1, y1)):
            parent[root(owner.setdefault(corner, i))] = root(i)
    groups: dict[int, list[BBox]] = defaultdict(list)
    for i, box in enumerate(boxes):
        groups[root(i)].append(box)
    return list(groups.values())


PROSE_SHARE = 0.6
"""Share of a table's width that a line of words fills only if it is prose."""
STRIPE_ROWS = 2
"""A shaded stripe has at most so many rows; a single row may also lead to or end a grid of many."""
STRIPE_GAP = 2.2
"""Heights of a stripe that may lie between two stripes of one table."""
LAST_ROW_HEIGHTS = 1.2
"""Heights of a stripe in which the row below the last stripe stands."""
SIGN_COLUMNS = 3
"""Columns that an amount, its currency and its closing bracket take up."""


def join_stripes(grids: list[Grid], words: Sequence[Word]) -> list[Grid]:
    """Return the grids, stripes of one table as one without cells: of one width, with a few rows of text between."""
    runs: list[list[Grid]] = []
    for grid in grids:
        run = next((run for run in runs if _continues(run[-1], grid, words)), None)
        if run is None:
            runs.append([grid])
        else:
            run.append(grid)
    joined = [run[0] for run in runs if len(run) == 1]
    for run in (run for run in runs if len(run) > 1):
        xs: list[float] = []
        for x in sorted(x for grid in run for x in grid.xs):
            if not xs or x > xs[-1] + SNAP:
                xs.append(x)
        joined.append(Grid(tuple(xs), (run[0].ys[0], _last_row(run[-1], xs, words)), ()))
    return sorted(joined, key=lambda grid: (grid.ys[0], grid.xs[0]))


def _continues(above: Grid, below: Grid, words: Sequence[Word]) -> bool:
    """Return whether two grids are stripes of one table."""
    gap = below.ys[0] - above.ys[-1]
    stripe = min(above.ys[-1] - above.ys[-2], below.ys[1] - below.ys[0])
    rows = sorted((len(above.ys) - 1, len(below.ys) - 1))
    striped = rows[1] <= STRIPE_ROWS or (rows[0] == 1 and gap <= 1.5 * stripe)
    if (
        not striped
        or abs(above.xs[0] - below.xs[0]) > SNAP
        or abs(above.xs[-1] - below.xs[-1]) > SNAP
        or not 0 <= gap <= STRIPE_GAP * stripe
        or min(len(above.xs), len(below.xs)) < 3
    ):
        return False
    # no line of text in the gap runs on over most of the columns
    width = above.xs[-1] - above.xs[0]
    between = group_lines(find_words((above.xs[0], above.ys[-1], above.xs[-1], below.ys[0]), words))
    return not any(sum(w.x1 - w.x0 for w in line) > PROSE_SHARE * width and count_gaps(line) < 2 for line in between)


def _last_row(grid: Grid, xs: Sequence[float], words: Sequence[Word]) -> float:
    """Return the bottom of the unshaded row below the last stripe; that of the grid where there is no such row."""
    bottom, height = grid.ys[-1], grid.ys[-1] - grid.ys[-2]
    lines = group_lines(find_words((xs[0], bottom, xs[-1], bottom + LAST_ROW_HEIGHTS * height), words))
    if not lines:
        return bottom
    phrases = group_phrases(lines[0])
    # what a cell may reach over: a column, or one with those of its signs
    spans = [(a, b) for i, a in enumerate(xs) for b in xs[i + 1 : i + 1 + SIGN_COLUMNS]]
    inside = all(any(a - SPILL <= p.x0 and p.x1 <= b + SPILL for a, b in spans) for p in phrases)
    amounts = sum(is_amount(p.text) for p in phrases if p.x0 >= xs[1] - SPILL)
    label = phrases[0].x0 < xs[1] and not is_amount(phrases[0].text)
    return max(w.y1 for w in lines[0]) if inside and label and amounts else bottom
