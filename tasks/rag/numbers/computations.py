"""What a question asks to be worked out: figures of expressions, and operations over periods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from tasks.language.sentences import Language
from tasks.rag.numbers.combining import Combined, Shown
from tasks.rag.numbers.expressions import (
    Constant,
    Expression,
    How,
    Line,
    Operation,
    Over,
)
from tasks.rag.numbers.question_shape import (
    WORDS,
    any_of,
)
from tasks.rag.numbers.year_parts import WHOLE_YEAR, Part, When

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
