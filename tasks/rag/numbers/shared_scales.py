"""The scale of a table that does not say it, by the figures that it shares with tables that do.

A note repeats "4,480" of the statement of income, which is in millions, and is so too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from tasks.language.numbers import CURRENCIES
from tasks.rag.numbers.cell_facts import CellFact

FEWEST_SHARED = 2
"""Figures of a table that must stand in others."""
FEWEST_DIGITS = 4
AMOUNTS = frozenset(CURRENCIES.values())


def with_scales(facts: Iterable[CellFact]) -> list[CellFact]:
    """The numbers of a document, those of tables without a scale in that of the tables that they repeat."""
    facts = list(facts)
    known: dict[tuple[str, int], set[Decimal]] = defaultdict(set)
    tables: dict[int, list[CellFact]] = defaultdict(list)
    for fact in facts:
        if fact.unit in AMOUNTS:
            tables[fact.table].append(fact)
            if fact.scale > 1 and (key := _key(fact)):
                known[key].add(fact.scale)
    scales = {table: scale for table, own in tables.items() if (scale := _shared(own, known))}
    return [_scaled(fact, scales[fact.table]) if fact.table in scales else fact for fact in facts]


def _key(fact: CellFact) -> tuple[str, int] | None:
    """The digits and the year of a figure; None where many figures may have them."""
    digits = re.sub(r"[^\d.]", "", fact.shown)
    return (digits, fact.period.year) if fact.period and len(digits) >= FEWEST_DIGITS else None


def _shared(own: Sequence[CellFact], known: Mapping[tuple[str, int], set[Decimal]]) -> Decimal | None:
    """The one scale of the figures that a table without a scale shares with others."""
    if any(fact.scale > 1 for fact in own):
        return None
    keys = {key for fact in own if (key := _key(fact)) in known and key}
    found = {scale for key in keys for scale in known[key]}
    return next(iter(found)) if len(keys) >= FEWEST_SHARED and len(found) == 1 else None


def _scaled(fact: CellFact, scale: Decimal) -> CellFact:
    """An amount in a scale; one with decimals is of a share."""
    if fact.unit not in AMOUNTS or "." in fact.shown:
        return fact
    return fact.model_copy(update={"value": fact.value * scale, "scale": scale})
