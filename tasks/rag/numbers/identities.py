"""What the rows of a statement must add up to: totals, balance sheets, cash, gross profit. A broken one is a doubt.

Nobody labels tables for this: a total that its rows do not give was read wrongly, or has rows that were not read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from tasks.rag.numbers.adding_up import agrees, identity_of, is_unlabelled, label_in, step_of
from tasks.rag.numbers.cell_facts import CellFact, Identity
from tasks.rag.numbers.column_sums import sums_over_columns
from tasks.rag.numbers.doubts import Broken, doubt_of
from tasks.rag.numbers.row_paths import TOTAL
from tasks.rag.numbers.statement_identities import balances, balances_over_tables, cash

NET_CASH = re.compile(r"net cash\b.*\b(?:operating|investing|financing)", re.IGNORECASE)
GROSS = re.compile(r"gross (?:profit|margin|income)|매출\s?총이익", re.IGNORECASE)
LEAST = 100
"""In units of the last digit: smaller amounts are sums of those above them by chance."""
NO_SUM = frozenset(("%", "shares"))
"""Units that do not add up over the rows of a table."""


def with_identities(facts: Iterable[CellFact]) -> list[CellFact]:
    """The facts, in their order; those that must be the sum of others with whether they are."""
    facts = list(facts)
    tables: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, fact in enumerate(facts):
        if fact.unit not in NO_SUM:
            tables[fact.table][fact.col].append(place)
    found: list[tuple[int, Identity]] = []
    for columns in tables.values():
        told = [[facts[place] for place in places] for places in columns.values()]
        for places, column, totals in zip(columns.values(), told, _totals_of(told), strict=True):
            found += [(places[at], identity) for at, identity in (*totals, *balances(column), *cash(column))]
        places = sorted(place for column in columns.values() for place in column)
        found += [(places[at], identity) for at, identity in sums_over_columns([facts[place] for place in places])]
    for place, identity in (*found, *balances_over_tables(facts)):
        fact = facts[place]
        doubt = fact.doubt or _doubt(fact, identity)
        facts[place] = fact.model_copy(update={"identities": (*fact.identities, identity), "doubt": doubt})
    return facts


def _doubt(fact: CellFact, identity: Identity) -> str:
    return "" if identity.expected is None else doubt_of(Broken(identity.kind, identity.expected), fact.scale)


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
        yield ((at, _total(column, at, rows or usual[at][0][0])) for at, rows in totals.items() if usual[at])


def _total(column: Sequence[CellFact], at: int, rows: tuple[int, ...]) -> Identity:
    terms = [fact for fact in column if fact.row in rows]
    expected = sum((term.value for term in terms), Decimal(0))
    if GROSS.match(label_in(column[at])) and len(terms) > 1 and not agrees(expected, column[at], len(terms)):
        expected = terms[0].value - terms[1].value  # revenue and its cost
    return identity_of("total", column[at], expected, terms)


def _totals(column: Sequence[CellFact]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Totals, net cash of activities and gross profits, with the rows above that give them; () where none do.

    A total takes the nearest rows that add up to it; from then on it stands for them. So does any other row that is the
    sum of those above it ("Property and equipment, net"), but that is no identity.
    """
    above: list[CellFact] = []
    """Those that no total has taken yet."""
    for at, fact in enumerate(column):
        label = label_in(fact)
        taken = _taken(above, fact)
        if GROSS.match(label) and len(above) > 1 and agrees(above[-2].value - above[-1].value, fact, 2):
            taken = 2
        if any(sort.match(label) for sort in (TOTAL, NET_CASH, GROSS)) or is_unlabelled(column, at):
            if taken != 1 and len(above) > 1:
                yield at, tuple(each.row for each in above[len(above) - taken :])
        elif taken == 1 or abs(fact.value) < LEAST * step_of(fact):
            taken = 0
        del above[len(above) - taken :]
        above.append(fact)


def _taken(above: Sequence[CellFact], total: CellFact) -> int:
    """How many rows directly above add up to a total; 0 if none do."""
    value = Decimal(0)
    for count, each in enumerate(reversed(above), start=1):
        value += each.value
        if agrees(value, total, count):
            return count
    return 0
