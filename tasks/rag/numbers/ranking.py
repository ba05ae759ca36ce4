"""Which part of a company has most of a line: its segments, regions or products, where they add up to the whole."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from tasks.rag.numbers.concepts import FREE_WORDS, Concept, fit, words_of
from tasks.rag.numbers.line_lookup import PLAIN_HEADERS, SURE, WHOLE, Number, number_of
from tasks.rag.numbers.question_shape import WORDS
from tasks.rag.numbers.year_parts import Wanted, When

MEMBERS = re.compile(WORDS["members"], re.IGNORECASE)
LEAST = re.compile(WORDS["least"], re.IGNORECASE)
SLACK = Decimal("0.01")
"""Share of the whole by which its parts may miss it: rounding, and small eliminations."""


class Ranked(NamedTuple):
    """A part of the whole."""

    name: str
    number: Number


def ranked(concept: Concept, when: When, total: Number, rows: Iterable[Mapping[str, Any]]) -> tuple[Ranked, ...]:
    """The parts of a line in a period, the largest first; empty where no table has parts that add up to the whole."""
    wanted = Wanted(when.year, when.part, frozenset())
    balance = concept.statement == "balance"
    groups: dict[tuple[Any, ...], dict[str, Number]] = defaultdict(dict)
    for row in rows:
        number = number_of(row)
        if number.document != total.document or number.unit not in (total.unit, ""):
            continue
        same = number.period.end == total.period.end and number.period.kind == total.period.kind
        if same or wanted.holds(number.document, number.period, balance=balance):
            for key, name in _places(concept, number):
                groups[(number.table, *key)].setdefault(name, number)
    for parts in groups.values():
        if len(parts) > 1 and abs(sum(one.value for one in parts.values()) - total.value) <= SLACK * abs(total.value):
            found = [Ranked(name, number) for name, number in parts.items()]
            return tuple(sorted(found, key=lambda one: -one.number.value))
    return ()


def _places(concept: Concept, number: Number) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The groups that a cell may be a part in, with the name of the part: by its row, its heading or its column."""
    *headings, own = number.row_path or ("",)
    column = _part_of(number.column_path)
    if fit(concept, own) >= SURE:
        if headings and not _is_whole(headings[-1]) and fit(concept, headings[-1]) < SURE:
            yield ("heading", own, number.col), headings[-1]
        if column and not _is_whole(column):
            yield ("column", number.row), column
    elif not _is_whole(own):
        if headings and fit(concept, headings[-1]) >= SURE:
            yield ("row", headings[-1], number.col), own
        if any(fit(concept, header) >= SURE for header in number.column_path):
            yield ("rows", number.col), own


def _part_of(column_path: Sequence[str]) -> str:
    """The header that names a part of the company."""
    named = (header for header in column_path if any(word.isalpha() for word in set(words_of(header)) - PLAIN_HEADERS))
    return next(named, "")


def _is_whole(label: str) -> bool:
    words = set(words_of(label))
    return not words - FREE_WORDS or bool(words & WHOLE) or label.strip().startswith("합")
