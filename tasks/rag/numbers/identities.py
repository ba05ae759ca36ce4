"""What the rows of a statement must add up to: totals, balance sheets, cash, gross profit. A broken one is a doubt.

Nobody labels tables for this: a total that its rows do not give was read wrongly, or has rows that were not read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from tasks.rag.numbers.cell_facts import TOTAL, CellFact, Identity

NET_CASH = re.compile(r"net cash\b.*\b(?:operating|investing|financing)", re.IGNORECASE)
EQUITY_SIDE = re.compile(
    r"total liabilities\b.*\b(?:equity|deficit|capital)|부채와?\s?(?:및\s?)?자본\s?총계", re.IGNORECASE
)
ASSETS = re.compile(r"total assets|자산\s?총계", re.IGNORECASE)
GROSS = re.compile(r"gross (?:profit|margin|income)|매출\s?총이익", re.IGNORECASE)
CASH = re.compile(r"\bcash\b", re.IGNORECASE)
OPENING = re.compile(r"\b(?:beginning|start)\b", re.IGNORECASE)
CLOSING = re.compile(r"\bend\b", re.IGNORECASE)
CHANGE = re.compile(r"(?:net )?(?:increase|decrease|change)\b.*\bcash", re.IGNORECASE)
LEAST = 100
"""In units of the last digit: smaller amounts are sums of those above them by chance."""
NO_SUM = frozenset(("%", "shares"))
"""Units that do not add up over the rows of a table."""


class _Open(NamedTuple):
    """A row whose amount no total below it has taken yet."""

    value: Decimal
    step: Decimal
    """One in the last digit that is shown."""
    row: int


def with_identities(facts: Iterable[CellFact]) -> list[CellFact]:
    """The facts, in their order; those that must be the sum of others with whether they are."""
    facts = list(facts)
    tables: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, fact in enumerate(facts):
        if fact.unit not in NO_SUM:
            tables[fact.table][fact.col].append(place)
    for columns in tables.values():
        told = [[facts[place] for place in places] for places in columns.values()]
        found = _totals_of(told)
        for places, column, totals in zip(columns.values(), told, found, strict=True):
            for at, identity in (*totals, *_balances(column), *_cash(column)):
                fact = facts[places[at]]
                facts[places[at]] = fact.model_copy(update={"identities": (*fact.identities, identity)})
    return facts


def _totals_of(columns: Sequence[Sequence[CellFact]]) -> Iterator[Iterator[tuple[int, Identity]]]:
    """For each column of a table its totals; of what rows one is made is what the columns show where it adds up.

    A total that adds up in no column, in a table of selected figures for example, tells nothing.
    """
    found = [dict(_totals(column)) for column in columns]
    shown: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for column, totals in zip(columns, found, strict=True):
        for at, rows in totals.items():
            if rows:
                shown[column[at].row][rows] += 1
    for column, totals in zip(columns, found, strict=True):
        usual = {at: shown[column[at].row].most_common(1) for at in totals}
        yield (
            (at, Identity(kind="total", holds=bool(rows), rows=rows or usual[at][0][0]))
            for at, rows in totals.items()
            if usual[at]
        )


def _totals(column: Sequence[CellFact]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Totals, net cash of activities and gross profits, with the rows above that give them; () where none do.

    A total takes the nearest rows that add up to it; from then on it stands for them. So does any other row that is the
    sum of those above it ("Property and equipment, net"), but that is no identity.
    """
    above: list[_Open] = []
    for at, fact in enumerate(column):
        label = _label(fact)
        own = _Open(fact.value, _step(fact), fact.row)
        taken = _taken(above, own)
        if GROSS.match(label) and len(above) > 1 and _equal(above[-2].value - above[-1].value, own, 2):
            taken = 2
        if any(sort.match(label) for sort in (TOTAL, NET_CASH, GROSS)):
            if taken != 1 and len(above) > 1:
                yield at, tuple(each.row for each in above[len(above) - taken :])
        elif taken == 1 or abs(own.value) < LEAST * own.step:
            taken = 0
        del above[len(above) - taken :]
        above.append(own)


def _taken(above: Sequence[_Open], total: _Open) -> int:
    """How many rows directly above add up to a total; 0 if none do."""
    value = Decimal(0)
    for count, each in enumerate(reversed(above), start=1):
        value += each.value
        if _equal(value, total, count):
            return count
    return 0


def _balances(column: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Assets and the other side of a balance sheet."""
    assets = next((fact for fact in column if ASSETS.fullmatch(_label(fact))), None)
    for at, fact in enumerate(column):
        if assets and EQUITY_SIDE.match(_label(fact)):
            yield at, Identity(kind="balance sheet", holds=assets.value == fact.value, rows=(assets.row,))


def _cash(column: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Cash at the end: that at the beginning and the change."""
    cash = [(at, fact, _label(fact)) for at, fact in enumerate(column) if CASH.search(_label(fact))]
    opening = next((fact for _, fact, label in cash if OPENING.search(label)), None)
    change = next((fact for _, fact, label in cash if CHANGE.match(label)), None)
    closing = next(((at, fact) for at, fact, label in cash if CLOSING.search(label)), None)
    if opening and change and closing:
        at, fact = closing
        own = _Open(fact.value, _step(fact), fact.row)
        holds = _equal(opening.value + change.value, own, 2)
        yield at, Identity(kind="cash", holds=holds, rows=(opening.row, change.row))


def _equal(value: Decimal, total: _Open, terms: int) -> bool:
    """Within the rounding of what is shown: half a unit of the last digit for each term, and for the total."""
    return abs(value - total.value) <= total.step * (terms + 1) / 2 if terms > 1 else value == total.value


def _step(fact: CellFact) -> Decimal:
    decimals = re.search(r"\.(\d+)", fact.shown)
    return fact.scale.scaleb(-len(decimals[1]) if decimals else 0)


def _label(fact: CellFact) -> str:
    return fact.row_path[-1] if fact.row_path else ""
