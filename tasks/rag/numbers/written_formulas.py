"""Formulas that a question writes: "inventory turnover, defined as COGS / average inventory"."""

from __future__ import annotations

import re
from decimal import Decimal

from tasks.rag.numbers.asked_periods import named_in
from tasks.rag.numbers.combining import UNITS, Combined, Shown
from tasks.rag.numbers.computations import Latest, Task, operation, over_periods
from tasks.rag.numbers.concepts import Mention, mentions, words_of
from tasks.rag.numbers.definitions import definitions, meanings, overrides, root_of, with_meanings, without
from tasks.rag.numbers.expressions import (
    Constant,
    Expression,
    NoExpression,
    Operation,
    Over,
    lines_of,
    parse,
)
from tasks.rag.numbers.question_shape import (
    WORDS,
    any_of,
)

DEFINED = tuple(re.compile(pattern, re.IGNORECASE) for pattern in WORDS["defined"])
"""What stands between the name of a ratio and its formula; group `body` is the formula."""
SHARE, PERCENT = map(any_of, ("share", "percent"))
SUBTRACTION, FORMULA_END, SOURCE = (
    re.compile(WORDS[name], re.IGNORECASE) for name in ("subtraction", "formula_end", "source")
)
SENTENCE_END = re.compile(r"(?<=[^\s.][.?!。])\s+(?=[A-Z가-힣\"“(])|[?!]")
HUNDRED = Decimal(100)
MOST_LINE_WORDS = 9
GENERIC = frozenset(("value", "amount", "number", "year", "period", "figure", "price", "cost"))
"""Words of formulas in the abstract: "ending value / beginning value"."""
MOST_FREE_WORDS = 3
"""Of a line of a formula of which no line is known."""


def defined(asked: str, latest: Latest = lambda: None) -> Task | None:
    """The figure whose formula the question writes."""
    asked = SOURCE.sub(" ", asked)
    given = definitions(asked)
    if len(given) > 1:
        rest = without(asked, given)
        root = root_of(given, rest)
        if root is None:
            return None
        told = with_meanings(root.expression, {key: one for key, one in meanings(given).items() if key != root.key})
        return _figure(told, asked[: root.start] or asked[: root.end], rest, "", latest)
    if given and overrides(given[0], without(asked, given)):
        return None
    for match in (match for pattern in DEFINED for match in pattern.finditer(asked)):
        start, end = _formula(asked, match)
        body = asked[start:end].rstrip(" .?!:;")
        try:
            expression = _from_words(body)
        except NoExpression:
            continue
        if not isinstance(expression, Operation | Over) or _unsaid(expression):
            continue
        rest = f"{asked[: match.start()]} . {asked[end:]}"
        return _figure(expression, asked[: match.start()], rest, body, latest)
    return None


def _figure(expression: Expression, before: str, rest: str, body: str, latest: Latest) -> Task:
    """The figure that a formula is, of the periods that stand before it, around it or in it."""
    whens = named_in(before) or named_in(rest) or named_in(body)
    when = whens[-1] if whens else None if any(line.year for line in lines_of(expression)) else latest()
    name = _title(before)
    percent = (name and name.concept.unit) or ("%" if PERCENT.search(rest) else "")
    title = before[name.start : name.end] if name else ""
    if in_percent := _without_hundred(expression):
        expression, percent = in_percent, "%"
    how, asked_of = operation(rest), named_in(rest)
    if how and len(asked_of) > 1 and not any(line.year for line in lines_of(expression)):
        (only,) = over_periods(Combined(title, expression, shown_in(percent)), how, asked_of)
        return only
    if when is None:
        return Task(title, expression, None, "", shown_in(percent))
    return Task(title, expression, when.year, when.label, shown_in(percent), when.part)


def _formula(asked: str, match: re.Match[str]) -> tuple[int, int]:
    """Where the formula stands: up to the end of its sentence, or what the pattern holds of it."""
    if "whole" in match.groupdict():
        return match.span("whole")
    start = match.start("body")
    ends = (end.start() for pattern in (SENTENCE_END, FORMULA_END) for end in pattern.finditer(asked, start))
    return start, min(ends, default=len(asked))


def _title(before: str) -> Mention | None:
    """The last ratio or line that is named before its definition."""
    found = mentions(before)
    return found[-1] if found else None


def _from_words(body: str) -> Expression:
    """The formula that words write: "A divided by B", "the ratio of A to B", "A as a percentage of B"."""
    if match := SHARE.search(body):
        parts = {name: part for name, part in match.groupdict().items() if part}
        part = next(value for name, value in parts.items() if name.startswith("part"))
        whole = next(value for name, value in parts.items() if name.startswith("whole"))
        return Operation("/", parse(part), parse(whole))
    if match := SUBTRACTION.search(body):
        return Operation("-", parse(match["more"]), parse(match["less"]))
    before, comma, after = body.rpartition(", divided by ")  # "a minus b, divided by c" divides the difference
    return Operation("/", parse(before), parse(after)) if comma else parse(body)


def _without_hundred(expression: Expression) -> Expression | None:
    """What is multiplied by 100 to be shown in percent; None for other formulas."""
    match expression:
        case Operation("*", inner, Constant(value)) | Operation("*", Constant(value), inner) if value == HUNDRED:
            return inner
        case _:
            return None


def _unsaid(expression: Expression) -> bool:
    """Whether the text was no formula: a line of it is a sentence, or none is known."""
    lines = list(lines_of(expression))
    if any(line.concept for line in lines):
        return any(len(words_of(line.said)) > MOST_LINE_WORDS for line in lines)
    words = [words_of(line.said) for line in lines]
    return not all(0 < len(one) <= MOST_FREE_WORDS and not GENERIC.intersection(one) for one in words)


def shown_in(unit: str) -> Shown:
    return UNITS.get(unit, "")
