"""Compares the number of an answer with a gold number across units: $2,019 million is $2.02 billion, 28 % is 0.28."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import NamedTuple

from tasks.grading.cited_answers import has_numbers
from tasks.language.number_words import CURRENCIES, DIGITS, FALLING, SCALE_WORDS
from tasks.language.numbers import CALENDAR, FULL_WIDTH, MOST_DIGITS, Number, missing_numbers, read_numbers
from tasks.language.sentences import sentences_of

TOLERANCE = Decimal("0.005")
"""Relative difference within which numbers are equal."""
HEADER_SCALES = tuple(Decimal(10**power) for power in (3, 6, 8, 9))
"""Thousand, million, 억, billion: units of a table's header that a number without a unit may have lost."""
FEWEST_DIGITS = 3
"""A shorter number without a unit is not taken for one in thousands or millions: `2 plants` is not $2 billion."""
_YEAR = re.compile(r"(?:FY\s?)?(?:19[0-9]{2}|20[0-9]{2}|2100)", re.IGNORECASE)
_CURRENCY_SIGN = r"(?:US\$|[$₩￦€£¥￥])"
_BRACKETS = re.compile(
    rf"(?P<before>{_CURRENCY_SIGN})?\s?\(\s?(?P<after>{_CURRENCY_SIGN})?(?P<digits>[0-9][0-9,.]{{0,40}})\)"
    r"(?=\s?(?:%|percent|thousand|million|billion|trillion|천|백만|만|억|조))",
    re.IGNORECASE,
)
"""A negative number whose unit follows the bracket: $(2.5) billion."""


class Amount(NamedTuple):
    value: Decimal
    """In whole units, without its sign."""
    unit: str
    scale: Decimal
    """Value of 1 as written: 1000000 for numbers in millions."""


class Signed(NamedTuple):
    number: Number
    either_sign: bool
    """Whether a word or brackets beside it tell the sign: `a loss of 5` is -5."""


def has_close_number(answer: str, gold: str) -> bool:
    """Whether `answer` has the numbers of `gold`, its one quantity within half a percent and across units.

    Several quantities, dates and years must be there exactly. Whole numbers of one scale are equal only if one is the
    other rounded: 204 is not 203, and 7,300 million is 7,296 million.
    """
    if has_numbers(answer, gold):
        return True
    quantities = [one for one in _signed_numbers(gold) if not _is_calendar(one.number)]
    if len({abs(one.number.value) for one in quantities}) != 1:
        return False
    wanted = quantities[0]
    missing = set(missing_numbers(gold, [answer]))
    if any(_is_calendar(number) and number.text in missing for number in read_numbers(gold)):
        return False
    said = (one for one in _signed_numbers(answer) if not _is_calendar(one.number))
    with localcontext(prec=2 * MOST_DIGITS):  # remainders of long numbers are exact
        return any(_signs_agree(one, wanted) and _close(one.number, wanted.number) for one in said)


def _signed_numbers(text: str) -> Iterator[Signed]:
    for sentence in sentences_of(text.translate(FULL_WIDTH)):
        plain = _BRACKETS.sub(_with_minus, sentence)
        either_sign = FALLING.search(plain) is not None
        for number in read_numbers(plain):
            yield Signed(number, either_sign or "(" in number.text or plain != sentence)


def _with_minus(bracket: re.Match[str]) -> str:
    return f" -{bracket['before'] or bracket['after'] or ''}{bracket['digits']}"


def _is_calendar(number: Number) -> bool:
    """A date, a time, or a bare 2019, which may be a year."""
    return number.unit in CALENDAR or number.unit == "year" or _YEAR.fullmatch(number.text.strip("() ")) is not None


def _signs_agree(one: Signed, other: Signed) -> bool:
    return (one.number.value < 0) == (other.number.value < 0) or one.either_sign or other.either_sign


def _close(said: Number, gold: Number) -> bool:
    return any(_equal(one, other) for one in _amounts(said, beside=gold) for other in _amounts(gold, beside=said))


def _amounts(number: Number, *, beside: Number) -> Iterator[Amount]:
    """What a number may mean beside another."""
    written, unit, value = _written(number), number.unit, abs(number.value)
    scale = value / written if written else Decimal(1)
    yield Amount(value, unit, scale)
    if unit == "bp":
        yield Amount(value / 100, "%p", scale / 100)
    elif unit in SCALE_WORDS:  # 1.2B without a currency
        yield Amount(value * SCALE_WORDS[unit], "", scale * SCALE_WORDS[unit])
    if _is_bare(number) and value <= 1 and "." in number.text:
        yield Amount(value * 100, "share", scale * 100)
    if unit == "%":
        yield Amount(value, "share", scale)
    if _is_bare(number) and _is_scaled(beside) and len(re.sub(r"\D", "", number.text).lstrip("0")) >= FEWEST_DIGITS:
        yield from (Amount(value * header, beside.unit, header) for header in HEADER_SCALES)


def _equal(said: Amount, gold: Amount) -> bool:
    agree = said.unit == gold.unit or (not (said.unit and gold.unit) and {said.unit, gold.unit} <= _OF_AMOUNTS)
    apart = abs(said.value - gold.value)
    if not agree or apart > TOLERANCE * gold.value:
        return False
    if said.scale != gold.scale or said.value % said.scale or gold.value % gold.scale:
        return True
    return apart <= max(_rounded_to(said), _rounded_to(gold)) / 2


def _rounded_to(amount: Amount) -> Decimal:
    """The unit to which a whole number seems rounded: 100 for 7,300; 0 where it is not."""
    digits = str(int(amount.value / amount.scale))
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10**zeros * amount.scale if zeros else Decimal(0)


def _written(number: Number) -> Decimal | None:
    digits = DIGITS.search(number.text)
    return Decimal(digits.group().replace(",", "")) if digits else None


def _is_bare(number: Number) -> bool:
    return not number.unit and abs(number.value) == _written(number)


def _is_scaled(number: Number) -> bool:
    return number.unit in SCALE_WORDS or (number.unit in _OF_AMOUNTS and abs(number.value) != _written(number))


_OF_AMOUNTS = frozenset(["", *CURRENCIES.values()])
"""Units beside which a number without a unit may mean the same."""
