"""Which of the members of a table has most of a figure: the rows, the columns or the headings of one group of cells.

"Which quarter opened the most stores?" compares the cells of a column that every quarter has one of. What is asked
for must be said of all of them alike: by the header of the column, the headings, or the lines before the table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.rag.numbers.cell_search import CELL_WORDS, Match, telling
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.line_lookup import TOTALS, Number

ORDER, REVERSE, QUARTERLY, YEARLY, LOSSES, REST = (
    re.compile(CELL_WORDS["extremes"][name], re.IGNORECASE)
    for name in ("order", "reverse", "quarterly", "yearly", "losses", "rest")
)
KINDS = [re.compile(pattern, re.IGNORECASE) for pattern in CELL_WORDS["extremes"]["kinds"]]
"""A member that is only what the others leave."""
FEWEST, MOST = 2, 60
"""Members."""
LEAST_ASKED = 0.7
"""Share of the question's words that must stand around every member."""
ALL_HELD = 0.75
"""Share that counts as held where every word stands somewhere, if only in the lines before the table."""
BY_LABELS = 0.5
"""What the fit of the labels themselves counts beside that."""
NAMED_KIND = 0.08
"""What a group gains whose labels say what its members are."""
AS_GOOD = 0.15
"""A group that fits this much less may be meant as well."""


class AskedExtreme(NamedTuple):
    """What a question says of the member that it asks for."""

    kind: str
    """`segment`, `quarter`, `year`, 기금; empty where it says none."""
    most: bool
    years: tuple[int, ...] = ()
    """Those that are compared."""


class Member(NamedTuple):
    name: str
    number: Number


class Extreme(NamedTuple):
    """The members of a group, the one that is asked for first."""

    members: tuple[Member, ...]
    asked: float
    """Share of the question's words that stand around every member."""
    alone: bool
    """No other group that fits as well names another member."""


def kind_asked(question: str) -> re.Match[str] | None:
    """Where a question says what the member is that it asks for (group `kind`); None where it asks for none."""
    if not (ORDER.search(question) or REVERSE.search(question)):
        return None
    return next((match for pattern in KINDS if (match := pattern.search(question))), None)


def extreme_of(asked: AskedExtreme, matches: Sequence[Match], *, question: str) -> Extreme | None:
    """The group of cells that fits the question best, ordered; None where none fits."""
    groups: dict[tuple[object, ...], dict[str, Match]] = defaultdict(dict)
    for match in matches:
        for key, name in _places(asked, match.number):
            groups[key].setdefault(name, match)
    scored = [(score, members) for members in groups.values() if (score := _score(asked, members)) >= LEAST_ASKED]
    if not scored:
        return None
    scored.sort(key=lambda one: (-one[0] - BY_LABELS * _by_labels(one[1]), -len(one[1])))
    best, members = scored[0]
    ordered = _ordered(asked, members, question)
    fit = best + BY_LABELS * _by_labels(members)
    near = [others for score, others in scored if score + BY_LABELS * _by_labels(others) >= fit - AS_GOOD]
    winners = {_ordered(asked, others, question)[0].name for others in near}
    return Extreme(ordered, _held(members), len({_plain(name) for name in winners}) == 1)


def _by_labels(members: dict[str, Match]) -> float:
    return min(match.score for match in members.values())


def _places(asked: AskedExtreme, number: Number) -> Iterator[tuple[tuple[object, ...], str]]:
    """The groups that a cell may be a member of, with its name there."""
    if asked.years and number.period.year not in asked.years:
        return
    table = (number.document, number.table)
    *heads, own = number.row_path or ("",)
    period = number.period.label
    if YEARLY.search(asked.kind):
        if number.period.year:
            yield ("years", *table, tuple(number.row_path), telling(number.column_path)), f"FY{number.period.year}"
            yield ("year rows", *table, number.col), f"FY{number.period.year}"
        return
    of_quarter = QUARTERLY.search(asked.kind) is not None
    if own and not _is_whole(own) and (QUARTERLY.search(own) is not None) == of_quarter:
        yield ("rows", *table, number.col, tuple(heads)), own
    column = " ".join(number.column_path) if of_quarter else telling(number.column_path)
    if column and not _is_whole(column) and (not of_quarter or QUARTERLY.search(column)):
        yield ("columns", *table, number.row, "" if of_quarter else period), column
    if heads and not of_quarter and not _is_whole(heads[-1]):
        yield ("heads", *table, number.col, own, len(heads)), heads[-1]


def _score(asked: AskedExtreme, members: dict[str, Match]) -> float:
    if not FEWEST <= len(members) <= MOST:
        return 0.0
    units = {match.number.unit for match in members.values() if match.number.unit}
    if len(units) > 1:
        return 0.0
    held = _held(members)
    kind = set(words_of(asked.kind))
    first = next(iter(members.values())).number
    says = kind and kind <= set(words_of(" ".join((*first.row_path, *first.column_path))))
    return held * min(match.sure for match in members.values()) + NAMED_KIND * bool(says)


def _held(members: dict[str, Match]) -> float:
    """Share of the question's words that stand around every member, wherever."""
    asked = min(match.asked for match in members.values())
    return ALL_HELD + (1 - ALL_HELD) * asked if not any(match.unheld for match in members.values()) else asked


def _ordered(asked: AskedExtreme, members: dict[str, Match], question: str) -> tuple[Member, ...]:
    told = [Member(_plain(name), match.number) for name, match in members.items() if not REST.search(name)]
    told = _without_sum(told or [Member(_plain(name), match.number) for name, match in members.items()])
    losses = LOSSES.search(question) is not None and any(one.number.value < 0 for one in told)
    return tuple(sorted(told, key=lambda one: one.number.value, reverse=asked.most != losses))


def _without_sum(members: Sequence[Member]) -> list[Member]:
    """Without a member that is the sum of all others."""
    total = sum(one.number.value for one in members)
    left = [one for one in members if one.number.value * 2 != total or len(members) < 4]
    return left or list(members)


def _plain(name: str) -> str:
    """A label without the marks of footnotes."""
    return re.sub(r"\s*\(\w\)\s*$|\s+", " ", name).strip(" :")


def _is_whole(label: str) -> bool:
    return bool(TOTALS.intersection(words_of(label))) or label.strip().startswith("합")
