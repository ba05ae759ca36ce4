"""Whether numbers of a document add up, within the rounding of what they show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from tasks.rag.numbers.cell_facts import CellFact, Identity, IdentityKind


def agrees(value: Decimal, fact: CellFact, terms: int) -> bool:
    """Within half a unit of the last digit for each term, and for the number; one term is the number itself."""
    return abs(value - fact.value) <= step_of(fact) * (terms + 1) / 2 if terms > 1 else value == fact.value


def step_of(fact: CellFact) -> Decimal:
    """One in the last digit that is shown, in whole units."""
    decimals = re.search(r"\.(\d+)", fact.shown)
    return fact.scale.scaleb(-len(decimals[1]) if decimals else 0)


def identity_of(
    kind: IdentityKind, fact: CellFact, expected: Decimal, terms: Sequence[CellFact], *, table: int | None = None
) -> Identity:
    """That a number is what its terms give, or what they give instead. table: theirs, if another."""
    holds = agrees(expected, fact, len(terms))
    rows = (fact.row,) if kind == "columns" else tuple(term.row for term in terms)
    cols = tuple(term.col for term in terms) if kind == "columns" else ()
    return Identity(kind=kind, holds=holds, rows=rows, cols=cols, table=table, expected=None if holds else expected)


def label_in(fact: CellFact) -> str:
    """The label of its row, without headings."""
    return fact.row_path[-1] if fact.row_path else ""


def is_unlabelled(column: Sequence[CellFact], at: int) -> bool:
    """Whether the row of a number has no label of its own: it has what heads the number above, or nothing."""
    path, before = column[at].row_path, column[at - 1].row_path if at else ()
    return at > 0 and len(path) < max(1, len(before)) and path == before[: len(path)]
