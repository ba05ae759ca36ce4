"""Reads numbers from text in one normalised form, so that those of an answer are found in the sources that it cites.

35,750,000원, 3,575만 원, 3천 5백 7십 5만원 and 삼천오백칠십오만원 are one number; so are $1.2 billion and USD 1,200M.
Identifiers and markers are no numbers: SFR-001, 제3조, [1], a list's `1.`, telephone numbers, versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from tasks.language import number_words as words
from tasks.language.marks import write_plain
from tasks.language.number_words import CURRENCIES, DIGIT_SYLLABLES, LARGE, SCALE_WORDS, SMALL, month_number
from tasks.language.scales import Scale, currency_of, name_unit, read_scales

MOST_DIGITS = 40
"""Most digits of a number: a longer run is no amount, and arithmetic on thousands of digits is slow."""
READ_MARK = "\ufffc"
"""Replaces characters that are already read, so that no other pattern matches them."""
CALENDAR = frozenset(["date", "month of year", "day of month", "time", "quarter"])
"""Units whose values are no quantities: the time 17:00 has the value 1700 but is not equal to a bare 1700."""


class Number(NamedTuple):
    """A number in a text, with its unit and where it stands."""

    value: Decimal
    """The value in whole units: 3,575만 is 35750000; a date is 20240507, a time 1700."""
    unit: str
    """`KRW`, `USD`, `%`, `%p`, `bp`, `months`, `date`, `time`, `year` …; empty where none is written."""
    text: str
    """The number as written, with its unit."""
    start: int
    """Offset of its first character in the text; `end` is behind its last."""
    end: int


def read_numbers(text: str) -> list[Number]:
    """Return the numbers of `text` in order, in time linear in its length; marks of notes are no part of them."""
    if plain := write_plain(text):
        return [
            number._replace(
                start=(start := plain.spans[number.start][0]),
                end=(end := plain.spans[number.end - 1][1]),
                text=text[start:end],
            )
            for number in _read(plain.text)
        ]
    return _read(text)


def _read(text: str) -> list[Number]:
    """Return the numbers of a text in order, not those of ids and marks; dates, times, Hangul amounts as wholes."""
    working = text.translate(words.PLAIN_SIGNS)
    numbers: list[Number] = []
    for pattern, read in _CALENDAR_READERS:
        working = _take(working, pattern.finditer(working), read, numbers)
    working = _take(working, words.HANGUL_MONEY.finditer(working), _hangul_money, numbers)
    for pattern in words.MARKS:
        working = pattern.sub(_blank, working)
    numbers += _quantities(words.IDS.sub(_without_id, working))
    whole = sorted(numbers, key=lambda number: number.start)
    return [number._replace(text=text[number.start : number.end]) for number in whole]


def is_same_number(a: Number, b: Number) -> bool:
    """Return whether two numbers have one value, in units that do not contradict each other."""
    return a.value == b.value and _agree(a.unit, b.unit)


def written_value(number: Number) -> Decimal | None:
    """Return what the digits of a number give without the words of scale behind them: 3 of 3억; None without digits."""
    plain = write_plain(number.text)
    digits = words.DIGITS.search((plain.text if plain else number.text).translate(words.PLAIN_SIGNS))
    return _part(digits.group()) if digits else None


def missing_numbers(sentence: str, sources: Sequence[str]) -> list[str]:
    """Return the numbers of `sentence`, as written, that none of `sources` holds in any spelling."""
    claims = read_numbers(sentence)
    if not claims:
        return []
    units_of: dict[Decimal, set[str]] = {}
    for source in sources:
        stated = read_scales(source)
        for number in read_numbers(source):
            for value, unit in _readings(number, stated, either_sign=words.FALLING.search(sentence) is not None):
                units_of.setdefault(value, set()).add(unit)
    missing: list[str] = []
    for claim in claims:
        values = (claim.value, -claim.value) if "(" in claim.text else (claim.value,)
        if not any(_agree(claim.unit, unit) for value in values for unit in units_of.get(value, ())):
            missing.append(claim.text)
    return missing


def _agree(a: str, b: str) -> bool:
    """Return whether two units may be one: they are equal, or one is not written and neither is of a calendar."""
    return a == b or (not (a and b) and a not in CALENDAR and b not in CALENDAR)


def _readings(number: Number, stated: Sequence[Scale], *, either_sign: bool) -> Iterator[tuple[Decimal, str]]:
    """Yield each value and unit that a number of a source supports: as is, scaled by a stated unit, parts of dates."""
    value, unit = number.value, number.unit
    yield value, unit
    if unit == "date":
        yield value // 10_000, "year"
        yield value // 100, "month of year"
        yield value % 10_000, "day of month"
    elif unit == "month of year":
        yield value // 100, "year"
    scaled = [(value, unit)]
    if not unit or unit in CURRENCIES.values():
        fitting = (scale for scale in stated if not (unit and scale.unit) or unit == scale.unit)
        scaled += [(value * scale.factor, unit or scale.unit) for scale in fitting]
    yield from scaled
    # in brackets a number is negative in a table and an aside in a sentence; a loss of 5 is -5
    if "(" in number.text or (either_sign and value < 0):
        yield from ((-amount, unit) for amount, unit in scaled)


def _take(text: str, matches: Iterator[re.Match[str]], read: _Reader, numbers: list[Number]) -> str:
    """Append what `read` makes of the matches to `numbers`; return the text with these parts blanked."""
    pieces, end = list[str](), 0
    for match in matches:
        if match.start() < end:
            continue
        for number in read(match):
            pieces += [text[end : number.start], READ_MARK * (number.end - number.start)]
            end = number.end
            numbers.append(number)
    return "".join((*pieces, text[end:]))


def _blank(match: re.Match[str]) -> str:
    return READ_MARK * len(match.group())


def _without_id(match: re.Match[str]) -> str:
    word = match.group()
    return _blank(match) if any(sign.isdigit() for sign in word) and not words.GLUED.match(word) else word


def _date(match: re.Match[str]) -> list[Number]:
    """Return the dates of a match, two for a range with one year; empty where no calendar has the first."""
    parts = match.groupdict()
    day, year = parts.get("day"), None
    if written := parts.get("year"):
        year = int(written) if written.isdigit() else 2000 + int(written[1:])  # ’24
    month = month_number(match["month"])
    dates = _calendar(match, match.start(), year=year, month=month, day=int(day) if day else None)
    end = words.RANGE_END.match(match.string, match.end()) if dates and year and day else None
    if end:
        # 2024. 5. 7. ~ 5. 20.: the year is written once
        dates += _calendar(end, end.start("month"), year=year, month=int(end["month"]), day=int(end["day"]))
    return dates


def _calendar(match: re.Match[str], start: int, *, year: int | None, month: int, day: int | None) -> list[Number]:
    """Return the date, month or day at `start`; empty for a month outside 1 to 12 or a day outside 1 to 31."""
    if not 1 <= month <= 12 or (day is not None and not 1 <= day <= 31):
        return []
    value, unit = (year or 0) * 100 + month, "month of year"
    if day:
        value, unit = value * 100 + day, "date" if year else "day of month"
    return [Number(Decimal(value), unit, "", start, match.end())]


def _time(match: re.Match[str]) -> list[Number]:
    """Return the time as hour · 100 + minute; empty for a bare hour, and where no clock shows it."""
    half = (match["before"] or match["after"] or "").lower().replace(".", "")
    if not half and not (match["minute"] or match["hour_mark"]):
        return []
    hour, minute = int(match["hour"]), int(match["minute"] or match["minutes"] or 0)
    if half in {"오후", "pm"} and hour < 12:
        hour += 12
    if half in {"오전", "am"} and hour == 12:
        hour = 0
    if hour > 24 or minute > 59:  # 24:00 ends a day
        return []
    return [Number(Decimal(hour * 100 + minute), "time", "", match.start(), match.end())]


def _hangul_money(match: re.Match[str]) -> list[Number]:
    """Return an amount in KRW; empty for one without a Hangul digit, or not read to its end."""
    if not any(sign in DIGIT_SYLLABLES for sign in match["amount"]):
        return []
    amount = read_amount(match.string, match.start("amount"))
    whole = amount.end >= match.end("amount")
    return [Number(amount.value, "KRW", "", match.start("amount"), match.end())] if whole else []


def _quantities(text: str) -> Iterator[Number]:
    """Yield numbers with their sign, scale, and unit or currency, in order; none inside a word."""
    position = 0
    for digits in words.DIGITS.finditer(text):
        if digits.start() < position or len(digits.group()) > MOST_DIGITS:
            continue
        start, amount = digits.start(), read_amount(text, digits.start())
        # sign, currency and brackets take no more than 12 characters; a bound keeps the search linear
        before = words.BEFORE.search(text, max(position, start - 12), start)
        assert before is not None  # it may be empty
        # with its sign, currency and unit
        currency = currency_of(before["currency"])
        unit = words.UNIT.match(text, amount.end)
        value, end, name = amount.value, unit.end() if unit else amount.end, ""
        if unit and unit["short"] and not currency:
            name = unit["short"].lower()
        elif unit:
            value *= SCALE_WORDS.get((unit["scale"] or unit["short"] or "").lower(), Decimal(1))
            word = unit["word"] or unit["glued"] or ""
            name = name_unit(unit["money"] or unit["scaled_money"] or word) or word.lower()
            # 2024년 is a year, 3년 and 2천년 are lengths of time
            if unit["word"] == "년" and 1900 <= amount.value <= 2100 and not amount.multiplied:
                name = "year"
        if text[end : end + 1].isascii() and text[end : end + 1].isalnum():
            continue  # inside a word
        negative = bool(before["minus"])
        first = next((before.start(part) for part in ("minus", "currency") if before[part]), start)
        if (before["open"] or before["inner"]) and text[end : end + 1] == ")":
            written = text[start : amount.end]
            # (1,234) is negative; `(12) months` and `(35,750,000원)` are asides
            negative = negative or (unit is None and bool(currency or "," in written or "." in written))
            end += 1
            after = words.AFTER_BRACKET.match(text, end) if unit is None else None
            if after:
                name, end = name_unit(after["unit"]), after.end()
            first = min(before.start(part) for part in ("open", "inner", "currency") if before[part])
        yield Number(-value if negative else value, name or currency, "", first, end)
        position = end


class Amount(NamedTuple):
    """Digits with the Korean multipliers behind them, and where they end."""

    value: Decimal
    end: int
    multiplied: bool
    """Whether a multiplier such as 만 or 억 is part of it."""


def read_amount(text: str, start: int) -> Amount:
    """Read the amount at `start`: digits, and the 십, 백, 천, 만, 억, 조 behind them in falling order; 0 for none."""
    total = section = part = Decimal(0)
    least_large, least_small = 10**20, 10**4
    digits = words.FIRST_DIGITS.match(text, start)
    position = digits.end() if digits else start
    part = _part(digits["digits"]) if digits else part
    longest = certain = Amount(part, position, multiplied=False)  # certain: up to the last 만, 억 or 조
    while multiplier := words.MULTIPLIER.match(text, position):
        sign, position = multiplier["sign"] or multiplier["spaced"], multiplier.end()
        if factor := SMALL.get(sign):
            if factor >= least_small:
                return longest
            section, part, least_small = section + (part or 1) * factor, Decimal(0), factor
            longest = Amount(total + section, position, multiplied=True)
        else:
            if LARGE[sign] >= least_large:
                return certain
            least_large, least_small = LARGE[sign], 10**4
            total, section, part = total + (section + part or 1) * least_large, Decimal(0), Decimal(0)
            longest = certain = Amount(total, position, multiplied=True)
        if digits := words.MORE_DIGITS.match(text, position):
            part, position = _part(digits["digits"]), digits.end()
    if part and longest.multiplied and part < min(least_large, least_small if section else least_large):
        return Amount(total + section + part, position, multiplied=True)
    return longest


def _part(digits: str) -> Decimal:
    if re.fullmatch(r"[0-9.]+,[0-9]{1,2}", digits):  # 1.234,56
        digits = digits.replace(".", "").replace(",", ".")
    return Decimal(DIGIT_SYLLABLES.get(digits) or re.sub("[,']", "", digits))


_Reader = Callable[[re.Match[str]], list[Number]]
_CALENDAR_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    *((pattern, _date) for pattern in words.DATES),
    (words.TIME, _time),
    (words.QUARTER, lambda match: [Number(Decimal(words.quarter_number(match)), "quarter", "", *match.span())]),
)
