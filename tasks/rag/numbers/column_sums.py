"""What the columns of a table must give: segments and eliminations their total, parts of equity the whole."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from tasks.rag.numbers.adding_up import agrees, identity_of
from tasks.rag.numbers.cell_facts import CellFact, Identity

WHOLE = re.compile(r"total\b(?! \w+ per)|consolidated\b|(?:총\s?)?합\s?계|연결", re.IGNORECASE)
"""The header of a column that is the sum of others."""
FEWEST_ROWS = 2
"""Rows in which the same columns add up: one does so by chance."""
MOST_PARTS = 40
"""Columns left of a total that are looked at."""


def sums_over_columns(facts: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Identities of the numbers of one table, with their place in it: of a total column's, where its parts stand left.

    The parts are the columns next to it that add up in most rows. A dash in place of a total says that it has none.
    """
    rows: dict[int, dict[int, CellFact]] = defaultdict(dict)
    for fact in facts:
        rows[fact.row][fact.col] = fact
    for whole in {fact.col for fact in facts if any(map(WHOLE.match, fact.column_path))}:
        scale, _ = Counter(row[whole].scale for row in rows.values() if whole in row).most_common(1)[0]
        able = {at: row for at, row in rows.items() if whole in row and row[whole].value and row[whole].scale == scale}
        shown = Counter(starts for row in able.values() for starts in _starts(row, whole))
        if shown and max(shown.values()) >= FEWEST_ROWS:
            first = min(shown, key=lambda start: (-shown[start], start))
            for at, fact in enumerate(facts):
                if fact.col == whole and fact.row in able and len(parts := _parts(able[fact.row], whole, first)) > 1:
                    yield at, identity_of("columns", fact, _sum(parts), parts)


def _starts(row: Mapping[int, CellFact], whole: int) -> Iterator[int]:
    """Columns from which those up to the total add up to it; two of them hold an amount."""
    value, amounts = Decimal(0), 0
    for count, part in enumerate(reversed(_parts(row, whole, whole - MOST_PARTS)), start=1):
        value, amounts = value + part.value, amounts + bool(part.value)
        if amounts > 1 and agrees(value, row[whole], count):
            yield part.col


def _parts(row: Mapping[int, CellFact], whole: int, first: int) -> list[CellFact]:
    """From the column `first` up to the total, of its period and unit."""
    total = row[whole]
    cells = (row[col] for col in range(first, whole) if col in row)
    return [cell for cell in cells if (cell.period, cell.unit, cell.scale) == (total.period, total.unit, total.scale)]


def _sum(parts: Sequence[CellFact]) -> Decimal:
    return sum((part.value for part in parts), Decimal(0))
