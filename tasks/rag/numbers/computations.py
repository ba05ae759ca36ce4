"""What a question asks to be worked out: how its lines are put together, over which periods, by which operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.language.sentences import Language
from tasks.rag.numbers.expressions import (
    Constant,
    Expression,
    How,
    Line,
    Operation,
    Over,
    years_in,
)
from tasks.rag.numbers.periods import WHOLE_YEAR, Part, When, parts_in
from tasks.rag.numbers.question_shape import (
    LINE,
    WORDS,
    any_of,
)

Shown = Literal["", "amount", "%", "times", "days", "per share"]
TIMES = re.compile(r"\btimes\b|\bratio\b|\bmultiple\b|(?<![가-힣])배|몇\s?배", re.IGNORECASE)
SMALL, JOINED, TOGETHER, MINUS, MINUS_REVERSED, PART_FIRST, WHOLE_FIRST = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in (
        "small",
        "joined",
        "together",
        "minus",
        "minus_reversed",
        "part_first",
        "whole_first",
    )
)
PER = re.compile(rf"{LINE}\s+per\s+{LINE}", re.IGNORECASE)
UNITS: dict[str, Shown] = {"currency": "amount", "%": "%", "times": "times", "days": "days", "per share": "per share"}


class Combined(NamedTuple):
    """One figure, still without its years."""

    title: str
    expression: Expression
    shown: Shown


class _Term(NamedTuple):
    title: str
    expression: Expression
    unit: Shown


def combine(skeleton: str, lines: Sequence[Line], *, percent: bool) -> tuple[Combined, ...]:
    """The figures that a skeleton makes of its lines; empty where it does not say how they belong together.

    percent: whether the question speaks of percent.
    """
    plain = " ".join(SMALL.sub(" ", skeleton).split())
    known = [(line, line.concept if is_ratio(line) else None) for line in lines]
    terms = [_Term(line.said, line, UNITS.get(ratio.unit, "") if ratio else "amount") for line, ratio in known]
    plain, terms = _sums(plain, terms)
    if len(terms) == 1:
        return (Combined(*terms[0]),)
    if len(terms) == 2:
        return _of_two(plain, terms, percent=percent) or _each(plain, terms)
    return _each(plain, terms)


def _sums(plain: str, terms: list[_Term]) -> tuple[str, list[_Term]]:
    """ "Goodwill and intangible assets together" is one term."""
    if not TOGETHER.search(plain):
        return plain, terms
    for match in JOINED.finditer(plain):
        first, count = plain[: match.start()].count(LINE), match.group().count(LINE)
        added = terms[first]
        for term in terms[first + 1 : first + count]:
            added = _Term(
                f"{added.title} + {term.title}", Operation("+", added.expression, term.expression), added.unit
            )
        plain = f"{plain[: match.start()]}{LINE}{plain[match.end() :]}"
        return plain, [*terms[:first], added, *terms[first + count :]]
    return plain, terms


def _of_two(plain: str, terms: Sequence[_Term], *, percent: bool) -> tuple[Combined, ...]:
    """The difference or the ratio of two terms."""
    for pattern, (left, right) in ((MINUS, (0, 1)), (MINUS_REVERSED, (1, 0))):
        if pattern.search(plain):
            more, less = terms[left], terms[right]
            if percent and more.unit == "amount":
                share = Operation("-", Operation("/", more.expression, less.expression), Constant(Decimal(1), "1"))
                return (Combined(f"{more.title} / {less.title}", share, "%"),)
            difference = Operation("-", more.expression, less.expression)
            return (Combined(f"{more.title} − {less.title}", difference, more.unit),)
    for pattern, (part, whole) in ((PART_FIRST, (0, 1)), (WHOLE_FIRST, (1, 0))):
        if pattern.search(plain):
            title = f"{terms[part].title} / {terms[whole].title}"
            ratio = Operation("/", terms[part].expression, terms[whole].expression)
            if PER.search(plain) and not percent:
                return (Combined(title, ratio, "amount"),)
            return (Combined(title, ratio, "times" if TIMES.search(plain) and not percent else "%"),)
    return ()


def _each(plain: str, terms: Sequence[_Term]) -> tuple[Combined, ...]:
    """Each of the terms that the question lists."""
    listed = JOINED.search(plain)
    return tuple(Combined(*term) for term in terms) if listed and listed.group().count(LINE) == len(terms) else ()


OPERATIONS = {name: any_of(name) for name in ("cagr", "highest", "lowest", "growth", "average", "difference", "total")}
POINTS = re.compile(WORDS["points"], re.IGNORECASE)
ONE = Decimal(1)


class Task(NamedTuple):
    """One figure to work out."""

    title: str
    expression: Expression
    year: int | None
    """Fiscal year of the lines that name none; None where all do."""
    label: str
    """The period as the answer names it: `FY2019`, `FY2017 … FY2019`."""
    shown: Shown = ""
    part: Part = WHOLE_YEAR
    """Of the year."""

    @property
    def when(self) -> When | None:
        """The period of the lines that name none."""
        return When(self.year, self.part) if self.year else None


class Computation(NamedTuple):
    """What a question asks to be worked out."""

    tasks: tuple[Task, ...]
    language: Language
    decimals: int | None = None
    """Asked for."""
    scale: str = ""
    """`thousands`, `millions`, `billions`: asked for."""
    defined: bool = False
    """The question gives the formula itself."""
    in_percent: bool = False
    """The question speaks of percent."""
    unread: tuple[str, ...] = ()
    """Words of the question that nothing explains."""
    assumed: bool = False
    """The question names no year: that of the documents is taken."""


Latest = Callable[[], When | None]
"""The period that the documents are of."""
Labels = Callable[[], Mapping[str, int]]
"""Words of the labels of their tables, with the number of labels that hold them."""


def operation(asked: str) -> str:
    """What a question asks to be done with a line over its periods; empty for the value itself."""
    if POINTS.search(asked):
        return "difference"
    return next((how for how, pattern in OPERATIONS.items() if pattern.search(asked)), "")


def extreme(plain: str) -> str:
    """Whether the highest or the lowest of several years is asked for: the skeleton has no years."""
    return next((how for how in ("highest", "lowest") if OPERATIONS[how].search(plain)), "")


def over_periods(figure: Combined, how: str, whens: Sequence[When]) -> Iterator[Task]:
    """The operation over the periods of a question; a value is asked for each of them."""
    title, what, shown = figure
    first, last = whens[0], whens[-1]
    if how == "" or (how == "total" and len(whens) == 1):
        yield from (Task(title, what, one.year, one.label, shown, one.part) for one in whens)
        return
    span = f"{first.label} … {last.label}" if len(whens) > 1 else last.label
    if how in ("highest", "lowest", "total", "average"):
        over: How = {"total": "sum"}.get(how, how)  # type: ignore[assignment]
        yield _task(title, Over(over, what, _years(whens) if len(whens) > 1 else ()), last, span, shown)
        return
    if len(whens) == 1:
        first = last.before()
    span = f"{first.label} → {last.label}"
    if how == "cagr":
        yield _task(title, Over("cagr", what, _years((first, last))), last, span, "%")
    elif how == "difference" or shown == "%":  # of a margin people name the points, not the growth of a percentage
        yield _task(title, Over("change", what, _years((first, last))), last, span, shown)
    else:
        growth = Operation("-", Operation("/", at(what, last), at(what, first)), Constant(ONE, "1"))
        yield _task(title, growth, last, span, "%")


def _task(title: str, what: Expression, last: When, label: str, shown: Shown) -> Task:
    return Task(title, what, last.year, label, shown, last.part)


def _years(whens: Sequence[When]) -> tuple[int | When, ...]:
    return tuple(one.year if one.part == WHOLE_YEAR else one for one in whens)


def at(expression: Expression, when: When) -> Expression:
    """An expression whose lines are of one period."""
    match expression:
        case Line():
            part = None if when.part == WHOLE_YEAR else when.part
            return expression._replace(year=expression.year or when.year, part=expression.part or part)
        case Operation(sign, left, right):
            return Operation(sign, at(left, when), at(right, when))
        case _:
            return expression


def is_ratio(line: Line) -> bool:
    return line.concept is not None and line.concept.statement is None


PREVIOUS_YEAR, PREVIOUS_QUARTER, CURRENT, LAST_YEARS = (
    re.compile(WORDS[name], re.IGNORECASE) for name in ("previous_year", "previous_quarter", "current", "last_years")
)
ENGLISH_COUNTS = {"zero": 0, "no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
COUNTS = {**ENGLISH_COUNTS, "한": 1, "두": 2, "둘": 2, "세": 3, "셋": 3, "첫": 1}
YEARS_BACK = re.compile(r"\b(?P<count>\d|two|three|four|five)[\s-]years?\b|(?P<count_ko>\d)\s?개년", re.IGNORECASE)


def whens_of(asked: str, latest: Latest) -> tuple[tuple[When, ...], bool]:
    """The periods that a question names, in order of time; and whether it leaves them to the documents."""
    parts = parts_in(asked)
    years = years_in(asked)
    if parts and not years:  # "in the second quarter"
        now = latest()
        whens = tuple(one._replace(year=now.year) for one in parts) if now else ()
        assumed = True
    elif parts:
        whens, assumed = parts, False
    elif years:
        if back := YEARS_BACK.search(asked):
            first = years[-1] - count_of(back["count"] or back["count_ko"]) + 1
            years = tuple(range(min(years[0], first), years[-1] + 1))
        whens, assumed = tuple(When(year) for year in years), False
    else:
        now = latest()
        whens, assumed = ((now,) if now else ()), True
    whens = _with_earlier(asked, whens, assumed=assumed)
    return tuple(
        sorted(whens, key=lambda one: (one.year, one.part.quarter or 0, one.part.month_and_day or (0, 0)))
    ), assumed


def _with_earlier(asked: str, whens: tuple[When, ...], *, assumed: bool) -> tuple[When, ...]:
    """With the periods that are named by their place: the year before, the quarter before, the last three years."""
    if len(whens) != 1:
        return whens
    if several := LAST_YEARS.search(asked):
        count = count_of(several["count"] or several["count_ko"])
        return tuple(whens[0]._replace(year=whens[0].year - back) for back in reversed(range(count)))
    for pattern, quarters in ((PREVIOUS_QUARTER, True), (PREVIOUS_YEAR, False)):
        if pattern.search(asked):
            earlier = whens[0].before(quarters=quarters)
            # "revenue of last year" alone is of that year, and a comparison is of both
            return (earlier, *whens) if operation(asked) or not assumed or CURRENT.search(asked) else (earlier,)
    return whens


def named_in(text: str) -> tuple[When, ...]:
    """The periods that a text names by years."""
    if years := years_in(text):
        parts = parts_in(text)
        return parts if len(parts) == 1 else tuple(When(year) for year in years)
    return ()


def count_of(text: str) -> int:
    return int(text) if text.isdigit() else COUNTS.get(text.lower(), 2)
