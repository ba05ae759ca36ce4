"""What the lines of a balance sheet and of a cash flow statement must give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from tasks.rag.numbers.adding_up import identity_of, is_unlabelled, label_in
from tasks.rag.numbers.cell_facts import CellFact, Identity

ASSETS = re.compile(r"total assets|자산\s?총계", re.IGNORECASE)
EQUITY_SIDE = re.compile(
    r"total (?:liabilities|capitali[sz]ation)\b.*\b(?:equity|deficit|capital|deficiency|liabilities)"
    r"|total (?:\w+ ){0,2}equity and liabilities|(?:부채와?\s?(?:및\s?)?자본|자본과?\s?(?:및\s?)?부채)\s?총계",
    re.IGNORECASE,
)
LIABILITIES = re.compile(r"total liabilities|부채\s?총계", re.IGNORECASE)
EQUITY = re.compile(
    r"total (?:(?:share|stock)(?:holder|owner)s?['’]?s? )?(?:equity|deficit)(?: \(deficit\))?|자본\s?총계",
    re.IGNORECASE,
)
BETWEEN = re.compile(r"redeemable|temporary equity|mezzanine", re.IGNORECASE)
"""Neither debt nor equity; it stands between their totals."""
OTHER_SIDE = re.compile(r"liabilities\b|부채", re.IGNORECASE)
"""The heading below the last row of assets."""
CASH = re.compile(r"\bcash\b", re.IGNORECASE)
OF_CASH = re.compile(r"cash\b(?! flow| used| provided| from)", re.IGNORECASE)
"""A heading whose rows are of cash itself."""
OPENING = re.compile(r"\b(?:beginning|start)\b", re.IGNORECASE)
CLOSING = re.compile(r"\bend\b", re.IGNORECASE)
CHANGE = re.compile(r"(?:net )?\(?(?:increase|decrease|change)", re.IGNORECASE)
MOST_TABLES = 3
"""Tables that a balance sheet is spread over."""


def balances(column: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Assets and the other side of a balance sheet; without its total, liabilities and equity."""
    if sides := _sides(column):
        assets, at = sides
        yield at, identity_of("balance sheet", column[at], assets.value, [assets])
        return
    labels = [label_in(fact) for fact in column]
    assets_at = next((at for at, label in enumerate(labels) if ASSETS.fullmatch(label)), None)
    owed_at = next((at for at, label in enumerate(labels) if LIABILITIES.fullmatch(label)), None)
    owned_at = next((at for at, label in enumerate(labels) if EQUITY.fullmatch(label)), None)
    if assets_at is not None and owed_at is not None and owned_at is not None and assets_at < owed_at < owned_at:
        between = [column[at] for at in range(owed_at + 1, owned_at) if BETWEEN.search(labels[at])]
        terms = [column[owed_at], *between, column[owned_at]]
        yield (
            assets_at,
            identity_of("balance sheet", column[assets_at], sum((term.value for term in terms), Decimal(0)), terms),
        )


def _sides(column: Sequence[CellFact]) -> tuple[CellFact, int] | None:
    """Total assets, and the place of the total of the other side; both totals may stand without a label."""
    assets = next((fact for fact in column if ASSETS.fullmatch(label_in(fact))), None)
    other = next((at for at, fact in enumerate(column) if EQUITY_SIDE.match(label_in(fact))), None)
    if assets and other is not None:
        return assets, other
    below = next((at for at, fact in enumerate(column) if any(map(OTHER_SIDE.match, fact.row_path[:-1]))), 0)
    last = len(column) - 1
    if 0 < below < last and is_unlabelled(column, below - 1) and is_unlabelled(column, last):
        return column[below - 1], last
    return None


def balances_over_tables(facts: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Both sides of balance sheets that are spread over tables, of one page or of two that follow each other."""
    assets: list[CellFact] = []
    for at, fact in enumerate(facts):
        label = label_in(fact)
        if ASSETS.fullmatch(label):
            assets.append(fact)
        elif EQUITY_SIDE.match(label) and all(one.table != fact.table for one in assets):
            side = next((one for one in reversed(assets) if _is_other_side(one, fact)), None)
            if side:
                yield at, identity_of("balance sheet", fact, side.value, [side], table=side.table)


def _is_other_side(assets: CellFact, fact: CellFact) -> bool:
    same = assets.period == fact.period if assets.period or fact.period else assets.col == fact.col
    near = fact.table - assets.table <= MOST_TABLES and (fact.page or 0) - (assets.page or 0) <= 1
    return same and near and assets.unit == fact.unit


def cash(column: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Cash at the end: that at the beginning and the change."""
    of_cash = [
        (at, fact, label_in(fact))
        for at, fact in enumerate(column)
        if CASH.search(label_in(fact)) or any(map(OF_CASH.match, fact.row_path[-2:-1]))
    ]
    opening = next((fact for _, fact, label in of_cash if OPENING.search(label)), None)
    change = next((fact for _, fact, label in of_cash if CHANGE.match(label)), None)
    closing = next((at for at, _, label in of_cash if CLOSING.search(label)), None)
    if opening and change and closing is not None:
        yield closing, identity_of("cash", column[closing], opening.value + change.value, [opening, change])
