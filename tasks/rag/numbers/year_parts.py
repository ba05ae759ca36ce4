"""Parts of a fiscal year: what a question says of them, and which columns of tables they are."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

from tasks.language.number_words import ORDINALS
from tasks.language.numbers import read_numbers
from tasks.rag.numbers.periods import COUNTS, WEEKS, Period

QUARTER = r"""
    \bq(?P<q>[1-4])\b | \b(?P<q_after>[1-4])q | (?P<ko>[1-4])\s?/?\s?4?\s?분기
    | \b(?P<word>first|second|third|fourth|[1-4](?:st|nd|rd|th))[\s-]+(?:fiscal\s+)?quarter
"""
SPAN = r"""
    \b(?P<months>three|six|nine|\d)[\s-]months?\b(?:\s+(?:period\s+)?end(?:ed|ing)\b)?
    | \b(?P<weeks>thirteen|twenty-six|thirty-nine|13|26|39)[\s-]weeks?\b(?:\s+(?:period\s+)?end(?:ed|ing)\b)?
    | \b(?P<half>first\s+half|h1)\b | (?P<half_ko>상반기) | (?P<quarter>\bquarter\s+(?:that\s+)?end(?:ed|ing)\b)
"""
DAY = r"""
    \b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?
    |nov(?:ember)?|dec(?:ember)?)\.?\s+\d{1,2}(?:st|nd|rd|th)?(?=,?\s+(?:19|20)\d\d)
    | (?<=년)\s?\d{1,2}월\s?\d{1,2}일
"""
PART_SAID = re.compile(rf"(?:{QUARTER}|{SPAN}|{DAY})(?:\s+of\b)?", re.IGNORECASE | re.VERBOSE)
"""Words of a question that name a part of a year."""
DAYS_APART = 8
"""Years of 52 or 53 weeks end a few days apart."""


class Part(NamedTuple):
    """A part of a fiscal year; empty for all of it, and for a balance at its end."""

    quarter: int | None = None
    months: int | None = None
    """Of the span: 3, 6 or 9; None for a year or a balance."""
    month_and_day: tuple[int, int] | None = None
    """The day that the span ends with, or that the balance is of."""

    def labelled(self, label: str) -> str:
        """The label of a year as that of this part: `Q2 FY2022`."""
        if self.quarter:
            return f"Q{self.quarter} {label}"
        end = f"to {self.month_and_day[0]}/{self.month_and_day[1]}" if self.month_and_day else ""
        return " ".join(filter(None, (f"{self.months} months" if self.months else "", end, label)))


WHOLE_YEAR = Part()


def part_of_year(question: str) -> Part | None:
    """The part that a question names; None where it names several."""
    quarters = {_quarter(match) for match in re.finditer(QUARTER, question, re.IGNORECASE | re.VERBOSE)}
    spans = {_months(match) for match in re.finditer(SPAN, question, re.IGNORECASE | re.VERBOSE)}
    days = {_month_and_day(int(number.value)) for number in read_numbers(question) if number.unit == "date"}
    if max(len(quarters), len(spans), len(days)) > 1:
        return None
    quarter, months, day = next(iter(quarters), None), next(iter(spans), None), next(iter(days), None)
    return Part(quarter, 3 if quarter and not months else months, day)


def _quarter(match: re.Match[str]) -> int:
    said = (match["q"] or match["q_after"] or match["ko"] or match["word"]).lower()
    return int(said) if said.isdigit() else ORDINALS[said]


def _months(match: re.Match[str]) -> int:
    if match["months"]:
        return COUNTS.get(match["months"].lower()) or int(match["months"])
    if match["weeks"]:
        return WEEKS[match["weeks"].lower()]
    return 3 if match["quarter"] else 6


def _month_and_day(digits: int) -> tuple[int, int]:
    return digits // 100 % 100, digits % 100


class Wanted(NamedTuple):
    """The columns of some documents that a part of a year is."""

    year: int
    part: Part
    ends: frozenset[tuple[str, date]]
    """Documents, and the days in them that the part ends with, where it is a quarter."""

    def holds(self, document: str, period: Period, *, balance: bool | None) -> bool:
        """Whether the period of a column of a document is the part, or for a balance its end."""
        if self.part.month_and_day:
            if not self._ends_then(period):
                return False
        elif period.year != self.year:
            return False
        if self.part.months is None and period.kind != "instant":
            return _is_year(period, balance=balance)
        if self.part.quarter:
            named = period.label.startswith(f"Q{self.part.quarter} ")
            ends = period.end is not None and (document, period.end) in self.ends
            if not (named or ends):
                return False
        if period.kind == "instant":
            return balance is not False
        if balance:
            return False
        return period.months == self.part.months or (period.months is None and self.part.quarter is not None)

    def _ends_then(self, period: Period) -> bool:
        month, day = self.part.month_and_day or (12, 31)
        last = 28 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
        then = date(self.year, month, min(day, last))
        return period.end is not None and abs((period.end - then).days) <= DAYS_APART


def _is_year(period: Period, *, balance: bool | None) -> bool:
    if period.kind == "instant":
        return balance is not False
    if period.kind == "none" or balance:
        return True
    return period.months in range(11, 14) if period.months else period.label.startswith("FY")
