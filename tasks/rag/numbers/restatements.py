"""One line of a statement, of one entity and period, with other values in another document: a restatement.

Both values are kept with their sources; which of them is meant is not decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from tasks.rag.numbers.concepts import label_of, words_of
from tasks.rag.numbers.line_lookup import AMOUNTS, Number, number_of, says_more
from tasks.rag.numbers.periods import Period


class Restatement(NamedTuple):
    """Two values of one line, in the order of the documents' names."""

    one: Number
    other: Number


class Compared(NamedTuple):
    """Lines of statements that two documents of one entity show for one period."""

    lines: int
    restated: tuple[Restatement, ...]


def compare(rows: Iterable[Mapping[str, Any]], entities: Mapping[str, str]) -> Compared:
    """The lines that documents share, in columns of the whole company.

    rows: of storage.numbers. entities: of each document, by digest; others are not compared.
    """
    shown: dict[tuple[str, ...], dict[str, list[Number]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        entity, number = entities.get(row["document"]), number_of(row)
        if entity and _is_comparable(number):
            line = " ".join(words_of(label_of(number.row_path)))
            key = (entity, number.statement, line, number.unit, _same_period(number.period))
            shown[key][number.name].append(number)
    pairs = [
        (documents[one], documents[other]) for documents in shown.values() for one, other in pairwise(sorted(documents))
    ]
    differ = (pair for pair in pairs if not any(agree(one, other) for one in pair[0] for other in pair[1]))
    return Compared(len(pairs), tuple(Restatement(ones[0], others[0]) for ones, others in differ))


def agree(one: Number, other: Number) -> bool:
    """Whether two cells show one amount, within the rounding of the coarser."""
    return abs(abs(one.value) - abs(other.value)) <= max(one.scale, other.scale)


def _is_comparable(number: Number) -> bool:
    dated = number.period.year > 0
    return dated and bool(number.row_path) and number.unit in AMOUNTS and not says_more(number.column_path)


def _same_period(period: Period) -> str:
    """A year is one period, whether its figures are said to be of all of it or not."""
    whole = period.kind == "none" or period.label.startswith("FY")
    return str(period.year) if whole else period.label
