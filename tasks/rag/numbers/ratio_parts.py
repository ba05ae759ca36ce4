"""Ratios and the lines that they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tasks.rag.numbers.computations import Task, is_ratio
from tasks.rag.numbers.concepts import Concept, concepts
from tasks.rag.numbers.expressions import (
    Expression,
    Line,
    Operation,
    Over,
    lines_of,
    parse,
)
from tasks.rag.numbers.question_shape import (
    Shape,
)

CASH = "cash_and_cash_equivalents"
PAID = {"income_tax": "income_taxes_paid", "interest_expense": "interest_paid", "dividends_declared": "dividends_paid"}
"""Costs of a year, and what is paid for them."""


def without_parts(shape: Shape) -> Shape:
    """Without the lines of which a ratio is made that the question explains, and without "in cash" of a payment."""
    lines = list(enumerate(shape.lines))
    ratios = [at for at, line in lines if line.concept and line.concept.statement is None]
    dropped: set[int] = set()
    if len(ratios) == 1:
        ratio = shape.lines[ratios[0]].concept
        parts = set(_inputs(ratio)) if ratio else set()
        if parts >= {line.concept for at, line in lines if at not in ratios}:
            dropped = {at for at, _ in lines} - set(ratios)
    elif len(lines) > 1:
        dropped = {at for at, line in lines if line.concept and line.concept.key == CASH}
        dropped = dropped if len(dropped) < len(lines) else set()
        shape = shape._replace(lines=tuple(map(_paid, shape.lines))) if dropped else shape
    if not dropped:
        return shape
    pieces = re.split("(¤)", shape.skeleton)
    kept = [piece for at, piece in enumerate(pieces) if at % 2 == 0 or at // 2 not in dropped]
    left = tuple(line for at, line in enumerate(shape.lines) if at not in dropped)
    return shape._replace(skeleton=" ".join(kept), lines=left)


def _paid(line: Line) -> Line:
    """What is paid in cash for a cost is a line of its own."""
    paid = PAID.get(line.concept.key) if line.concept else None
    return line._replace(said=f"{line.said} paid", concept=concepts()[paid]) if paid else line


def _inputs(ratio: Concept, above: tuple[str, ...] = ()) -> Iterator[Concept]:
    """The lines that a ratio is made of, through other ratios; above: those that lead to it."""
    for line in lines_of(parse(ratio.formula)):
        if line.concept and line.concept.statement:
            yield line.concept
        elif line.concept and line.concept.key not in (*above, ratio.key):
            yield from _inputs(line.concept, (*above, ratio.key))


def at_year_end(task: Task) -> Task:
    """A ratio whose balances are of the end of the year, and not the mean of both ends."""
    ratio = task.expression
    if isinstance(ratio, Line) and ratio.concept and is_ratio(ratio) and not ratio.of:
        return task._replace(expression=_without_means(parse(ratio.concept.formula)))
    return task


def _without_means(expression: Expression) -> Expression:
    match expression:
        case Operation(sign, left, right):
            return Operation(sign, _without_means(left), _without_means(right))
        case Over("average", what, ()):
            return what
        case _:
            return expression
