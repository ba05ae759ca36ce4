"""Finds the cells of several figures together: what is compared stands in one table, in a row or in a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from tasks.rag.numbers.cell_scores import Match
from tasks.rag.numbers.cell_search import digits_of
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.line_lookup import WHOLE, Number

IN_BRACKETS = re.compile(r"\(\s*([가-힣]{1,3}|[㎀-㏟㎞㎡])\s*\)\s*$")
"""A unit behind a label: 쌀 생산(톤)."""
MOST_FIRST, MOST_OTHER = 40, 80
"""Cells of the first figure and of each other one that are put together."""
SAME_TABLE, IN_LINE, OTHER_DOCUMENT, OTHER_UNIT = 0.06, 0.12, 0.15, 0.4
"""What a cell gains in the table of another, and in its row or column; and loses elsewhere, and with another unit."""


class Together(NamedTuple):
    """A cell for each figure."""

    matches: tuple[Match, ...]
    score: float
    margin: float
    """To the best choice with other digits."""


def search_together(found: Sequence[Sequence[Match]], *, one_unit: bool) -> Together | None:
    """The cells that fit best together; None where a figure has none.

    found: for each figure the matches with a score, best first. one_unit: whether they are added or compared.
    """
    if not all(found):
        return None
    choices = [_around(first, found, one_unit=one_unit) for first in found[0][:MOST_FIRST]]
    choices = sorted((one for one in choices if one), key=lambda one: -one.score)
    if not choices:
        return None
    best, *others = choices
    own = [digits_of(one) for one in best.matches]
    other = next((one.score for one in others if [digits_of(cell) for cell in one.matches] != own), 0.0)
    return best._replace(margin=min(best.margin, best.score - other))


def _around(first: Match, found: Sequence[Sequence[Match]], *, one_unit: bool) -> Together | None:
    """The best choice with the first cell given, ahead of those with another cell for one of the others."""
    chosen, total, ahead = [first], first.score, first.score
    for others in found[1:]:
        taken = set(map(_place, chosen))
        free = [(_score(first, one, one_unit=one_unit), one) for one in others[:MOST_OTHER] if _place(one) not in taken]
        if not free:
            return None
        score, best = max(free, key=lambda one: one[0])
        second = max((near for near, one in free if digits_of(one) != digits_of(best)), default=0.0)
        chosen.append(best)
        total, ahead = total + score, min(ahead, score - second)
    return Together(tuple(chosen), total / len(found), ahead / len(found))


def _score(first: Match, other: Match, *, one_unit: bool) -> float:
    one, two = first.number, other.number
    score = other.score
    if one.document != two.document:
        score -= OTHER_DOCUMENT
    elif one.table == two.table:
        score += SAME_TABLE + IN_LINE * (one.row == two.row or one.col == two.col)
    if one_unit and unit_of(one) and unit_of(two) and unit_of(one) != unit_of(two):
        score -= OTHER_UNIT
    return score


def unit_of(number: Number) -> str:
    """What a number counts, as far as it says so itself: `KRW`, `%`, 개소."""
    if counted := number.unit or re.sub(r"[\W\d_]", "", number.shown):
        return counted
    named = [match[1] for label in (*number.row_path, *number.column_path) if (match := IN_BRACKETS.search(label))]
    return named[-1] if named else ""


def whole_of(part: Number, numbers: Sequence[Number]) -> Number | None:
    """The total of the column that a cell stands in, else of its row; None where the table shows none.

    What is called one is, where nothing beside it is larger: 총무과 has a total's first syllable. What all others of
    the column add up to is one, whatever it is called.
    """
    beside = [one for one in numbers if (one.document, one.table) == (part.document, part.table) and one != part]
    column = [one for one in beside if one.col == part.col]
    row = [one for one in beside if one.row == part.row and is_whole(one.column_path)]
    called = [one for one in column if is_whole(one.row_path[-1:])]
    added = [one for one in column if _is_sum(one, [part, *(other for other in column if other != one)])]
    largest = max(map(_size, (part, *column)))
    found = (
        [one for one in called if _size(one) == largest] or added or [one for one in row if _size(one) >= _size(part)]
    )
    return min(found, key=lambda one: (abs(one.row - part.row), abs(one.col - part.col)), default=None)


def _size(number: Number) -> Decimal:
    return abs(number.value)


def _is_sum(total: Number, others: Sequence[Number]) -> bool:
    return len(others) > 1 and total.value != 0 and sum(one.value for one in others) == total.value


def is_whole(labels: Sequence[str]) -> bool:
    """Whether a label says that it is the sum of the others."""
    return any(
        WHOLE.intersection(words_of(label)) or label.replace(" ", "").startswith(("합", "총", "전체", "소계"))
        for label in labels
    )


def _place(match: Match) -> tuple[str, int, int, int]:
    number = match.number
    return number.document, number.table, number.row, number.col
