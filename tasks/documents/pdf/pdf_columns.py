"""All tables of a PDF page: drawn ones first, then rows of short texts that stand in columns without lines.

Conservative: prose in columns is not a table, and each word goes into one table at most.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tasks.documents.pdf.pdf_blocks import group_rows
from tasks.documents.pdf.pdf_grids import Edge, Edges, Grid, find_grids, join_stripes, merge_edges
from tasks.documents.pdf.pdf_rows import CLOSE_HEIGHTS, HEADER_LINES
from tasks.documents.pdf.pdf_tables import Table, fill_grids, is_box, remove_table_words
from tasks.documents.pdf.pdf_text import Fragment, PageText, Word
from tasks.documents.pdf.pdf_words import (
    CLOSING,
    CURRENCY,
    LED,
    Phrase,
    find_gutters,
    find_words,
    group_phrases,
    is_amount,
    is_number,
    move_signs,
    place_line,
)

RULE_GAP = 1.0
"""Points between two pieces of one horizontal line; between the lines under two columns there are more."""
PARTIAL_SHARE = 0.6
"""A drawn grid narrower than this share of an aligned table around it is a highlight in that table."""


def find_tables(text: PageText, own: Sequence[Fragment], edges: Edges) -> list[Table]:
    """Return the tables, drawn ones first, in `own`, the runs of the page that are not headers or footers."""
    ruled_both_ways = len(edges.horizontal) > 1 and len(edges.vertical) > 1
    # most pages of prose end here, before their words are extracted
    if not ruled_both_ways and not any(len(row) > 1 or LED.search(row[0].text) for row in group_rows(own)):
        return []
    lines = {fragment.line for fragment in own}
    stored = [word for word in text.words() if word.line in lines]
    moved = move_signs(stored)
    words = [moved.get(word, word) for word in stored]
    rules = [*edges.horizontal, *merge_edges(edges.horizontal, gap=RULE_GAP)]
    grids = join_stripes(find_grids(edges), words)
    boxes = [grid for grid in grids if is_box(grid, words, rules, page_width=text.width)]
    drawn = fill_grids([grid for grid in grids if grid not in boxes], words, rules)
    aligned = find_aligned(remove_table_words(own, words, []), rules, words)
    tables = [table for table in drawn if not any(_is_highlight(table, area) for area in aligned)]
    if drawn:
        aligned = find_aligned(remove_table_words(own, words, tables), rules, words)
    table_words = {word for table in tables for word in table.words}
    # texts around a box of words seem to stand in columns, and are a diagram
    middles = [((x0 + x1) / 2, (y0 + y1) / 2) for x0, y0, x1, y1 in (box.bbox for box in boxes)]
    rest = [word for word in words if word not in table_words]

    def surrounds_box(area: Grid) -> bool:
        return any(area.xs[0] < x < area.xs[-1] and area.ys[0] < y < area.ys[1] for x, y in middles)

    tables += fill_grids([area for area in aligned if not surrounds_box(area)], rest, rules)
    origins = {sign: word for word, sign in moved.items()}
    return [table._replace(words=tuple(origins.get(word, word) for word in table.words)) for table in tables]


def _is_highlight(table: Table, area: Grid) -> bool:
    """Return whether a drawn grid marks a part of an aligned table, which goes on beside it or above it."""
    x0, y0, x1, y1 = table.bbox
    left, top, right, bottom = area.bbox
    inside = min(y1, bottom) - max(y0, top) > 0.5 * (y1 - y0) and x0 < right and x1 > left
    columns = max(cell.col + cell.col_span for cell in table.cells)
    goes_on = top < y0 and columns < len(area.xs) - 1 and not any(cell.header for cell in table.cells)
    return inside and (goes_on or x1 - x0 < PARTIAL_SHARE * (right - left))


MIN_ROWS = 3
"""Rows with several columns that a table has at least."""
CELL_GAP_EMS = 0.5
"""White between two cells of a row, in font sizes."""
ROW_GAP_EMS = 1.8
"""White between two rows of a table, in font sizes."""
MAX_LABEL_ROWS = 2
"""Rows with one column (group titles, wrapped labels) that may follow each other inside a table."""
BETWEEN_TABLES = 1.5
"""White between two tables side by side, in widths of the widest between their columns."""
MIN_GUTTER = 3.0
"""Least white between two columns, in points."""
FILLED_SHARE = 0.4
"""Share of rows in which a column has text."""
SPARSE_SHARE = 0.15
"""Least share of filled cells in a column beside others that hold mostly amounts."""
SHARING_SHARE = 0.1
"""Share of rows in which one column may hold two amounts."""
CONTENTS_TEXTS = 1.5
"""Texts of a row behind its leader dots from which it is a table's: a line of contents has its page number alone."""
NUMBER_SHARE = 0.6
"""Share of numbers behind the first column from which rows are taken for a table without further evidence."""
LABELLED_SHARE = 0.25
"""Share of rows with several texts before the first amount, from which these are columns that others leave empty."""
COUNTED_SHARE = 0.8
"""Share of rows below the titles that hold amounts, from which these alone show the columns."""
ALIGNED_SHARE = 0.75
"""Share of a column's texts that begin, end or are centred at one place."""
MAX_MEDIAN_CHARS = 28
"""Texts of a table are short."""


SEVERAL = re.compile(r"[\d—–)%]\s+(?:[$€£¥₩]|\(?\d)")


class _Line(NamedTuple):
    y0: float
    y1: float
    size: float
    segments: tuple[Phrase, ...]
    """The texts that no gap separates."""


def find_aligned(fragments: Sequence[Fragment], rules: Sequence[Edge], words: Sequence[Word]) -> list[Grid]:
    """Return the outlines of texts that are aligned in columns, from top to bottom.

    fragments: what is not in drawn tables; rules: horizontal edges, which speak for a table.
    """
    lines: list[_Line] = []
    for row in group_rows([f for f in fragments if f.upright]):
        size = max(f.size for f in row)
        segments: list[Phrase] = []
        for piece in _part_runs(row, words):
            text = piece.text.strip()
            before = segments[-1] if segments else None
            if before and (
                # signs belong to their amount however far, as they stand at the edges of its column
                (piece.x0 - before.x1 < CELL_GAP_EMS * size and text[0] not in CURRENCY)
                or before.text in CURRENCY
                or text in CLOSING
            ):
                begin = piece.x0 if before.text in CURRENCY else before.x0
                segments[-1] = Phrase(begin, max(before.x1, piece.x1), f"{before.text} {text}")
            else:
                segments.append(Phrase(piece.x0, piece.x1, text))
        lines.append(_Line(min(f.y0 for f in row), max(f.y1 for f in row), size, tuple(segments)))
    if sum(len(line.segments) > 1 for line in lines) < MIN_ROWS:
        return []

    own_lines = {f.line for f in fragments}
    free = [word for word in words if word.line in own_lines]
    # rows close to each other, from a row with several columns to another
    runs: list[list[_Line]] = [[]]
    for line in lines:
        run = runs[-1]
        if run and (line.y0 - run[-1].y1 > ROW_GAP_EMS * line.size or _ends_table(run, line)):
            runs.append([])
        runs[-1].append(line)
    parts = (part for run in runs for part in _split_tables(run, rules, free, least=2))
    return [Grid(xs, (rows[0].y0, rows[-1].y1), ()) for rows, xs in parts]


def _part_runs(row: Sequence[Fragment], words: Sequence[Word]) -> Iterator[Fragment | Phrase]:
    """Yield the runs of a row; one of several amounts, or in which dots lead to an amount, in pieces."""
    for piece in row:
        if (is_number(piece.text) and SEVERAL.search(piece.text)) or LED.search(piece.text):
            yield from group_phrases([word for word in words if word.line == piece.line])
        else:
            yield piece


def _ends_table(run: Sequence[_Line], line: _Line) -> bool:
    """Return whether `line` ends the table above it: it is one label too many, or prose."""
    if len(line.segments) != 1:
        return False
    (own,) = line.segments
    rows = [r for r in run if len(r.segments) > 1]
    width = max((r.segments[-1].x1 - r.segments[0].x0 for r in rows), default=0.0)
    if width and own.x1 - own.x0 > 0.7 * width:
        return True  # prose
    # a text that wraps in a column behind the labels may have many lines
    wraps = any(abs(s.x0 - own.x0) < 1 for r in rows[-1:] for s in r.segments[1:])
    return not wraps and len(run) >= MAX_LABEL_ROWS and not any(r in rows for r in run[-MAX_LABEL_ROWS:])


def _split_tables(
    run: list[_Line], rules: Sequence[Edge], words: Sequence[Word], *, least: int = MIN_ROWS
) -> Iterable[tuple[list[_Line], tuple[float, ...]]]:
    """Yield the run as a table with its column lines, or the tables in its parts; least: rows of amounts to go by."""
    several = [i for i, line in enumerate(run) if len(line.segments) > 1]
    if len(several) < MIN_ROWS:
        return
    run, after = run[several[0] : several[-1] + 1], run[several[-1] + 1 :]
    left = min(segment.x0 for line in run for segment in line.segments)
    right = max(segment.x1 for line in run for segment in line.segments)
    rows = [line for line in run if len(line.segments) > 1]
    # amounts show the columns better than titles, which may stand over several
    counted = [line for line in rows if any(is_number(segment.text) for segment in line.segments[1:])]
    titles = rows.index(counted[0]) if counted else len(rows)
    is_counted = titles <= min(HEADER_LINES, len(counted)) and len(counted) >= COUNTED_SHARE * (len(rows) - titles)
    for shown in (counted, rows) if is_counted and len(counted) >= least else (rows,):
        gaps = find_gutters([[(s.x0, s.x1) for s in line.segments] for line in shown], least=MIN_GUTTER)
        if not gaps:
            continue
        if sides := _part_side_by_side(run, gaps):
            for side in sides:
                yield from _split_tables(side, rules, words)
            return
        inside = find_words((left, run[0].y0, right, run[-1].y1), words)
        xs = (left - 1, *(place_line(start - 1, end + 1, inside) for start, end in gaps), right + 1)
        if (beside := _drop_prose(run, xs)) is not run:
            yield from _split_tables(beside, rules, words)
            return
        # texts that several rows have where the others have one long label are columns, too
        labels = [[(s.x0, s.x1) for s in line.segments if s.x0 < xs[1]] for line in shown]
        labels = [row for row in labels if len(row) > 1]
        is_parted = len(xs) > 3 and len(labels) >= max(MIN_ROWS, LABELLED_SHARE * len(shown))
        gaps = find_gutters(labels, least=MIN_GUTTER) if is_parted else []
        edges = (xs[0], *(place_line(start - 1, end + 1, inside) for start, end in gaps), *xs[1:])
        # what runs on from the labels over half of the table is a title or prose
        is_running = shown is counted and any(
            s.x0 < edges[1] and s.x1 > (left + right) / 2 for line in run for s in line.segments
        )
        if not is_running and any(_is_table(shown, lines, rules) for lines in dict.fromkeys((edges, xs))):
            for line in after:  # the last row may go on in a column of texts
                at = bisect_right(edges, line.segments[0].x0)
                near = line.y0 - run[-1].y1 < CLOSE_HEIGHTS * (line.y1 - line.y0)
                if not (near and 1 < at < len(edges) and line.segments[-1].x1 <= edges[at]):
                    break
                run.append(line)
            yield run, edges
            return

    def gape(i: int) -> float:
        """Return the white above a row, in font sizes; more where it or the row above has one column only."""
        above, below = run[i - 1], run[i]
        alone = len(above.segments) == 1 or len(below.segments) == 1
        return (below.y0 - above.y1) / below.size + (0.5 if alone else 0.0)

    if len(run) > MIN_ROWS:
        cut = max(range(1, len(run)), key=gape)
        for part in (run[:cut], run[cut:]):
            yield from _split_tables(part, rules, words)


def _part_side_by_side(run: list[_Line], gaps: Sequence[tuple[float, float]]) -> list[list[_Line]]:
    """Return the two tables of a run that stand side by side; none where it is one.

    The widest white by far parts them, with rows on both sides that begin with a label and go on with amounts.
    """
    *others, (width, middle) = sorted((end - start, (start + end) / 2) for start, end in gaps)
    if len(others) < 2 or width < BETWEEN_TABLES * others[-1][0]:
        return []
    left = [line._replace(segments=tuple(s for s in line.segments if s.x0 < middle)) for line in run]
    right = [line._replace(segments=tuple(s for s in line.segments if s.x0 > middle)) for line in run]
    sides = [[line for line in side if line.segments] for side in (left, right)]
    for side in sides:
        rows = [line.segments for line in side if len(line.segments) > 1 and is_number(line.segments[-1].text)]
        if sum(not is_number(row[0].text) for row in rows) < max(MIN_ROWS, NUMBER_SHARE * len(side)):
            return []
    return sides


def _drop_prose(run: list[_Line], xs: Sequence[float]) -> list[_Line]:
    """Return the rows without a first or last column of prose beside rows of amounts; `run` itself where none is so."""
    for low, high in ((xs[-2], xs[-1]), (xs[0], xs[1])) if len(xs) > 3 else ():
        texts = [" ".join(s.text for s in line.segments if low <= (s.x0 + s.x1) / 2 < high) for line in run]
        rest = [[s for s in line.segments if not low <= (s.x0 + s.x1) / 2 < high] for line in run]
        lines = [text for text in texts if text]
        if len(lines) <= MIN_ROWS or median(map(len, lines)) <= MAX_MEDIAN_CHARS:
            continue
        counted = [any(is_number(s.text) for s in segments) for segments in rest]
        pairs = [n for n, (a, b) in enumerate(pairwise(texts)) if a and b[:1].islower() and a[-1] not in ".:;"]
        # a sentence that runs on past two rows of amounts belongs to neither
        if len(pairs) > len(lines) / 3 and sum(counted[n] and counted[n + 1] for n in pairs) > len(pairs) / 2:
            parts = zip(run, rest, strict=True)
            return [line._replace(segments=tuple(segments)) for line, segments in parts if segments]
    return run


def _is_table(run: Sequence[_Line], xs: Sequence[float], rules: Sequence[Edge]) -> bool:
    """Return whether the rows make a table: its columns are filled, with numbers or with short texts in line."""
    several = [line for line in run if len(line.segments) > 1]
    columns: list[list[Phrase]] = [[] for _ in xs[1:]]
    sharing = 0
    for line in several:
        places = [bisect_right(xs, (segment.x0 + segment.x1) / 2, 1, len(xs) - 1) - 1 for segment in line.segments]
        for place, segment in zip(places, line.segments, strict=True):
            columns[place].append(segment)
        amounts = [place for place, segment in zip(places, line.segments, strict=True) if is_amount(segment.text)]
        sharing += len(amounts) > len(set(amounts))
    if sharing > SHARING_SHARE * len(several):
        return False  # tables of different columns, one below the other
    behind = [segment.text for column in columns[1:] for segment in column]
    mostly_numbers = sum(map(is_number, behind)) >= NUMBER_SHARE * len(behind)
    least = SPARSE_SHARE if mostly_numbers and len(columns) > 2 else FILLED_SHARE
    if any(len(column) < least * len(several) for column in columns):
        return False
    if not any(map(str.isalnum, "".join(segment.text for segment in columns[0]))):
        return False  # bullets before the items of a list
    texts = [segment.text for column in columns for segment in column]
    has_leaders = sum("...." in text or "····" in text for text in texts) > 0.2 * len(several)
    if has_leaders and len(behind) < CONTENTS_TEXTS * len(several):
        # of a list of contents, the texts behind the dots are numbers of pages: mostly whole, and in order
        pages = [int(text) for text in behind if text.isdecimal()]
        amounts = sum(map(is_number, behind)) - len(pages)
        if amounts < len(behind) / 2 and pages == sorted(pages):
            return False
    if mostly_numbers:
        return True
    if median(map(len, texts)) > MAX_MEDIAN_CHARS:
        return False
    for column in columns:
        # its texts begin, end or are centred at one place
        edges = ([s.x0 for s in column], [s.x1 for s in column], [(s.x0 + s.x1) / 2 for s in column])
        at_median = (sum(abs(x - median(places)) <= 3 for x in places) for places in edges)
        if max(at_median) < ALIGNED_SHARE * len(column):
            return False
    # of two columns only, two horizontal lines of about their width stand in or around them
    margin = 1.5 * several[0].size
    top, bottom, width = several[0].y0 - margin, several[-1].y1 + margin, xs[-1] - xs[0]
    levels = {round(r.at) for r in rules if top <= r.at <= bottom and r.end - r.start > 0.6 * width}
    return len(columns) > 2 or len(levels) > 1
