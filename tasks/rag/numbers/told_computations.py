"""Reads a computation that a model wrote as JSON: it says what is worked out, and the numbers come from tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError

from storage.records import Record
from tasks.rag.numbers.combining import Combined
from tasks.rag.numbers.computation_reading import MOST_YEARS
from tasks.rag.numbers.computations import Computation, Latest, over_periods
from tasks.rag.numbers.expressions import Line, NoExpression, lines_of, parse
from tasks.rag.numbers.year_parts import When

MOST_FORMULA_CHARS = 500


class ToldComputation(Record):
    """What a model answers."""

    formula: str | None = Field(default=None, max_length=MOST_FORMULA_CHARS)
    """None: the question asks for something else."""
    operation: Literal["value", "growth", "difference", "cagr", "average", "sum", "highest", "lowest"] = "value"
    years: tuple[int, ...] = ()
    unit: Literal["amount", "%", "times", "days", ""] = ""


def computation_told(text: str, how: Computation, latest: Latest) -> Computation | None:
    """The computation that a model's JSON tells; None where it tells none, or none that can be executed.

    how: language, decimals and scale that the question asks for.
    """
    try:
        told = ToldComputation.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        expression = parse(told.formula or "")
    except (ValidationError, NoExpression):
        return None
    whens = _whens(told.years, latest)
    if not told.formula or not whens or not any(True for _ in lines_of(expression)):
        return None
    unit = told.unit or ("amount" if isinstance(expression, Line) else "")
    operation = {"value": "", "sum": "total"}.get(told.operation, told.operation)
    tasks = tuple(over_periods(Combined(told.formula, expression, unit), operation, whens))
    return how._replace(tasks=tasks, assumed=not told.years)


def _whens(years: Sequence[int], latest: Latest) -> tuple[When, ...]:
    if not years:
        now = latest()
        return (now,) if now else ()
    span = range(min(years), max(years) + 1)
    return tuple(map(When, span)) if len(span) <= MOST_YEARS else ()
