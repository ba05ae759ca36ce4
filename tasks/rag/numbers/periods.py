"""Reads periods: those of the columns and rows of tables, and the years and parts of years that a question names."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Literal, NamedTuple

from storage.records import Record
from tasks.language.marks import drop_marks
from tasks.language.number_words import QUARTER, month_number, quarter_number
from tasks.language.numbers import read_numbers

COUNTS = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
MONTHS_ENDED = re.compile(
    r"\b(three|six|nine|twelve|\d{1,2})[\s-]months?[\s-](?:period\s)?end(?:ed|ing)\b", re.IGNORECASE
)
WEEKS_ENDED = re.compile(
    r"\b(thirteen|twenty-six|thirty-nine|fifty-(?:two|three)|\d\d)[\s-]weeks?[\s-]end", re.IGNORECASE
)
WEEKS = {"thirteen": 3, "13": 3, "twenty-six": 6, "26": 6, "thirty-nine": 9, "39": 9}
"""Weeks, in words or digits → months; any other number of weeks is a year."""
YEARS_ENDED = re.compile(r"\b(?:fiscal\s)?years?\s(?:end(?:ed|ing)\b)", re.IGNORECASE)
QUARTER_ENDED = re.compile(r"\bquarters?\s(?:end(?:ed|ing)\b)", re.IGNORECASE)
FISCAL = re.compile(r"\b(?:fiscal(?:\syear)?|FY)\s?['’]?(?P<year>(?:19|20)?\d\d)\b", re.IGNORECASE)
HALF = re.compile(r"(?P<ko>상|하)반기|\b(?P<word>first|second)\shalf\b|\bH(?P<h>[12])\b", re.IGNORECASE)
YEAR = re.compile(r"(?<![\d,.$])(?P<year>(?:19|20)\d\d)(?![\d,.]|\s?-\s?\d)")  # none in 2,019.5 or 2015-2014


class Period(Record):
    """A day or a span of days; fields that the words of a table do not state are None."""

    kind: Literal["instant", "duration", "none"]
    """`none`: a year is named, but not whether its values are of its end or of all of it."""
    start: date | None = None
    """First day of a span."""
    end: date | None = None
    """Last day of a span, or the day itself."""
    year: int
    """Fiscal year; a year that ends in January or February is named for the one in which most of it lies."""
    label: str
    """`2021-12-03`, `FY2019`, `Q2 2023`, `H1 2023`, `2020`."""

    @property
    def months(self) -> int | None:
        """Length of a span in months, rounded; None where its days are not known."""
        return round((self.end - self.start).days / 30.4) if self.start and self.end else None  # 365 days / 12


def find_period(text: str) -> Period | None:
    """Return the first period that the words of a header or label name; None where they name none.

    "Years Ended December 3, 2021" is the year up to that day, "December 3, 2021" alone is that day, and "2021" a year.
    """
    text = drop_marks(text)  # 2018² is a year with a note
    quarter = QUARTER.search(text)
    ends = [number for number in read_numbers(text) if number.unit == "date"]
    if ends:
        digits = int(ends[0].value)
        end = date(digits // 10_000, digits // 100 % 100, digits % 100)
        months, fiscal = _find_months(text), fiscal_year(end)
        if months is None:
            return Period(kind="instant", end=end, year=fiscal, label=end.isoformat())
        # "fourth quarter of the year ended …": the day ends the year, and when the quarter ended is not said
        if months == 12 and quarter:
            return Period(kind="duration", year=fiscal, label=f"Q{quarter_number(quarter)} {fiscal}")
        return _make_span(end, months)
    match = FISCAL.search(text) or YEAR.search(text)
    if match is None:
        return None
    year = int(match["year"]) + (2000 if len(match["year"]) == 2 else 0)
    if quarter:
        return Period(kind="duration", year=year, label=f"Q{quarter_number(quarter)} {year}")
    if half := HALF.search(text):
        first = (half["ko"] or half["word"] or half["h"]).lower() in ("상", "first", "1")
        return Period(kind="duration", year=year, label=f"H{1 if first else 2} {year}")
    if FISCAL.search(text) or YEARS_ENDED.search(text):
        return Period(kind="duration", year=year, label=f"FY{year}")
    return Period(kind="none", year=year, label=str(year))


def fiscal_year_to(end: date) -> Period:
    """Return the fiscal year that ends on a day."""
    return _make_span(end, 12)


def _make_span(end: date, months: int) -> Period:
    """Return the period of so many months that ends on a day; one of twelve months is a fiscal year."""
    # it begins on the day after the same day `months` earlier; the end of a month stays the end of a month
    year, month = divmod(end.year * 12 + end.month - 1 - months, 12)
    last = monthrange(year, month + 1)[1]
    whole = end.day == monthrange(end.year, end.month)[1]
    start = date(year, month + 1, last if whole else min(end.day, last)) + timedelta(days=1)
    fiscal = fiscal_year(end)
    label = f"FY{fiscal}" if months == 12 else f"{months} months to {end.isoformat()}"
    return Period(kind="duration", start=start, end=end, year=fiscal, label=label)


def _find_months(text: str) -> int | None:
    """Return the length in months of a span whose end a text names; None for a day."""
    if match := MONTHS_ENDED.search(text):
        return COUNTS.get(match[1].lower()) or int(match[1])
    if match := WEEKS_ENDED.search(text):
        return WEEKS.get(match[1].lower(), 12)
    if QUARTER_ENDED.search(text):
        return 3
    return 12 if YEARS_ENDED.search(text) else None


def fiscal_year(end: date) -> int:
    """Return the number of the fiscal year that ends on a day: one that ends in January or February has that of the
    year before, in which most of it lies."""
    return end.year - 1 if end.month < 3 else end.year


QUARTER_SAID = r"""
    \bq(?P<q>[1-4])\b | \b(?P<q_after>[1-4])q | (?P<ko>[1-4])\s?/?\s?4?\s?분기
    | \b(?P<word>first|second|third|fourth|[1-4](?:st|nd|rd|th))[\s-]+(?:fiscal\s+)?quarter
"""
SPAN = r"""
    \b(?P<months>three|six|nine|\d)[\s-]months?\b(?:\s+(?:period\s+)?end(?:ed|ing)\b)?
    | \b(?P<weeks>thirteen|twenty-six|thirty-nine|13|26|39)[\s-]weeks?\b(?:\s+(?:period\s+)?end(?:ed|ing)\b)?
    | \b(?P<half>first\s+half|h1)\b | (?P<half_ko>상반기) | (?P<quarter>\bquarter\s+(?:that\s+)?end(?:ed|ing)\b)
"""
DAY = r"""
    \b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?
    |nov(?:ember)?|dec(?:ember)?)\b\.?(?:\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?![\d,]\d)|(?=,?\s+(?:of\s+)?(?:19|20)\d\d))
    | (?:(?<=년)\s?)?(?P<month_ko>\d{1,2})월\s?(?:(?P<day_ko>\d{1,2})일|(?=말))
"""
SHORT_YEAR = re.compile(
    r"\b(?P<q>[1-4])Q\s?['’]?(?P<y1>\d\d)\b|\bQ(?P<q2>[1-4])\s?['’](?P<y2>\d\d)\b"
    r"|\bFY\s?['’]?(?P<y3>\d\d)\b(?![\d/])|(?<![\d.,])(?P<from>(?:19|20)\d\d)\s?[-–/]\s?(?P<to>\d\d)(?!\d|%|[.,]\d|\s?-)"
    r"|(?<![\w.,])(?P<y5>[012]\d)(?=년\s?(?:[1-4]\s?/?\s?4?\s?분기|[상하]반기|말|도))"
    r"|(?<![\w])['’](?P<y4>[012]\d)(?=\s?(?:년|and\b|to\b|vs|[-–?]))",
    re.IGNORECASE,
)
"""Years of two digits: 3Q23, FY19, 2018-19."""
A_TERM = re.compile(r"(?<![\d제.,])(?<!제\s)(?=\d{2,3}기(?:\s|$|[에의은는와말초]|보다|까지|대비))")
"""The place before the number of a business term that is written without 제: 23기."""
A_YEAR = re.compile(r"(?<!\d)(?<!\d[,.])(?P<year>(?:19|20)\d\d)(?!\d|[,.]\d)")
LAST_DAYS = {1: 31, 3: 31, 5: 31, 7: 31, 8: 31, 10: 31, 12: 31, 2: 28}
PART_SAID = re.compile(rf"(?:{QUARTER_SAID}|{SPAN}|{DAY})(?:\s+of\b)?", re.IGNORECASE | re.VERBOSE)
"""Words of a question that name a part of a year."""
DAYS_APART = 8
"""Most days between the ends of years of 52 or 53 weeks."""


class Part(NamedTuple):
    """A part of a fiscal year; empty for all of it, and for a balance at its end."""

    quarter: int | None = None
    months: int | None = None
    """Length of the span: 3, 6 or 9; None for a year or a balance."""
    month_and_day: tuple[int, int] | None = None
    """The day that the span ends with, or that the balance is of."""

    def labelled(self, label: str) -> str:
        """Return the label of a year as that of this part of it: `Q2 FY2022`."""
        if self.quarter:
            return f"Q{self.quarter} {label}"
        end = f"to {self.month_and_day[0]}/{self.month_and_day[1]}" if self.month_and_day else ""
        return " ".join(filter(None, (f"{self.months} months" if self.months else "", end, label)))


WHOLE_YEAR = Part()


class When(NamedTuple):
    """A fiscal year or a part of it."""

    year: int
    part: Part = WHOLE_YEAR

    @property
    def label(self) -> str:
        """The period as answers give it: `FY2022`, `Q2 FY2022`."""
        return self.part.labelled(f"FY{self.year}")

    def before(self, *, quarters: bool = False) -> When:
        """Return the same part of the year before; with `quarters`, for a quarter, the quarter before."""
        quarter = self.part.quarter
        if not quarters or not quarter:
            return self._replace(year=self.year - 1)
        return When(self.year - (quarter == 1), self.part._replace(quarter=(quarter - 2) % 4 + 1))


def write_years_out(question: str) -> str:
    """Write years with four digits: `3Q23` → `Q3 2023`, `FY19` → `FY2019`, `2018-19` → `2018-2019`.

    Korean business terms are written out too: `23기` → `제23기`.
    """

    def write_out(match: re.Match[str]) -> str:
        """Return the year, span of years or quarter of a match with years of four digits."""
        if match["from"]:
            later = int(match["to"]) > int(match["from"][2:])  # else a month: 2020-05
            return f"{match['from']}-{match['from'][:2]}{match['to']}" if later else match[0]
        quarter = match["q"] or match["q2"]
        year = next(filter(None, map(match.group, ("y1", "y2", "y3", "y4", "y5"))))
        return f"Q{quarter} 20{year}" if quarter else f"{'FY' if match['y3'] else ''}20{year}"

    return A_TERM.sub("제", SHORT_YEAR.sub(write_out, question))


def part_of_year(question: str) -> Part | None:
    """Return the part of a year that a question names, WHOLE_YEAR without one; None where it names several."""
    spans = {value for kind, value in _find_atoms(question) if kind == "months"}
    parts = {when.part for when in find_parts(question)}
    if len(parts) > 1 or len(spans) > 1:
        return None
    return next(iter(parts), WHOLE_YEAR)


def find_parts(question: str) -> tuple[When, ...]:
    """Return the parts of years that a question names, in its order; empty where it names no part.

    "Q2 2023 and 2022" names two, "three months ended June 30, 2023 and 2022" too; without a year, `year` is 0.
    """
    parts: list[Part] = []
    years: list[int] = []
    months: int | None = None
    for atom in _find_atoms(question):
        match atom:
            case ("months", int() as count):
                months = count
                parts = [part._replace(months=months) if part.months is None else part for part in parts]
            case ("part", Part() as part):
                parts.append(part if part.quarter else part._replace(months=months))
            case ("year", int() as year):
                years.append(year)
            case _:
                pass
    if not parts and months:
        parts = [Part(months=months)]
    # as many parts as years belong together in pairs and keep repeats ("Q1 2022 and Q1 2023"); else each is of each
    parts = list(dict.fromkeys(parts)) if len(set(years)) != len(parts) else parts
    years = list(dict.fromkeys(years)) if len(years) != len(parts) else years
    if not parts or not years:
        return tuple(When(0, part) for part in parts)
    if len(parts) == len(years):
        return tuple(dict.fromkeys(When(year, part) for part, year in zip(parts, years, strict=True)))
    return tuple(When(year, part) for year in years for part in parts)


_ATOMS = re.compile(f"(?P<atom_quarter>{QUARTER_SAID})|(?P<atom_span>{SPAN})|(?P<atom_day>{DAY})", re.I | re.X)


def _find_atoms(question: str) -> Iterator[tuple[str, Part | int]]:
    """Yield the parts of years, lengths in months and years that a question names, in its order, with their kinds."""
    atoms: list[tuple[int, str, Part | int]] = [
        (match.start(), "year", int(match["year"])) for match in A_YEAR.finditer(question)
    ]
    for match in _ATOMS.finditer(question):
        if match["atom_quarter"]:
            atoms.append((match.start(), "part", Part(quarter_number(match), 3)))
        elif match["atom_span"]:
            months = 3 if match["quarter"] else 6
            if match["months"]:
                months = COUNTS.get(match["months"].lower()) or int(match["months"])
            elif match["weeks"]:
                months = WEEKS[match["weeks"].lower()]
            atoms.append((match.start(), "months", months))
        else:
            month = month_number(match["month"] or match["month_ko"])
            day = int(match["day"] or match["day_ko"] or LAST_DAYS.get(month, 30))
            if 1 <= month <= 12 and day:  # not 13월
                atoms.append((match.start(), "part", Part(month_and_day=(month, day))))
    for _, kind, value in sorted(atoms, key=lambda atom: atom[0]):
        yield kind, value


class PeriodColumns(NamedTuple):
    """Tells which columns of some documents are those of a year or a part of it."""

    year: int
    part: Part
    ends: frozenset[tuple[str, date]]
    """Documents, and the days in them that a quarter ends with; empty where the part is no quarter."""

    def includes(self, document: str, period: Period, *, balance: bool | None) -> bool:
        """Return whether a column's period is the part, or its end for a balance; balance: None for an unknown line."""
        if self.part.month_and_day:
            month, day = self.part.month_and_day
            then = date(self.year, month, min(day, LAST_DAYS.get(month, 30)))  # as `date` refuses other days
            if period.end is None or abs((period.end - then).days) > DAYS_APART:
                return False
        elif period.year != self.year:
            return False
        if self.part.months is None and period.kind != "instant":  # a year is asked for
            if period.kind == "none" or balance:
                return True
            return period.months in range(11, 14) if period.months else period.label.startswith("FY")
        if self.part.quarter:
            is_labelled = period.label.startswith(f"Q{self.part.quarter} ")
            ends = period.end is not None and (document, period.end) in self.ends
            if not (is_labelled or ends):
                return False
        if period.kind == "instant":
            return balance is not False
        if balance:
            return False
        return period.months == self.part.months or (period.months is None and self.part.quarter is not None)
