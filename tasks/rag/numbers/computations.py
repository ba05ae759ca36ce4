"""What a question asks to be worked out: how its lines are put together, over which periods, by which operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.language.sentences import Language
from tasks.rag.numbers.expressions import Aggregate, Constant, Expression, Line, Operation, Over, find_years
from tasks.rag.numbers.periods import WHOLE_YEAR, Part, When, find_parts
from tasks.rag.numbers.question_shape import any_of

DisplayUnit = Literal["", "amount", "%", "times", "days", "per share"]
UNITS: dict[str, DisplayUnit] = {
    "currency": "amount",
    "%": "%",
    "times": "times",
    "days": "days",
    "per share": "per share",
}


class Combined(NamedTuple):
    """A value to work out, still without its periods."""

    title: str
    expression: Expression
    display_unit: DisplayUnit


def value_of(line: Line) -> Combined:
    """Return a line as a value to work out, in the unit of its ratio or as an amount."""
    ratio = line.concept if is_ratio(line) else None
    return Combined(line.name, line, UNITS.get(ratio.unit, "") if ratio else "amount")


OPERATIONS = {name: any_of(name) for name in ("cagr", "highest", "lowest", "growth", "average", "difference", "total")}
POINTS = any_of("points")
DECIMAL_ONE = Decimal(1)


class Task(NamedTuple):
    """One value to work out."""

    title: str
    expression: Expression
    year: int | None
    """Fiscal year of the lines that name none; None where all do."""
    label: str
    """The period as the answer gives it: `FY2019`, `FY2017 … FY2019`."""
    display_unit: DisplayUnit = ""
    part: Part = WHOLE_YEAR
    """The part of the year."""

    @property
    def when(self) -> When | None:
        """The period of the lines that name none; None where the question names no year."""
        return When(self.year, self.part) if self.year else None


class Computation(NamedTuple):
    """The tasks of arithmetic that a question sets, and how it wants their results shown."""

    tasks: tuple[Task, ...]
    language: Language
    decimals: int | None = None
    """Number of decimals that the question asks for."""
    scale: str = ""
    """The scale that the question asks for: `thousands`, `millions`, `billions`; empty for none."""
    defined: bool = False
    """Whether the question gives the formula itself."""
    in_percent: bool = False
    """Whether the question speaks of percent."""
    unread: tuple[str, ...] = ()
    """Words of the question that nothing explains."""
    assumed: bool = False
    """Whether the question names no year, so that the documents' is taken."""


Latest = Callable[[], When | None]
"""A function that returns the latest period of the documents; None where they have none."""
Labels = Callable[[], Mapping[str, int]]
"""A function that returns each word of the labels of tables with the number of labels that hold it."""


def operation(text: str) -> str:
    """Return the operation over its periods that a question asks for (a key of OPERATIONS); empty for the value."""
    if POINTS.search(text):
        return "difference"
    return next((name for name, pattern in OPERATIONS.items() if pattern.search(text)), "")


def find_extreme(plain: str) -> str:
    """Return `highest` or `lowest` where a question, with its years, asks for one of several years; else empty."""
    return next((name for name in ("highest", "lowest") if OPERATIONS[name].search(plain)), "")


def spread_over_periods(combined: Combined, operation_name: str, whens: Sequence[When]) -> Iterator[Task]:
    """Yield the task of an operation over periods, or over one and the one before; without one, a task for each."""
    title, expression, display_unit = combined
    first, last = whens[0], whens[-1]
    if operation_name == "" or (operation_name == "total" and len(whens) == 1):
        yield from (Task(title, expression, when.year, when.label, display_unit, when.part) for when in whens)
        return
    span = f"{first.label} … {last.label}" if len(whens) > 1 else last.label
    if operation_name in ("highest", "lowest", "total", "average"):
        over: Aggregate = {"total": "sum"}.get(operation_name, operation_name)  # type: ignore[assignment]
        yield _make_task(
            title, Over(over, expression, _bare_years(whens) if len(whens) > 1 else ()), last, span, display_unit
        )
        return
    if len(whens) == 1:
        first = last.before()
    span = f"{first.label} → {last.label}"
    if operation_name == "cagr":
        yield _make_task(title, Over("cagr", expression, _bare_years((first, last))), last, span, "%")
    elif operation_name == "difference" or display_unit == "%":
        # of a margin people name the points, not the growth of a percentage
        yield _make_task(title, Over("change", expression, _bare_years((first, last))), last, span, display_unit)
    else:
        ratio = Operation("/", set_period(expression, last), set_period(expression, first))
        growth = Operation("-", ratio, Constant(DECIMAL_ONE, "1"))
        yield _make_task(title, growth, last, span, "%")


def _make_task(title: str, expression: Expression, last: When, label: str, display_unit: DisplayUnit) -> Task:
    return Task(title, expression, last.year, label, display_unit, last.part)


def _bare_years(whens: Sequence[When]) -> tuple[int | When, ...]:
    return tuple(when.year if when.part == WHOLE_YEAR else when for when in whens)


def set_period(expression: Expression, when: When) -> Expression:
    """Return an expression whose lines are of one period where they name none of their own; an `Over` is unchanged."""
    match expression:
        case Line():
            part = None if when.part == WHOLE_YEAR else when.part
            return expression._replace(year=expression.year or when.year, part=expression.part or part)
        case Operation(sign, left, right):
            return Operation(sign, set_period(left, when), set_period(right, when))
        case _:
            return expression


def is_ratio(line: Line) -> bool:
    """Return whether a line is a ratio of concepts.toml, which has a formula and stands in no statement."""
    return line.concept is not None and line.concept.statement is None


PREVIOUS_YEAR, PREVIOUS_QUARTER, CURRENT, LAST_YEARS = map(
    any_of, ("previous_year", "previous_quarter", "current", "last_years")
)
ENGLISH_COUNTS = {"zero": 0, "no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
COUNTS = {**ENGLISH_COUNTS, "한": 1, "두": 2, "둘": 2, "세": 3, "셋": 3, "첫": 1}
YEARS_BACK = re.compile(r"\b(?P<count>\d|two|three|four|five)[\s-]years?\b|(?P<count_ko>\d)\s?개년", re.IGNORECASE)


def find_periods(text: str, latest: Latest) -> tuple[tuple[When, ...], bool]:
    """Return the periods that a question names, or the latest if any, in order of time, and if it is assumed."""
    parts = find_parts(text)
    years = find_years(text)
    if parts and not years:  # "in the second quarter"
        now = latest()
        whens = tuple(when._replace(year=now.year) for when in parts) if now else ()
        assumed = True
    elif parts:
        whens, assumed = parts, False
    elif years:
        if back := YEARS_BACK.search(text):
            # "three-year average, FY2019" is of the two years before too
            first = years[-1] - read_count(back["count"] or back["count_ko"]) + 1
            years = tuple(range(min(years[0], first), years[-1] + 1))
        whens, assumed = tuple(When(year) for year in years), False
    else:
        now = latest()
        whens, assumed = ((now,) if now else ()), True
    whens = _add_earlier_periods(text, whens, assumed=assumed)
    return tuple(
        sorted(whens, key=lambda when: (when.year, when.part.quarter or 0, when.part.month_and_day or (0, 0)))
    ), assumed


def _add_earlier_periods(text: str, whens: tuple[When, ...], *, assumed: bool) -> tuple[When, ...]:
    """Add to a single period those that a question names relative to it; "last year" alone replaces it."""
    if len(whens) != 1:
        return whens
    if several := LAST_YEARS.search(text):
        count = read_count(several["count"] or several["count_ko"])
        return tuple(whens[0]._replace(year=whens[0].year - back) for back in reversed(range(count)))
    for pattern, quarters in ((PREVIOUS_QUARTER, True), (PREVIOUS_YEAR, False)):
        if pattern.search(text):
            earlier = whens[0].before(quarters=quarters)
            # "revenue of last year" alone is of that year, and a comparison is of both
            return (earlier, *whens) if operation(text) or not assumed or CURRENT.search(text) else (earlier,)
    return whens


def find_named_periods(text: str) -> tuple[When, ...]:
    """Return the years that a text names, in order of time, or its one part of a year; empty where it names no year."""
    if years := find_years(text):
        parts = find_parts(text)
        return parts if len(parts) == 1 else tuple(When(year) for year in years)
    return ()


def read_count(text: str) -> int:
    """Return the number that digits or a word such as `three` write; 2 for any other word."""
    return int(text) if text.isdigit() else COUNTS.get(text.lower(), 2)
