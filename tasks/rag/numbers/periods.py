"""The period that a column or a row of a table speaks of, as far as its words tell."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import Literal

from storage.records import Record
from tasks.language.number_words import ORDINALS
from tasks.language.numbers import read_numbers

COUNTS = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
MONTHS_ENDED = re.compile(
    r"\b(three|six|nine|twelve|\d{1,2})[\s-]months?[\s-](?:period\s)?end(?:ed|ing)\b", re.IGNORECASE
)
WEEKS_ENDED = re.compile(
    r"\b(thirteen|twenty-six|thirty-nine|fifty-(?:two|three)|\d\d)[\s-]weeks?[\s-]end", re.IGNORECASE
)
WEEKS = {"thirteen": 3, "13": 3, "twenty-six": 6, "26": 6, "thirty-nine": 9, "39": 9}
"""Weeks in words or figures → months; any other number of weeks is a year."""
YEARS_ENDED = re.compile(r"\b(?:fiscal\s)?years?\s(?:end(?:ed|ing)\b)", re.IGNORECASE)
QUARTER_ENDED = re.compile(r"\bquarters?\s(?:end(?:ed|ing)\b)", re.IGNORECASE)
FISCAL = re.compile(r"\b(?:fiscal(?:\syear)?|FY)\s?['’]?(?P<year>(?:19|20)?\d\d)\b", re.IGNORECASE)
QUARTER = re.compile(
    r"\bQ(?P<q>[1-4])\b|\b(?P<word>first|second|third|fourth|[1-4](?:st|nd|rd|th))\squarter|(?P<ko>[1-4])\s?/?\s?4?\s?분기",
    re.IGNORECASE,
)
HALF = re.compile(r"(?P<ko>상|하)반기|\b(?P<word>first|second)\shalf\b|\bH(?P<h>[12])\b", re.IGNORECASE)
YEAR = re.compile(r"(?<![\d,.$])(?P<year>(?:19|20)\d\d)(?![\d,.]|\s?-\s?\d)")


class Period(Record):
    """A point in time or a span of it; what the words do not tell is None."""

    kind: Literal["instant", "duration", "none"]
    """`none`: a year is named, and not whether its figures are of its end or of all of it."""
    start: date | None = None
    """First day."""
    end: date | None = None
    """Last day."""
    year: int
    """Fiscal year; a year that ends in January or February is named for the one in which most of it lies."""
    label: str
    """`2021-12-03`, `FY2019`, `Q2 2023`, `H1 2023`, `2020`."""

    @property
    def months(self) -> int | None:
        """Of a span; None where its days are not known."""
        return round((self.end - self.start).days / 30.4) if self.start and self.end else None


def period_in(text: str) -> Period | None:
    """The first period that the words of a header or label name; None where they name none.

    "Years Ended December 3, 2021" is the year up to that day, "December 3, 2021" alone is that day, and "2021" a year.
    """
    ends = [number for number in read_numbers(text) if number.unit == "date"]
    if ends:
        digits = int(ends[0].value)
        return _ending(text, date(digits // 10_000, digits // 100 % 100, digits % 100))
    year = _year(text)
    if year is None:
        return None
    if quarter := _quarter(text):
        return Period(kind="duration", year=year, label=f"Q{quarter} {year}")
    if half := HALF.search(text):
        first = (half["ko"] or half["word"] or half["h"]).lower() in ("상", "first", "1")
        return Period(kind="duration", year=year, label=f"H{1 if first else 2} {year}")
    if FISCAL.search(text) or YEARS_ENDED.search(text):
        return Period(kind="duration", year=year, label=f"FY{year}")
    return Period(kind="none", year=year, label=str(year))


def year_to(end: date) -> Period:
    """The fiscal year that ends on a day."""
    return _span(end, 12)


def _ending(text: str, end: date) -> Period:
    months = _months(text)
    if months is None:
        return Period(kind="instant", end=end, year=fiscal_year(end), label=end.isoformat())
    if months == 12 and (quarter := _quarter(text)):
        return Period(kind="duration", year=fiscal_year(end), label=f"Q{quarter} {fiscal_year(end)}")
    return _span(end, months)


def _quarter(text: str) -> int | None:
    """The number of the quarter that a text names."""
    if found := QUARTER.search(text):
        said = (found["q"] or found["ko"] or found["word"]).lower()
        return int(said) if said.isdigit() else ORDINALS[said]
    return None


def _span(end: date, months: int) -> Period:
    year = fiscal_year(end)
    label = f"FY{year}" if months == 12 else f"{months} months to {end.isoformat()}"
    return Period(kind="duration", start=_first_day(end, months), end=end, year=year, label=label)


def _months(text: str) -> int | None:
    """How long a span is whose end is named; None for a point in time."""
    if found := MONTHS_ENDED.search(text):
        return COUNTS.get(found[1].lower()) or int(found[1])
    if found := WEEKS_ENDED.search(text):
        return WEEKS.get(found[1].lower(), 12)
    if QUARTER_ENDED.search(text):
        return 3
    return 12 if YEARS_ENDED.search(text) else None


def _first_day(end: date, months: int) -> date:
    """The day after the same day `months` earlier; the end of a month stays the end of a month."""
    year, month = divmod(end.year * 12 + end.month - 1 - months, 12)
    last = monthrange(year, month + 1)[1]
    whole = end.day == monthrange(end.year, end.month)[1]
    before = date(year, month + 1, last if whole else min(end.day, last))
    return date.fromordinal(before.toordinal() + 1)


def fiscal_year(end: date) -> int:
    """Retailers' years that end in January or February are named for the year in which most of them lies."""
    return end.year - 1 if end.month < 3 else end.year


def _year(text: str) -> int | None:
    if fiscal := FISCAL.search(text):
        digits = int(fiscal["year"])
        return digits if digits > 99 else 2000 + digits
    found = YEAR.search(text)
    return int(found["year"]) if found else None
