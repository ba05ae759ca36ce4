"""English text with its money, dates, times and numbers in words."""

from __future__ import annotations

import re

from tasks.language.tokens import MONTHS
from tasks.rag.speech import spoken_numbers as numbers

ENGLISH_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ENGLISH_LIMIT = 10**18


def english(number: int) -> str:
    """`number` (not negative) in English: one thousand two hundred thirty-four."""
    return numbers.in_words(number, lang="en") if number < ENGLISH_LIMIT else english_digits(str(number))


def english_digits(digits: str) -> str:
    """Digits one by one."""
    return " ".join(ENGLISH_DIGITS[int(digit)] for digit in digits)


def english_ordinal(number: int) -> str:
    """`number` (from 1) as a place in a row: twenty-first."""
    return numbers.in_words(number, lang="en", to="ordinal")


def english_year(year: int) -> str:
    """A year (1000 to 9999) as it is said: nineteen ninety-nine, two thousand five, twenty twenty-four."""
    return numbers.in_words(year, lang="en", to="year").replace("oh-", "oh ")


MONTH = "|".join(MONTHS)
CURRENCIES = numbers.by_symbol("english", "currencies")
UNCHANGED = ("won", "yen")
"""Currencies without a plural, and without a hundredth part."""
SCALES = numbers.by_symbol("english", "scales")
UNITS = numbers.by_symbol("english", "units")


def _number(written: str) -> str:
    whole, _, decimals = written.replace(",", "").partition(".")
    return english(int(whole)) + (f" point {english_digits(decimals)}" if decimals else "")


def _date(found: re.Match[str]) -> str:
    month, day = int(found["month"]), int(found["day"])
    if not numbers.is_day(month, day):
        return found[0]
    return f"{MONTHS[month - 1]} {english_ordinal(day)}, {english_year(int(found['year']))}"


def _day_of_month(found: re.Match[str]) -> str:
    year = f", {english_year(int(found['year']))}" if found["year"] else ""
    return f"{found['month']} {english_ordinal(int(found['day']))}{year}" if int(found["day"]) else found[0]


def _time(found: re.Match[str]) -> str:
    hour, minute = int(found["hour"]), int(found["minute"])
    half = (found["half"] or ("a" if hour < 12 or hour == 24 else "p")).lower()
    minutes = f" {'oh ' if minute < 10 else ''}{english(minute)}" if minute else ""
    return f"{english(hour % 12 or 12)}{minutes} {half}.m."


def _money(found: re.Match[str]) -> str:
    written, scale, currency = found["number"], found["scale"], CURRENCIES[found["currency"]]
    plural = currency if currency in UNCHANGED else f"{currency}s"
    if scale:
        return f"{_number(written)} {SCALES[scale.lower()]} {plural}"
    whole, _, cents = written.replace(",", "").partition(".")
    if len(cents) == 2 and currency in ("dollar", "euro"):
        coins = f" and {english(int(cents))} {'cent' if cents == '01' else 'cents'}" if int(cents) else ""
        return f"{english(int(whole))} {currency if whole == '1' else plural}{coins}"
    return f"{_number(written)} {currency if written == '1' else plural}"


_DATE = re.compile(numbers.DATE)
_AND_YEAR = r"(?:,?\s(?P<year>[12][0-9]{3})\b)?"
_MONTH_FIRST = re.compile(rf"\b(?P<month>{MONTH})\s(?P<day>[0-3]?[0-9])(?![0-9.,]*[0-9]){_AND_YEAR}")
_DAY_FIRST = re.compile(rf"\b(?P<day>[0-3]?[0-9])\s(?P<month>{MONTH}){_AND_YEAR}")
_TIME = re.compile(
    r"(?<![0-9:])(?P<hour>[01]?[0-9]|2[0-4]):(?P<minute>[0-5][0-9])(?::[0-5][0-9])?(?![0-9:])"
    r"(?:\s?(?P<half>[aApP])\.?[mM]\b\.?)?"
)
_MINUS = re.compile(rf"(?<![\w.,)\]-])[-−]\s?(?={numbers.SIGN}?[0-9])")
_RANGE = re.compile(rf"(?<=[0-9%])\s?[~∼〜–]\s?(?={numbers.SIGN}?[0-9])")
_MONEY = re.compile(
    rf"(?P<currency>{numbers.either(CURRENCIES)})\s?(?P<number>{numbers.NUMBER})(?:\s?(?P<scale>(?i:{numbers.either(SCALES)}))\b)?"
)
_UNIT = re.compile(rf"{numbers.FIRST}(?P<number>{numbers.NUMBER})\s?(?P<unit>{numbers.either(UNITS)})(?![A-Za-z])")
_ORDINAL = re.compile(rf"{numbers.FIRST}(?P<number>[1-9][0-9]*)(?:st|nd|rd|th)\b")
_YEAR = re.compile(rf"(?P<before>[A-Za-z]?){numbers.FIRST}(?P<number>1[1-9][0-9]{{2}}|20[0-9]{{2}})(?![0-9]|[.,][0-9])")

RULES: tuple[numbers.Rule, ...] = (
    (_DATE, _date),
    (_MONTH_FIRST, _day_of_month),
    (_DAY_FIRST, _day_of_month),
    (_TIME, _time),
    (_MINUS, "minus "),
    (numbers.DIGIT_GROUPS, lambda found: ", ".join(english_digits(group) for group in found[0].split("-"))),
    (numbers.SECTION, lambda found: " point ".join(english(int(group)) for group in found[0].split("."))),
    (_RANGE, " to "),
    (_MONEY, _money),
    (_UNIT, lambda found: f"{_number(found['number'])} {UNITS[found['unit']]}"),
    (_ORDINAL, lambda found: english_ordinal(int(found["number"]))),
    (numbers.LEADING_ZERO, lambda found: english_digits(found[0])),
    (_YEAR, lambda found: numbers.apart(found, english_year(int(found["number"])))),
    (numbers.ANY_NUMBER, lambda found: numbers.apart(found, _number(found["number"]))),
)
