"""The amount that a cell of a table is, and its scale and unit: from itself, its row, its column, the lines above."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.documents.blocks import Cell
from tasks.language.numbers import CALENDAR, CURRENCIES, Number, Scale, read_numbers, scales
from tasks.rag.numbers.periods import YEAR

NIL = frozenset("-–—")
"""What stands for no amount."""
BRACKETED = re.compile(r"[$€£¥₩]?\s?\(\s?[$€£¥₩]?\s?[\d,.]+\s?%?\s?\)?\s?%?")
"""A negative amount; its closing bracket may stand in a column of its own."""
NOTES = re.compile(r"(?<=[\d%)])\s?(?:\(\d{1,2}\)|\([a-z]\)|[*†‡])+$")
"""Footnote marks behind an amount."""
A_NOTE = re.compile(r"\((\d{1,2})\)")
PART_OF_DATE = re.compile(r"\d{1,2},")
"""A day whose month stands above it and whose year below."""
PER_SHARE = re.compile(r"\bper\b[^|]{0,40}\bshare|\bper unit\b|주당", re.IGNORECASE)
A_RATE = re.compile(r"\(\D?\d[^)]*\)")
"""Said in passing of an amount: "Dividends declared ($1.82 per share)"."""
SHARES = re.compile(
    r"(?:(?:weighted|average|number|of|diluted|basic|common|ordinary|total)[\s-]+)*shares\b|.*주식\s?수", re.IGNORECASE
)
BASIC = re.compile(r"(?:basic|diluted)\b|기본|희석", re.IGNORECASE)
"""Rows of a heading that says what of: earnings per share, or shares."""
CENTS = -2
"""Exponent of an amount that is shown with two decimals."""
SHARE_OF = re.compile(r"%|\bpercent|비율|률$", re.IGNORECASE)
OF_TWO_UNITS = re.compile(r"[$€£¥₩]\s*%")
"""A header over two columns, "$ %"."""
LARGEST_SHARE = 1_000
"""What is larger stands in a column of amounts, whatever a header near it says of percent."""
COUNTS = re.compile(r"\b(?:number of|employees|stores|customers|units|people|days)\b|인원|건수|\(명\)", re.IGNORECASE)
"""Labels of what is counted and not paid."""
PLACES = re.compile(
    r"(?:(?:number|total|company|owned|leased|retail|open)[\s-]+(?:of\s+)?)*"
    r"(?:stores|shops|restaurants|locations|outlets|plants|warehouses|branches)|매장(?:\s?수)?|점포(?:\s?수)?|지점(?:\s?수)?",
    re.IGNORECASE,
)
"""Labels of what no table counts in thousands, whatever it says of its amounts."""
LARGEST = 10**24
"""A longer number is an identifier; storage keeps 26 digits before the point."""


class Amount(NamedTuple):
    value: Decimal
    unit: str
    sign: Literal["parentheses", "minus", "none"]


def amount_in(cell: Cell) -> Amount | None:
    """The one number that a cell behind the first column is; None for words, years and dates."""
    text = NOTES.sub("", " ".join(cell.text.split()))
    if cell.header or not cell.col or YEAR.fullmatch(text) or PART_OF_DATE.fullmatch(text):
        return None
    if text.lstrip("$€£¥₩ ") in NIL:
        return Amount(Decimal(0), CURRENCIES.get(text[0], ""), "none")
    if BRACKETED.fullmatch(text):
        found = _single(text.translate({ord("("): None, ord(")"): None}))
        return found and Amount(-abs(found.value), found.unit, "parentheses")
    found = _single(text)
    return found and Amount(found.value, found.unit, "minus" if found.value < 0 else "none")


def _single(text: str) -> Number | None:
    """The number that is all of a text; digits in groups ("13 951") are one."""
    joined = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", ",", text)
    numbers = read_numbers(joined)
    if len(numbers) != 1 or numbers[0].unit in (*CALENDAR, "year") or abs(numbers[0].value) >= LARGEST:
        return None
    rest = joined[: numbers[0].start] + joined[numbers[0].end :]
    return None if any(char.isalnum() for char in rest) else numbers[0]


def scale_of(path: Sequence[str], headers: Sequence[str], amount: Amount, stated: Sequence[Scale]) -> Scale:
    """The factor and the unit of an amount, from what stands nearest: itself, its row, its column, above the table."""
    if amount.unit and amount.unit not in CURRENCIES.values():
        return Scale(Decimal(1), amount.unit)
    label = path[-1] if path else ""
    own = [scale for text in (" | ".join(path), " | ".join(headers)) for scale in scales(text)]
    if not own and not amount.unit and any(map(PLACES.fullmatch, map(str.strip, (label, *headers[-1:])))):
        return Scale(Decimal(1), "")
    nearest = next(iter((*own, *stated)), Scale(Decimal(1), ""))
    if _counts_shares(path, headers) and not amount.unit:
        return Scale(nearest.factor, "shares")
    if PER_SHARE.search(A_RATE.sub("", label)) or _is_under_per_share(path, headers, amount):
        return Scale(Decimal(1), amount.unit or next((scale.unit for scale in stated if scale.unit), ""))
    of_one_unit = (header for header in headers if not OF_TWO_UNITS.search(header))
    if SHARE_OF.search(" | ".join((label, *of_one_unit))) and not amount.unit and abs(amount.value) < LARGEST_SHARE:
        return Scale(Decimal(1), "%")
    return Scale(nearest.factor, amount.unit or nearest.unit)


def _counts_shares(path: Sequence[str], headers: Sequence[str]) -> bool:
    """Whether a row or a column counts shares; "Basic" does below "Weighted-average shares"."""
    under = len(path) > 1 and BASIC.match(path[-1]) and SHARES.match(path[-2])
    return bool(under) or any(SHARES.match(label) for label in (*path[-1:], *headers[-1:]))


def _is_under_per_share(path: Sequence[str], headers: Sequence[str], amount: Amount) -> bool:
    """Whether a heading or a header says "per share" of an amount: of "Basic", and of what is shown to the cent.

    Net income stands under "Earnings per share" too, where it is worked out.
    """
    exponent = amount.value.as_tuple().exponent
    to_the_cent = isinstance(exponent, int) and exponent <= CENTS
    is_one = to_the_cent or any(BASIC.match(label) for label in path[-1:])
    return is_one and any(PER_SHARE.search(text) for text in (*path[-2:-1], *headers))
