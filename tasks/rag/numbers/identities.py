"""Checks what the rows of a statement must add up to: totals, balance sheets, cash, gross profit.

The check needs no labelled data: a total that its rows do not give was read wrongly, or has rows that were not read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from tasks.language.sentences import Language
from tasks.rag.numbers.cell_facts import CellFact, Identity, IdentityKind
from tasks.rag.numbers.row_paths import TOTAL

GIVE: Mapping[Language, Mapping[IdentityKind, str]] = {
    "en": {
        "total": "the rows above give {expected}",
        "balance sheet": "the other side of the balance sheet is {expected}",
        "columns": "the columns before it give {expected}",
        "cash": "cash at the beginning and its change give {expected}",
        "spelling": "nothing tells thousands from decimals: it may be {expected}",
    },
    "ko": {
        "total": "위 행들을 더하면 {expected}입니다",
        "balance sheet": "대차대조표의 다른 쪽은 {expected}입니다",
        "columns": "앞의 열들을 더하면 {expected}입니다",
        "cash": "기초 현금에 증감을 더하면 {expected}입니다",
        "spelling": "천 단위와 소수점을 구별할 근거가 없습니다: {expected}일 수도 있습니다",
    },
}
OF_ANSWER: Mapping[Language, str] = {
    "en": "[{n}] does not add up: {why}.",
    "ko": "[{n}]은(는) 합이 맞지 않습니다: {why}.",
}
IN_DOUBT: Mapping[Language, str] = {"en": "[{n}] is in doubt: {why}.", "ko": "[{n}]은(는) 확실하지 않습니다: {why}."}
OTHERWISE: Mapping[Language, str] = {
    "en": "{name} [{n}] is {shown} in {document}: it may have been restated.",
    "ko": "{name} [{n}]은(는) {document}에 {shown}(으)로 다르게 적혀 있습니다.",
}


class Broken(NamedTuple):
    """An identity that a number breaks."""

    kind: IdentityKind
    expected: Decimal
    """The value that the other numbers of the identity give, in whole units."""


def describe_doubt(broken: Broken, scale: Decimal, language: Language = "en") -> str:
    """Write what a broken identity gives instead, in the scale of the table: `the rows above give 530`."""
    return GIVE[language][broken.kind].format(expected=f"{(broken.expected / scale).normalize():,f}")


def describe_in_answer(n: int, broken: Broken, scale: Decimal, language: Language) -> str:
    """Write a sentence on a broken identity: `[2] does not add up: the rows above give 530.`; n: mark of citation."""
    sentence = IN_DOUBT if broken.kind == "spelling" else OF_ANSWER
    return sentence[language].format(n=n, why=describe_doubt(broken, scale, language))


NET_CASH = re.compile(r"net cash\b.*\b(?:operating|investing|financing)", re.IGNORECASE)
GROSS = re.compile(r"gross (?:profit|margin|income)|매출\s?총이익", re.IGNORECASE)
LEAST = 100
"""Amounts of fewer units of the last digit are sums of those above them by chance."""
NO_SUM = frozenset(("%", "shares"))
"""Units that do not add up over the rows of a table."""


def add_identities(facts: Iterable[CellFact]) -> list[CellFact]:
    """Return the facts, in their order; those that must be sums get identities, and a doubt from the first broken."""
    facts = list(facts)
    tables: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, fact in enumerate(facts):
        if fact.unit not in NO_SUM:
            tables[fact.table][fact.col].append(place)
    identities: list[tuple[int, Identity]] = []
    for columns in tables.values():
        column_facts = [[facts[place] for place in places] for places in columns.values()]
        for places, column, totals in zip(
            columns.values(), column_facts, _find_table_totals(column_facts), strict=True
        ):
            checked = (*totals, *check_balance_sheet(column), *check_cash(column))
            identities += [(places[at], identity) for at, identity in checked]
        places = sorted(place for column in columns.values() for place in column)
        identities += [(places[at], identity) for at, identity in find_column_sums([facts[place] for place in places])]
    for place, identity in (*identities, *find_split_balances(facts)):
        facts[place] = facts[place].model_copy(update={"identities": (*facts[place].identities, identity)})
    for place, fact in enumerate(facts):
        if broken := next((identity for identity in fact.identities if identity.expected is not None), None):
            doubt = describe_doubt(Broken(broken.kind, broken.expected or Decimal(0)), fact.scale)
            facts[place] = fact.model_copy(update={"doubt": doubt})
    return facts


def _find_table_totals(columns: Sequence[Sequence[CellFact]]) -> Iterator[list[tuple[int, Identity]]]:
    """Yield the identities of the totals of each column of a table, with the place of the total in its column.

    The rows of a total are those that give it in most columns. A total that adds up in no column is left out: the table
    may show selected lines only.
    """
    totals_by_column = [dict(_find_totals(column)) for column in columns]
    counts: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for column, totals in zip(columns, totals_by_column, strict=True):
        for at, rows in totals.items():
            if rows:
                counts[column[at].row][rows] += 1
    for column, totals in zip(columns, totals_by_column, strict=True):
        identities: list[tuple[int, Identity]] = []
        for at, rows in totals.items():
            usual = counts[column[at].row].most_common(1)
            if not usual:
                continue
            terms = [fact for fact in column if fact.row in (rows or usual[0][0])]
            identity = make_identity("total", column[at], terms)
            if GROSS.match(label_in(column[at])) and len(terms) > 1 and not identity.holds:
                # revenue and its cost
                identity = make_identity("total", column[at], terms, expected=terms[0].value - terms[1].value)
            identities.append((at, identity))
        yield identities


def _find_totals(column: Sequence[CellFact]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield totals, net cash of activities and gross profits with the rows above that give them; () where none do.

    A total takes the nearest rows that add up to it, and stands for them from then on. So does any other row that is
    the sum of those above it ("Property and equipment, net"), but that is no identity.
    """
    above: list[CellFact] = []
    """Rows that no total has taken yet."""
    for at, fact in enumerate(column):
        label = label_in(fact)
        # how many rows directly above add up to it; 0 if none do
        sums = accumulate(each.value for each in reversed(above))
        summands = next((count for count, value in enumerate(sums, start=1) if adds_up(value, fact, count)), 0)
        if GROSS.match(label) and len(above) > 1 and adds_up(above[-2].value - above[-1].value, fact, 2):
            summands = 2
        if any(pattern.match(label) for pattern in (TOTAL, NET_CASH, GROSS)) or is_unlabelled(column, at):
            if summands != 1 and len(above) > 1:  # a number that only repeats the one above it is no sum
                yield at, tuple(each.row for each in above[len(above) - summands :])
        elif summands == 1 or abs(fact.value) < LEAST * step_of(fact):
            summands = 0
        del above[len(above) - summands :]
        above.append(fact)


WHOLE = re.compile(r"total\b(?! \w+ per)|consolidated\b|(?:총\s?)?합\s?계|연결", re.IGNORECASE)
"""The header of a column that is the sum of others."""
FEWEST_ROWS = 2
"""Least number of rows in which the same columns add up: one does so by chance."""
MOST_PARTS = 40
"""Most columns left of a total that are tried as its parts."""


def find_column_sums(facts: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Yield the identities of total columns whose parts stand left of them, with the place of each total in `facts`.

    The parts are the columns next to the total that add up in most rows. A dash in place of a total has no identity.
    """
    rows: dict[int, dict[int, CellFact]] = defaultdict(dict)
    for fact in facts:
        rows[fact.row][fact.col] = fact
    for total_col in {fact.col for fact in facts if any(map(WHOLE.match, fact.column_path))}:
        scale, _ = Counter(row[total_col].scale for row in rows.values() if total_col in row).most_common(1)[0]
        # the rows whose total is in its usual scale, and is no dash
        rows_with_total = {
            at: row
            for at, row in rows.items()
            if total_col in row and row[total_col].value and row[total_col].scale == scale
        }
        counts: Counter[int] = Counter()
        """First column of a run up to the total that adds up to it → rows where it does, with two amounts or more."""
        for row in rows_with_total.values():
            value, amounts = Decimal(0), 0
            for count, part in enumerate(reversed(_parts_of_total(row, total_col, total_col - MOST_PARTS)), start=1):
                value, amounts = value + part.value, amounts + bool(part.value)
                if amounts > 1 and adds_up(value, row[total_col], count):
                    counts[part.col] += 1
        if counts and max(counts.values()) >= FEWEST_ROWS:
            first = min(counts, key=lambda start: (-counts[start], start))  # of equally many the longest run
            for at, fact in enumerate(facts):
                if fact.col != total_col or fact.row not in rows_with_total:
                    continue
                parts = _parts_of_total(rows_with_total[fact.row], total_col, first)
                if len(parts) > 1:
                    yield at, make_identity("columns", fact, parts)


def _parts_of_total(row: Mapping[int, CellFact], total_col: int, first: int) -> list[CellFact]:
    """Return the cells from the column `first` up to the total that are of its period, unit and scale."""
    total = row[total_col]
    cells = (row[col] for col in range(first, total_col) if col in row)
    return [cell for cell in cells if (cell.period, cell.unit, cell.scale) == (total.period, total.unit, total.scale)]


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
"""Lines that are neither debt nor equity and stand between their totals."""
OTHER_SIDE = re.compile(r"liabilities\b|부채", re.IGNORECASE)
"""The heading below the last row of assets."""
CASH = re.compile(r"\bcash\b", re.IGNORECASE)
OF_CASH = re.compile(r"cash\b(?! flow| used| provided| from)", re.IGNORECASE)
"""A heading whose rows are balances of cash, and no flows."""
OPENING = re.compile(r"\b(?:beginning|start)\b", re.IGNORECASE)
CLOSING = re.compile(r"\bend\b", re.IGNORECASE)
CHANGE = re.compile(r"(?:net )?\(?(?:increase|decrease|change)", re.IGNORECASE)
MOST_TABLES = 3
"""Most tables that a balance sheet is spread over."""


def check_balance_sheet(column: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Yield at most one identity, with its place: assets equal the other side, or liabilities and equity together."""
    labels = [label_in(fact) for fact in column]
    assets_at = next((at for at, label in enumerate(labels) if ASSETS.fullmatch(label)), None)
    other_at = next((at for at, label in enumerate(labels) if EQUITY_SIDE.match(label)), None)
    sides = (assets_at, other_at) if assets_at is not None and other_at is not None else None
    if sides is None:  # both totals may stand without a label
        below = next((at for at, fact in enumerate(column) if any(map(OTHER_SIDE.match, fact.row_path[:-1]))), 0)
        last = len(column) - 1
        if 0 < below < last and is_unlabelled(column, below - 1) and is_unlabelled(column, last):
            sides = below - 1, last
    if sides:
        assets, at = column[sides[0]], sides[1]
        yield at, make_identity("balance sheet", column[at], [assets])
        return
    owed_at = next((at for at, label in enumerate(labels) if LIABILITIES.fullmatch(label)), None)
    owned_at = next((at for at, label in enumerate(labels) if EQUITY.fullmatch(label)), None)
    if assets_at is not None and owed_at is not None and owned_at is not None and assets_at < owed_at < owned_at:
        between = [column[at] for at in range(owed_at + 1, owned_at) if BETWEEN.search(labels[at])]
        terms = [column[owed_at], *between, column[owned_at]]
        yield assets_at, make_identity("balance sheet", column[assets_at], terms)


def find_split_balances(facts: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Yield identities of balance sheets whose sides stand in two tables on one page or the next, with their places."""
    assets: list[CellFact] = []
    for at, fact in enumerate(facts):
        label = label_in(fact)
        if ASSETS.fullmatch(label):
            assets.append(fact)
        elif EQUITY_SIDE.match(label) and all(asset.table != fact.table for asset in assets):
            for side in reversed(assets):
                is_same_column = side.period == fact.period if side.period or fact.period else side.col == fact.col
                near = fact.table - side.table <= MOST_TABLES and (fact.page or 0) - (side.page or 0) <= 1
                if is_same_column and near and side.unit == fact.unit:
                    yield at, make_identity("balance sheet", fact, [side], table=side.table)
                    break


def check_cash(column: Sequence[CellFact]) -> Iterator[tuple[int, Identity]]:
    """Yield the place of cash at the end of a period and its identity: cash at the beginning and change; or nothing."""
    of_cash = [
        (at, fact, label_in(fact))
        for at, fact in enumerate(column)
        if CASH.search(label_in(fact)) or any(map(OF_CASH.match, fact.row_path[-2:-1]))
    ]
    opening = next((fact for _, fact, label in of_cash if OPENING.search(label)), None)
    change = next((fact for _, fact, label in of_cash if CHANGE.match(label)), None)
    closing = next((at for at, _, label in of_cash if CLOSING.search(label)), None)
    if opening and change and closing is not None:
        yield closing, make_identity("cash", column[closing], [opening, change])


def adds_up(value: Decimal, fact: CellFact, terms: int) -> bool:
    """Return whether a sum of `terms` numbers is a number within rounding; a single term must be equal to it.

    Rounding allows half a unit of the last digit for each term and for the number.
    """
    return abs(value - fact.value) <= step_of(fact) * (terms + 1) / 2 if terms > 1 else value == fact.value


def step_of(fact: CellFact) -> Decimal:
    """Return what one unit of the last digit of a number is worth, in whole units."""
    decimals = re.search(r"\.(\d+)", fact.shown)
    return fact.scale.scaleb(-len(decimals[1]) if decimals else 0)


def make_identity(
    kind: IdentityKind,
    fact: CellFact,
    terms: Sequence[CellFact],
    *,
    expected: Decimal | None = None,
    table: int | None = None,
) -> Identity:
    """Record whether a number is what its terms give, by default their sum; table: that of the terms, if another."""
    expected = sum((term.value for term in terms), Decimal(0)) if expected is None else expected
    holds = adds_up(expected, fact, len(terms))
    rows = (fact.row,) if kind == "columns" else tuple(term.row for term in terms)
    cols = tuple(term.col for term in terms) if kind == "columns" else ()
    return Identity(kind=kind, holds=holds, rows=rows, cols=cols, table=table, expected=None if holds else expected)


def label_in(fact: CellFact) -> str:
    """Return the label of a number's row, without headings; empty where it has none."""
    return fact.row_path[-1] if fact.row_path else ""


def is_unlabelled(column: Sequence[CellFact], at: int) -> bool:
    """Return whether the row of a number has no label of its own: its path is a beginning of that of the row above."""
    path, before = column[at].row_path, column[at - 1].row_path if at else ()
    return at > 0 and len(path) < max(1, len(before)) and path == before[: len(path)]
