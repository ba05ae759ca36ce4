"""Rows of a table without lines between them: lines of text that wrap in their cells are one row.

Names of columns are stacked by column, a title spans the columns it stands over, a wrapped label stays with its row.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tasks.documents.blocks import BBox
from tasks.documents.pdf.pdf_grids import SNAP, SPILL, Edge, Grid, GridCell, build_grid
from tasks.documents.pdf.pdf_text import Word
from tasks.documents.pdf.pdf_words import (
    CLOSING,
    Phrase,
    count_gaps,
    find_gutters,
    find_words,
    group_lines,
    group_phrases,
    is_amount,
    is_number,
    is_word,
    is_year,
    place_line,
)

MIN_GUTTER = 2.0
"""Points between two columns of amounts."""
APART_POINTS = 30.0
"""Points between a label and the one amount of its row from which they are two columns."""
HEADER_POINTS = 90.0
"""How far above a table its header begins at most."""
FAR_HEIGHTS = 3
"""White above a table, in heights of a line, up to which texts over several of its columns are its header."""
TITLE_WORDS = 4
"""Words of a line that begins with the labels, from which it is a title over the table, where they stand close."""
SEVERAL_SHARE = 0.25
"""Share of the lines with amounts that hold several in one column, from which a line is missing there."""
TITLES_POINTS = 60.0
"""How far above a table titles of columns decide where exactly between two columns a line is drawn."""
CENTRED = 4.0
"""Points by which a title may be off the middle of its columns."""
FULL_RULE = 0.8
"""Share of a table's width that the rule below its header covers."""
HEADER_LINES = 8
"""Lines of text that a header has at most."""
COUNTED_SHARE = 0.6
"""Share of rows below a header that hold amounts."""
MOST_LABELLED = 3
"""Lines of a header that hold a label and names."""
STEP_HEIGHTS = 0.15
"""Heights of a line by which the white between rows is more than that between the lines of a row."""
SPACE_HEIGHTS = 0.28
"""White between two words in heights of a line, from which it is more than a space."""
OFFSET_HEIGHTS = 0.75
"""Heights of a line by which texts of one row may be offset."""
CLOSE_HEIGHTS = 0.8
"""White within a row, in heights of a line."""
UNFINISHED = re.compile(r"(?:[,&/(]|\b(?:and|or|of|the|for|in|to|by|with|from|per|at|on|a|an)|\w-)$")
"""The end of a line that goes on below."""


class _Name(NamedTuple):
    """A name of columns: its first and last line, its first and last column."""

    begin: int
    end: int
    first: int
    last: int


class _Line(NamedTuple):
    y0: float
    y1: float
    phrases: tuple[Phrase, ...]
    spans: tuple[tuple[int, int], ...]
    """First and last column of each phrase."""

    @property
    def columns(self) -> set[int]:
        """Return the columns that hold text."""
        return {col for first, last in self.spans for col in range(first, last + 1)}

    @property
    def label(self) -> str:
        """Return the text that begins in the first column."""
        return self.phrases[0].text if self.spans[0][0] == 0 else ""

    @property
    def values(self) -> set[int]:
        """Return the columns behind the first that hold text."""
        return self.columns - {0}

    @property
    def amounts(self) -> set[int]:
        """Return the columns behind the first that hold amounts."""
        found = zip(self.phrases, self.spans, strict=True)
        return {last for phrase, (_, last) in found if last and is_amount(phrase.text) and not is_year(phrase.text)}


def complete_grid(grid: Grid, words: Sequence[Word], rules: Sequence[Edge]) -> Grid:
    """Return a drawn grid with the columns, rows and names of columns that its drawing lacks.

    words: of the page, without those in other tables. rules: horizontal edges of the page.
    """
    lines = group_lines(find_words(grid.bbox, words))
    by_cell = _by_cell(grid, lines)
    added = _missing_columns(grid, by_cell, words)
    # amounts one below the other in several cells of a row: its rows are not drawn
    piles = Counter(
        (cell.row, len(inside))
        for cell, inside in by_cell.items()
        if cell.row_span == 1 and len(inside) > 1 and all(is_amount(p.text) for line in inside for p in line)
    )
    if added is not None or not grid.cells or max(piles.values(), default=0) > 1:
        counted = [line for line in lines if any(is_amount(w.text) and not is_year(w.text) for w in line)]
        outline = Grid(tuple(sorted({*grid.xs, *(added or ())})), grid.ys, ())
        outline = _join_columns(outline, counted or lines)
        # names that a drawing with all columns holds are all that it has
        top = _find_head(outline if added else outline._replace(cells=grid.cells), lines, words)
        return build_grid(outline.xs, make_row_boxes(outline.xs, top, grid.ys[-1], words, rules))

    grid = _join_columns(grid, lines)
    top = _find_head(grid, lines, words)
    if top == grid.ys[0]:
        return grid
    body = _read_lines(grid.xs, grid.ys[0], grid.ys[-1], words)
    head = _read_lines(grid.xs, top, grid.ys[0], words)
    bounds = [top, *((above.y1 + below.y0) / 2 for above, below in pairwise(head)), grid.ys[0]]
    return build_grid(grid.xs, [*_header_boxes(grid.xs, head, bounds, rules, body), *map(grid.box, grid.cells)])


def holds_columns(line: Sequence[Phrase]) -> bool:
    """Return whether a line in a cell is a row of several columns: two amounts, or a label far before its amount."""
    if sum(is_amount(phrase.text) for phrase in line) > 1:
        return True
    return len(line) == 2 and is_amount(line[1].text) and line[1].x0 - line[0].x1 > APART_POINTS


def _by_cell(grid: Grid, lines: Iterable[Sequence[Word]]) -> dict[GridCell, list[list[Phrase]]]:
    """Return the phrases of each cell by line; those of each column where there are no cells yet."""
    places = grid.places() or {(0, col): GridCell(0, col) for col in range(len(grid.xs) - 1)}
    by_cell: dict[GridCell, list[list[Phrase]]] = defaultdict(list)
    for line in lines:
        words: dict[GridCell, list[Word]] = defaultdict(list)
        for word in line:
            if cell := places.get(grid.place((word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2)):
                words[cell].append(word)
        for cell, inside in words.items():
            by_cell[cell].append(group_phrases(inside))
    return by_cell


def _missing_columns(
    grid: Grid, by_cell: Mapping[GridCell, list[list[Phrase]]], words: Sequence[Word]
) -> set[float] | None:
    """Return the x of lines to add between columns; empty where other rows draw them, None where none is missing."""
    spans = {(c.col, c.col + c.col_span) for c, lines in by_cell.items() if any(map(holds_columns, lines))}
    titled = [w for w in words if grid.ys[0] - TITLES_POINTS <= w.y0 < grid.ys[-1]] if spans else []
    added: set[float] = set()
    is_missing = False
    # the widest first, as narrow spans then share its lines
    for first, last in sorted(spans, key=lambda span: span[0] - span[1]):
        within = [(c.col, c.col + c.col_span, line) for c in by_cell for line in by_cell[c] if holds_columns(line)]
        several = [line for start, end, line in within if first <= start and end <= last]
        own = [line for c in by_cell for line in by_cell[c] if (c.col, c.col + c.col_span) == (first, last)]
        if len(several) < SEVERAL_SHARE * sum(any(is_amount(p.text) for p in line) for line in own):
            continue  # a title that holds two numbers
        below = [line for line in several if not all(is_year(phrase.text) for phrase in line)]  # years may span columns
        extents = [[(phrase.x0, phrase.x1) for phrase in line] for line in below or several]
        gutters = find_gutters(extents, least=MIN_GUTTER)
        is_missing = is_missing or (bool(gutters) and len(several) > 1)
        added |= {
            place_line(start, end, titled)
            for start, end in gutters
            if not any(start - SNAP < x < end + SNAP for x in (*grid.xs, *added))
        }
    return added if added or is_missing else None


def _join_columns(grid: Grid, lines: Iterable[Sequence[Word]]) -> Grid:
    """Return the grid without columns in which nothing stands, and with amounts and their signs in one column.

    Columns are one if some amount reaches over both and no line of text has a phrase in each.
    """
    places = grid.places()
    reaches: list[list[tuple[int, int, bool]]] = []
    for line in lines:
        y, row = (line[0].y0 + line[0].y1) / 2, list[tuple[int, int, bool]]()
        for phrase in group_phrases(line):
            first, end = bisect_right(grid.xs, phrase.x0 + SPILL) - 1, bisect_left(grid.xs, phrase.x1 - SPILL)
            cell = places.get(grid.place((phrase.x0 + phrase.x1) / 2, y))
            if cell and is_number(phrase.text):
                first, end = min(first, cell.col), max(end, cell.col + cell.col_span)
            if phrase.text in CLOSING and row:  # far from its amount
                first = row.pop()[0]
            row.append((first, end, is_number(phrase.text)))
        reaches.append(row)
    groups: list[list[int]] = []
    for col in range(len(grid.xs) - 1):
        if not any(first <= col < end for row in reaches for first, end, _ in row):
            continue
        begin, before = (groups[-1][0], groups[-1][-1]) if groups else (0, col)
        joined = any(number and first <= before < col < end for row in reaches for first, end, number in row)
        apart = any(
            any(begin <= first and end <= col for first, end, _ in row) and any(first == col for first, _, _ in row)
            for row in reaches
        )
        if joined and not apart:
            groups[-1].append(col)
        else:
            groups.append([col])
    number = {col: n for n, group in enumerate(groups) for col in group}
    cells: dict[tuple[int, int], GridCell] = {}
    for cell in grid.cells:
        if columns := [number[col] for col in range(cell.col, cell.col + cell.col_span) if col in number]:
            place = cell.row, columns[0]
            same = cells.get(place, GridCell(*place))
            width = max(same.col_span, columns[-1] + 1 - columns[0])
            cells[place] = GridCell(*place, max(same.row_span, cell.row_span), width)
    between = [(grid.xs[left[-1] + 1] + grid.xs[right[0]]) / 2 for left, right in pairwise(groups)]
    return Grid((grid.xs[0], *between, grid.xs[-1]), grid.ys, tuple(sorted(cells.values())))


def _find_head(grid: Grid, lines: Iterable[Sequence[Word]], words: Sequence[Word]) -> float:
    """Return the top of the lines that name columns of amounts; the grid's if it is of words or drawn with names."""
    xs, top = grid.xs, grid.ys[0]
    texts = [[p.text for p in group_phrases(line) if p.x0 > xs[1] - SNAP] for line in lines]
    counted = [any(is_amount(text) and not is_year(text) for text in row) for row in texts if row]
    if sum(counted) < len(counted) / 2 or not any(counted) or (grid.cells and not counted[0]):
        return top
    above = group_lines(find_words((xs[0] - SNAP, top - HEADER_POINTS, xs[-1] + SNAP, top), words))
    begins = reached = top
    for line in reversed(above[-HEADER_LINES:]):
        height = max(w.y1 - w.y0 for w in line)
        phrases = group_phrases(line)
        # a title over the whole table names no column
        is_title = any(p.x0 < xs[1] - SNAP and p.x1 > xs[1] + SNAP for p in phrases)
        if line[0].x0 < xs[1] - SNAP < line[-1].x1:
            centre = (line[0].x0 + line[-1].x1 - xs[0] - xs[-1]) / 2
            sentence = count_gaps(line) == 0 and sum(is_word(word.text) for word in line) >= TITLE_WORDS
            is_title = is_title or sentence or (len(phrases) < 3 and abs(centre) < 2 * CENTRED)
        behind = [bisect_right(xs, (p.x0 + p.x1) / 2) for p in phrases if p.x0 > xs[1] - SNAP]
        white = FAR_HEIGHTS if len(set(behind)) == len(behind) > 1 else 1
        if reached - max(w.y1 for w in line) > white * height or is_title:
            break
        reached = min(w.y0 for w in line)
        if phrases[-1].x0 > xs[1] - SNAP:  # a line with a label alone heads a group of rows
            begins = reached
    return begins


def make_row_boxes(
    xs: Sequence[float], top: float, bottom: float, words: Sequence[Word], rules: Sequence[Edge]
) -> list[BBox]:
    """Return the cells of a table between column lines, none without words; rules: horizontal edges of the page."""
    lines = _read_lines(xs, top, bottom, words)
    if not lines:
        return []
    bounds = [top, *((above.y1 + below.y0) / 2 for above, below in pairwise(lines)), bottom]
    near = [rule for rule in rules if top < rule.at < bottom and rule.end > xs[0] and rule.start < xs[-1]]
    ruled = [_is_ruled(xs, near, above, below) for above, below in pairwise(lines)]
    head = _count_header_lines(lines, ruled)
    boxes = _header_boxes(xs, lines[:head], bounds, near, lines[head:]) if head else []
    at = head
    for size in _group_body(lines[head:], ruled[head:]):
        boxes += _row_boxes(xs, lines[at : at + size], bounds[at], bounds[at + size])
        at += size
    return boxes


def _read_lines(xs: Sequence[float], top: float, bottom: float, words: Sequence[Word]) -> list[_Line]:
    """Return lines of text from `top` to `bottom`: phrases, and the columns between `xs` that each phrase spans."""
    lines: list[_Line] = []
    for line in group_lines(find_words((xs[0], top, xs[-1], bottom), words)):
        # texts of two columns may come close; the white at their line is still wider than a space
        starts = [
            n
            for n, (a, b) in enumerate(pairwise(line), start=1)
            if b.x0 - a.x1 > SPACE_HEIGHTS * (b.y1 - b.y0) and any(a.x1 <= x <= b.x0 for x in xs)
        ]
        phrases = [p for start, end in pairwise([0, *starts, len(line)]) for p in group_phrases(line[start:end])]
        spans: list[tuple[int, int]] = []
        for phrase in phrases:
            first = sum(x < min(phrase.x0 + SPILL, phrase.x1) for x in xs[1:-1])
            spans.append((first, max(first, sum(x < phrase.x1 - SPILL for x in xs[1:-1]))))
        lines.append(_Line(min(w.y0 for w in line), max(w.y1 for w in line), tuple(phrases), tuple(spans)))
    return _join_offset_lines(lines)


def _join_offset_lines(lines: Iterable[_Line]) -> list[_Line]:
    """Return lines with those joined that are less than a line apart and share no column: texts of one row."""
    joined: list[_Line] = []
    for line in lines:
        above = joined[-1] if joined else None
        near = above and line.y0 - above.y0 < OFFSET_HEIGHTS * min(line.y1 - line.y0, above.y1 - above.y0)
        if above and near and above.columns.isdisjoint(line.columns):
            pairs = sorted(zip(above.phrases + line.phrases, above.spans + line.spans, strict=True))
            joined[-1] = _Line(above.y0, line.y1, tuple(p for p, _ in pairs), tuple(span for _, span in pairs))
        else:
            joined.append(line)
    return joined


def _is_ruled(xs: Sequence[float], rules: Iterable[Edge], above: _Line, below: _Line) -> bool:
    """Return whether rules between two lines of text cover the width of the table."""
    middle = (above.y0 + above.y1) / 2, (below.y0 + below.y1) / 2
    covered, reached = 0.0, xs[0]
    for rule in sorted((rule for rule in rules if middle[0] < rule.at < middle[1]), key=lambda rule: rule.start):
        covered += max(min(rule.end, xs[-1]) - max(rule.start, reached), 0.0)
        reached = max(reached, rule.end)
    return covered > FULL_RULE * (xs[-1] - xs[0])


def _count_header_lines(lines: Sequence[_Line], ruled: Sequence[bool]) -> int:
    """Return how many lines name the columns: those above the first amounts or the first rule; 0 for a form."""
    labelled = any(line.label and line.amounts for line in lines)
    body = next((n for n, line in enumerate(lines) if line.amounts and (line.label or not labelled)), None)
    if body is None or body > HEADER_LINES:
        # of words only: what the first rule parts from several rows
        first = next((n for n, rule in enumerate(ruled, start=1) if rule), 0)
        is_header = first < min(HEADER_LINES, len(lines) / 2) and any(len(line.phrases) > 1 for line in lines[:first])
        return first if is_header else 0
    if rule := next((n for n in range(body, 0, -1) if ruled[n - 1]), 0):
        body = rule
    else:
        counted = sum(bool(line.amounts) for line in lines[body:]) / sum(bool(line.values) for line in lines[body:])
        if counted < COUNTED_SHARE or sum(bool(line.label and line.values) for line in lines[:body]) > MOST_LABELLED:
            return 0  # a form: labels with words and amounts
    while body and not lines[body - 1].values:
        body -= 1  # a label alone heads the rows below
    return body


def _header_boxes(
    xs: Sequence[float],
    lines: Sequence[_Line],
    bounds: Sequence[float],
    rules: Sequence[Edge],
    body: Sequence[_Line] = (),
) -> list[BBox]:
    """Return the cells of a header, in which lines over the same columns are one name; bounds: y between lines."""
    items: list[_Name] = []
    # from where to where the texts of each column run, or its lines where it has none of its own
    reached = [(end, start) for start, end in pairwise(xs)]
    for line in (*lines, *body):
        for phrase, (first, last) in zip(line.phrases, line.spans, strict=True):
            if first == last:
                reached[first] = min(reached[first][0], phrase.x0), max(reached[first][1], phrase.x1)
    extents = [(a, b) if a < b else (b, a) for a, b in reached]
    for n, line in enumerate(lines):
        numbers = all(is_amount(phrase.text) and not is_year(phrase.text) for phrase in line.phrases)
        for first, last in _find_spans(xs, lines, n, extents, rules):
            left, right = xs[first] + CENTRED, xs[last + 1] - CENTRED
            parted = n and any(
                lines[n - 1].y1 - 2 < rule.at < line.y0 + 2 and rule.start < right and rule.end > left for rule in rules
            )
            above = next((k for k, item in enumerate(items) if item[1:] == (n - 1, first, last)), None)
            if above is None or numbers or parted:
                items.append(_Name(n, n, first, last))
            elif items[above].end < n:
                items[above] = items[above]._replace(end=n)
    boxes: list[BBox] = []
    for item in items:
        beside = [other for other in items if other.first <= item.last and other.last >= item.first]
        # a name reaches up to the title over it, and the lowest down to the body
        top = max((other.end + 1 for other in beside if other.end < item.begin), default=0)
        bottom = item.end + 1 if any(other.begin > item.end for other in beside) else len(lines)
        boxes.append((xs[item.first], bounds[top], xs[item.last + 1], bounds[bottom]))
    named = {col for item in items for col in range(item.first, item.last + 1)}
    boxes += [(xs[col], bounds[0], xs[col + 1], bounds[len(lines)]) for col in range(len(xs) - 1) if col not in named]
    return boxes


def _find_spans(
    xs: Sequence[float],
    lines: Sequence[_Line],
    n: int,
    extents: Sequence[tuple[float, float]],
    rules: Sequence[Edge],
) -> list[tuple[int, int]]:
    """Return the first and last columns of the names in line `n` of a header; two in one place are one."""
    line, below, end = lines[n], lines[n + 1 :], len(extents) - 1
    if len(line.spans) == 1 and below and _is_middle(line.phrases[0], 0, end, extents):
        return [(0, end)]  # a title of the whole table
    near = [rule for rule in rules if below and line.y1 - 3 < rule.at < below[0].y0 + 2]
    spans = list(line.spans)
    for i, phrase in enumerate(line.phrases):
        lowest = spans[i - 1][1] + 1 if i else min(spans[i][0], 1)  # no title of values stands over the labels
        highest = spans[i + 1][0] - 1 if i + 1 < len(spans) else end
        spans[i] = _find_span(phrase, spans[i], (lowest, highest), extents, below, near)
    # titles in the middle of groups of equal size; a unit of all columns
    titles = [i for i, (first, _) in enumerate(spans) if first]
    width = end // max(len(titles), 1)
    groups = [(1 + k * width, (k + 1) * width) for k in range(len(titles))]
    spread = (len(titles) > 1 if below else n > 0) and width > 1 and groups[-1:] == [(end + 1 - width, end)]
    if spread and all(_is_middle(line.phrases[i], *group, extents) for i, group in zip(titles, groups, strict=True)):
        for i, group in zip(titles, groups, strict=True):
            spans[i] = group
    # two names that reach into one column: it belongs to that one whose middle lies there
    apart: list[tuple[int, int]] = []
    for phrase, (first, last) in zip(line.phrases, spans, strict=True):
        before = apart[-1] if apart else (-1, -1)
        if first > before[1]:
            apart.append((first, last))
        elif before[1] < last and (phrase.x0 + phrase.x1) / 2 > xs[before[1] + 1]:
            apart.append((before[1] + 1, last))
        elif before[0] < first:
            apart[-1:] = [(before[0], first - 1), (first, last)]
        else:
            apart[-1] = before[0], max(before[1], last)
    return apart


def _find_span(
    phrase: Phrase,
    span: tuple[int, int],
    limits: tuple[int, int],
    extents: Sequence[tuple[float, float]],
    below: Sequence[_Line],
    rules: Iterable[Edge],
) -> tuple[int, int]:
    """Return the columns of a name: those of the rule below it, that of its next line, or those around its middle.

    span: the columns that it reaches over; limits: the columns that its neighbours leave.
    """
    (first, last), (lowest, highest) = span, limits
    ruled = [
        [c for c in range(lowest, len(extents)) if rule.start - CENTRED < sum(extents[c]) / 2 < rule.end + CENTRED]
        for rule in rules
    ]
    if titled := [cols for cols in ruled if len(cols) > 1 and cols[0] <= first and last <= cols[-1] <= highest]:
        widest = max(titled, key=len)
        return widest[0], widest[-1]
    pairs = [list(zip(line.phrases, line.spans, strict=True)) for line in below]
    under = ([pair for pair in line if pair[0].x0 < phrase.x1 and pair[0].x1 > phrase.x0] for line in pairs)
    next_line = next((line for line in under if line), [])
    if len(next_line) == 1 and last - first < 2:
        # the lines of one name begin, end or have their middle at one place
        (other, (col, until)), (x0, x1) = next_line[0], phrase[:2]
        offset = min(abs(x0 - other.x0), abs(x1 - other.x1), abs(x0 + x1 - other.x0 - other.x1) / 2)
        if col == until and lowest <= col <= highest and offset < CENTRED:
            return col, col
    named = {pair[1][0] for line in pairs for pair in line if pair[1][0] == pair[1][1]}
    wider = ((a, b) for a in range(first, lowest - 1, -1) for b in range(last, highest + 1) if a < b)
    fits = [(a, b) for a, b in wider if _is_middle(phrase, a, b, extents) and named.issuperset(range(a, b + 1))]
    return min(fits, key=lambda fit: fit[1] - fit[0], default=span)


def _is_middle(phrase: Phrase, first: int, last: int, extents: Sequence[tuple[float, float]]) -> bool:
    """Return whether a phrase stands in the middle of columns."""
    return abs(phrase.x0 + phrase.x1 - extents[first][0] - extents[last][1]) < 2 * CENTRED


def _group_body(lines: Sequence[_Line], ruled: Sequence[bool]) -> list[int]:
    """Return the number of lines in each row: between rules, between wider white, or by how their texts go on."""
    if not lines:
        return []
    whites = [below.y0 - above.y1 for above, below in pairwise(lines)]
    height = sorted(line.y1 - line.y0 for line in lines)[len(lines) // 2]
    jump, step = max(((b - a, (a + b) / 2) for a, b in pairwise(sorted(whites))), default=(0.0, 0.0))
    by_white = [white < step for white in whites] if jump > STEP_HEIGHTS * height else []
    for joined in ([not rule for rule in ruled] if sum(ruled) > 1 else [], by_white):
        if any(joined) and sum(not join for join in joined) > 1:
            sizes = _sizes(joined)
            rows = [lines[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]
            wrapped = [row for row in rows if len(row) > 1]
            if all(map(_is_row, rows)) and sum(map(_repeats, wrapped)) <= len(wrapped) / 3:
                return sizes
    lower = [line.label[:1].islower() for line in lines if line.label and line.values]
    cased = sum(lower) < 0.3 * len(lower)
    joined = [
        white < CLOSE_HEIGHTS * height and not rule and _goes_on(above, below, cased=cased)
        for (above, below), white, rule in zip(pairwise(lines), whites, ruled, strict=True)
    ]
    sizes: list[int] = []
    at = 0
    for size in _sizes(joined):
        sizes += [size] if _is_row(lines[at : at + size]) else [1] * size
        at += size
    return sizes


def _sizes(joined: Sequence[bool]) -> list[int]:
    """Return the sizes of groups of neighbours; joined: for each but the first, whether it goes with the one before."""
    starts = [0, *(n for n, join in enumerate(joined, start=1) if not join), len(joined) + 1]
    return [end - start for start, end in pairwise(starts)]


def _is_row(lines: Sequence[_Line]) -> bool:
    """Return whether lines can be one row: no column holds two amounts, no text runs over several columns."""
    if len(lines) == 1:
        return True
    amounts = [col for line in lines for col in line.amounts]
    if len(amounts) > len(set(amounts)) or any(first < last for line in lines for first, last in line.spans):
        return False
    # beside amounts in one line, only the label goes on over several, or texts behind a short label
    words = lines[0].values - lines[0].amounts
    wraps = all(not line.label and line.values <= words for line in lines[1:])
    return not amounts or wraps or sum(bool(line.values) for line in lines) == 1 or len(set(amounts)) == 1


def _repeats(lines: Sequence[_Line]) -> bool:
    """Return whether two lines fill all columns of their row, as rows of their own do."""
    values = set[int]().union(*(line.values for line in lines))
    return sum(line.values == values and bool(line.label) and not line.label[0].islower() for line in lines) > 1


def _goes_on(above: _Line, below: _Line, *, cased: bool) -> bool:
    """Return whether a line goes on in the next: one has no values, a word is left over; cased: by capitals."""
    if above.label and below.label:
        left_over = (cased and below.label[:1].islower()) or bool(UNFINISHED.search(above.label))
        return left_over and not (above.values and below.values) and not above.label.endswith(":")
    return (
        not below.label
        and bool(below.values)
        and all(p.text[:1].islower() for p in below.phrases)
        and below.values < above.values
    )


def _row_boxes(xs: Sequence[float], lines: Sequence[_Line], top: float, bottom: float) -> list[BBox]:
    """Return the cells of a row; a text across a column line, or alone and centred over all values, joins cells."""
    texts = [phrase for line in lines for phrase in line.phrases]
    is_alone = len(texts) == 1 and len(xs) > 4
    if is_alone and texts[0].x0 > xs[1] - SPILL and abs(texts[0].x0 + texts[0].x1 - xs[1] - xs[-1]) < 2 * CENTRED:
        return [(xs[0], top, xs[1], bottom), (xs[1], top, xs[-1], bottom)]  # centred over all values
    uncrossed = [xs[0], *(x for x in xs[1:-1] if not any(p.x0 + SPILL < x < p.x1 - SPILL for p in texts)), xs[-1]]
    return [(x0, top, x1, bottom) for x0, x1 in pairwise(uncrossed)]
