"""Rows of a table without lines between them: lines of text that wrap in their cells are one row.

Names of columns are stacked by column, a title spans the columns it stands over, a wrapped label stays with its row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tasks.documents.blocks import BBox
from tasks.documents.pdf.pdf_grids import SPILL, Edge
from tasks.documents.pdf.pdf_text import Word
from tasks.documents.pdf.pdf_words import Phrase, find_words, group_lines, group_phrases, is_amount, is_year

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
    def label(self) -> str:
        """Return the text that begins in the first column."""
        return self.phrases[0].text if self.spans[0][0] == 0 else ""

    @property
    def values(self) -> set[int]:
        """Return the columns behind the first that hold text."""
        return {col for first, last in self.spans for col in range(max(first, 1), last + 1)}

    @property
    def amounts(self) -> set[int]:
        """Return the columns behind the first that hold amounts."""
        found = zip(self.phrases, self.spans, strict=True)
        return {last for phrase, (_, last) in found if last and is_amount(phrase.text) and not is_year(phrase.text)}


def make_row_boxes(
    xs: Sequence[float], top: float, bottom: float, words: Sequence[Word], rules: Sequence[Edge]
) -> list[BBox]:
    """Return the cells of a table between given column lines; rules: horizontal edges of the page."""
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
    return lines


def _is_ruled(xs: Sequence[float], rules: Iterable[Edge], above: _Line, below: _Line) -> bool:
    """Return whether rules between two lines of text cover the width of the table."""
    middle = (above.y0 + above.y1) / 2, (below.y0 + below.y1) / 2
    covered, reached = 0.0, xs[0]
    for rule in sorted((rule for rule in rules if middle[0] < rule.at < middle[1]), key=lambda rule: rule.start):
        covered += max(min(rule.end, xs[-1]) - max(rule.start, reached), 0.0)
        reached = max(reached, rule.end)
    return covered > FULL_RULE * (xs[-1] - xs[0])


def _count_header_lines(lines: Sequence[_Line], ruled: Sequence[bool]) -> int:
    """Return how many lines name the columns: those above the first amounts, or above the first rule."""
    labelled = any(line.label and line.amounts for line in lines)
    body = next((n for n, line in enumerate(lines) if line.amounts and (line.label or not labelled)), None)
    if body is None or body > HEADER_LINES:
        # of words only: what the first rule parts from several rows
        first = next((n for n, rule in enumerate(ruled, start=1) if rule), 0)
        return (
            first
            if first < min(HEADER_LINES, len(lines) / 2) and any(len(line.phrases) > 1 for line in lines[:first])
            else 0
        )
    if rule := next((n for n in range(body, 0, -1) if ruled[n - 1]), 0):
        return rule
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
    """Return the cells of the header: lines below each other over the same columns are one name."""
    items: list[_Name] = []
    extents = _column_extents(xs, [*lines, *body])
    for n, line in enumerate(lines):
        numbers = all(is_amount(phrase.text) and not is_year(phrase.text) for phrase in line.phrases)
        for first, last in _find_spans(lines, n, extents, rules):
            left, right = xs[first] + CENTRED, xs[last + 1] - CENTRED
            parted = n and any(
                lines[n - 1].y1 - 2 < rule.at < line.y0 + 2 and rule.start < right and rule.end > left for rule in rules
            )
            above = next((k for k, item in enumerate(items) if item[1:] == (n - 1, first, last)), None)
            if above is None or numbers or parted:
                items.append(_Name(n, n, first, last))
            else:
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


def _column_extents(xs: Sequence[float], lines: Iterable[_Line]) -> list[tuple[float, float]]:
    """Return from where to where the texts of each column run, or its lines where it has none of its own."""
    extents = [(right, left) for left, right in pairwise(xs)]
    for line in lines:
        for phrase, (first, last) in zip(line.phrases, line.spans, strict=True):
            if first == last:
                extents[first] = min(extents[first][0], phrase.x0), max(extents[first][1], phrase.x1)
    return [(a, b) if a < b else (b, a) for a, b in extents]


def _find_spans(
    lines: Sequence[_Line], n: int, extents: Sequence[tuple[float, float]], rules: Sequence[Edge]
) -> list[tuple[int, int]]:
    """Return the columns of each phrase in a line of the header: those of the rule below it, or around its middle."""
    line = lines[n]
    below = lines[n + 1].y0 + 2 if n + 1 < len(lines) else line.y1 + 2
    spans = list(line.spans)
    near = [rule for rule in rules if line.y1 - 3 < rule.at < below]

    def centred(phrase: Phrase, first: int, last: int) -> bool:
        return abs(phrase.x0 + phrase.x1 - extents[first][0] - extents[last][1]) < 2 * CENTRED

    for i, phrase in enumerate(line.phrases):
        lowest = spans[i - 1][1] + 1 if i else 0
        highest = line.spans[i + 1][0] - 1 if i + 1 < len(spans) else len(extents) - 1
        first, last = spans[i]
        if n + 1 < len(lines):
            for rule in near:
                under = [
                    c
                    for c in range(lowest, highest + 1)
                    if rule.start - CENTRED < sum(extents[c]) / 2 < rule.end + CENTRED
                ]
                if len(under) > 1 and under[0] <= first and last <= under[-1]:
                    spans[i] = under[0], under[-1]
                    break
            else:
                # over the fewest columns of which it is the middle
                wider = ((a, b) for a in range(first, lowest - 1, -1) for b in range(last, highest + 1))
                fits = [span for span in wider if centred(phrase, *span)] if first < last else []
                spans[i] = min(fits, key=lambda span: span[1] - span[0], default=(first, last))
        elif n and len(spans) == 1 and first and centred(phrase, 1, len(extents) - 1):
            spans[i] = 1, len(extents) - 1  # a unit of all columns
    # titles in the middle of groups of equal size
    titles = [i for i, (first, _) in enumerate(spans) if first]
    width = (len(extents) - 1) // len(titles) if len(titles) > 1 else 1
    if width > 1 and width * len(titles) == len(extents) - 1 and n + 1 < len(lines):
        groups = [(1 + k * width, (k + 1) * width) for k in range(len(titles))]
        if all(centred(line.phrases[i], *group) for i, group in zip(titles, groups, strict=True)):
            for i, group in zip(titles, groups, strict=True):
                spans[i] = group
    return spans


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
    sizes = [1]
    for join in joined:
        if join:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes


def _is_row(lines: Sequence[_Line]) -> bool:
    """Return whether lines can be one row: no column holds two amounts, no text runs over several columns."""
    if len(lines) == 1:
        return True
    amounts = [col for line in lines for col in line.amounts]
    if len(amounts) > len(set(amounts)) or any(first < last for line in lines for first, last in line.spans):
        return False
    # beside amounts in one line, only the label goes on over several
    return not amounts or sum(bool(line.values) for line in lines) == 1 or len(set(amounts)) == 1


def _repeats(lines: Sequence[_Line]) -> bool:
    """Return whether two lines fill all columns of their row, as rows of their own do."""
    values = set[int]().union(*(line.values for line in lines))
    return sum(line.values == values and bool(line.label) and not line.label[0].islower() for line in lines) > 1


def _goes_on(above: _Line, below: _Line, *, cased: bool) -> bool:
    """Return whether the text of a line goes on in the next: one of them has no values, and a word is left over."""
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
    """Return the cells of a row; a text across a column line joins the cells on both sides."""
    texts = [phrase for line in lines for phrase in line.phrases]
    if (
        len(texts) == 1
        and len(xs) > 4
        and texts[0].x0 > xs[1] - SPILL
        and abs(texts[0].x0 + texts[0].x1 - xs[1] - xs[-1]) < 2 * CENTRED
    ):
        return [(xs[0], top, xs[1], bottom), (xs[1], top, xs[-1], bottom)]  # centred over all values
    uncrossed = [xs[0], *(x for x in xs[1:-1] if not any(p.x0 + SPILL < x < p.x1 - SPILL for p in texts)), xs[-1]]
    return [(x0, top, x1, bottom) for x0, x1 in pairwise(uncrossed)]
