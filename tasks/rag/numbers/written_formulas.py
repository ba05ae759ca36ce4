"""Formulas that a question writes: "inventory turnover, defined as COGS / average inventory"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

from tasks.rag.numbers.computations import UNITS, Combined, Latest, Shown, Task, at, named_in, operation, over_periods
from tasks.rag.numbers.concepts import Concept, mentions, words_of
from tasks.rag.numbers.expressions import (
    Constant,
    Expression,
    Line,
    NoExpression,
    Operation,
    Over,
    find_concept,
    lines_of,
    parse,
)
from tasks.rag.numbers.periods import WHOLE_YEAR, When
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
        # up to the end of its sentence, or what the pattern holds of it
        if "whole" in match.groupdict():
            start, end = match.span("whole")
        else:
            start = match.start("body")
            ends = (found.start() for sign in (SENTENCE_END, FORMULA_END) for found in sign.finditer(asked, start))
            end = min(ends, default=len(asked))
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
    # the last ratio or line that is named before its definition
    found = mentions(before)
    name = found[-1] if found else None
    percent = (name and name.concept.unit) or ("%" if PERCENT.search(rest) else "")
    title = before[name.start : name.end] if name else ""
    match expression:  # what is multiplied by 100 is to be shown in percent
        case Operation("*", inner, Constant(value)) | Operation("*", Constant(value), inner) if value == HUNDRED:
            expression, percent = inner, "%"
        case _:
            pass
    how, asked_of = operation(rest), named_in(rest)
    if how and len(asked_of) > 1 and not any(line.year for line in lines_of(expression)):
        (only,) = over_periods(Combined(title, expression, shown_in(percent)), how, asked_of)
        return only
    if when is None:
        return Task(title, expression, None, "", shown_in(percent))
    return Task(title, expression, when.year, when.label, shown_in(percent), when.part)


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


def _unsaid(expression: Expression) -> bool:
    """Whether the text was no formula: a line of it is a sentence, or none is known."""
    lines = list(lines_of(expression))
    if any(line.concept for line in lines):
        return any(len(words_of(line.said)) > MOST_LINE_WORDS for line in lines)
    words = [words_of(line.said) for line in lines]
    return not all(0 < len(one) <= MOST_FREE_WORDS and not GENERIC.intersection(one) for one in words)


def shown_in(unit: str) -> Shown:
    return UNITS.get(unit, "")


ASSIGNS, BEFORE_NAME, AFTER_FORMULA, DEFINITION_END = (
    re.compile(WORDS[name], re.IGNORECASE) for name in ("assigns", "before_name", "after_formula", "sentence_end")
)
JOINS_DEFINITION = re.compile(r"[\s,;]*\b(?:where|and|with|given|if|using|use|take|taking)\s*$", re.IGNORECASE)
MOST_NAME_WORDS = 6
MOST_WORDS_UNNAMED = 4
"""Of a line of a formula that no concept names."""


class Definition(NamedTuple):
    """A name and what it means."""

    name: str
    concept: Concept | None
    expression: Expression
    start: int
    """Offset in the question."""
    end: int

    @property
    def key(self) -> str:
        """What lines of other formulas are compared with."""
        return self.concept.key if self.concept else " ".join(words_of(self.name))


def definitions(asked: str) -> tuple[Definition, ...]:
    """The definitions of a question, in its order."""
    raw = list(_written(asked))
    known = {" ".join(words_of(name)) for name, *_ in raw}
    found: list[Definition] = []
    for name, start, body, end in raw:
        expression = _longest_formula(asked[body:end], known)
        if expression and 0 < len(words_of(name)) <= MOST_NAME_WORDS:
            found.append(Definition(name, find_concept(name), expression, start, end))
    return tuple(found)


def _written(asked: str) -> Iterator[tuple[str, int, int, int]]:
    """Name, its offset, and where the formula begins and ends."""
    signs = list(ASSIGNS.finditer(asked))
    starts: list[int] = []
    for at_sign, sign in enumerate(signs):
        done = signs[at_sign - 1].end() if at_sign else 0
        before = list(BEFORE_NAME.finditer(asked, done, sign.start()))
        starts.append(before[-1].end() if before else done)
    for at_sign, sign in enumerate(signs):
        last = starts[at_sign + 1] if at_sign + 1 < len(signs) else len(asked)
        end = min((one.start() for one in DEFINITION_END.finditer(asked, sign.end(), last)), default=last)
        yield asked[starts[at_sign] : sign.start()].strip(" \"“”'(),:"), starts[at_sign], sign.end(), end


def _longest_formula(body: str, known: set[str]) -> Expression | None:
    """The longest beginning of a text that is a formula: "inventory / COGS, all with year-end balances"."""
    text = body
    shortest: Expression | None = None
    while text.strip():
        text = AFTER_FORMULA.sub("", text).strip(" ,;:.")
        with suppress(NoExpression):
            expression = parse(text)
            lines = list(lines_of(expression))
            if all(line.concept is not None or " ".join(words_of(line.said)) in known for line in lines):
                return expression
            if all(len(words_of(line.said)) <= MOST_WORDS_UNNAMED for line in lines):
                shortest = shortest or expression
        text = text.rpartition(",")[0]
    return shortest if isinstance(shortest, Operation | Over) else None


def root_of(given: Sequence[Definition], asked: str) -> Definition | None:
    """The definition of what a question asks for; None where it asks for a figure with a defined input.

    asked: the question without its definitions.
    """
    named_there = {one.concept.key for one in mentions(asked)}
    words = f" {' '.join(words_of(asked))} "
    for one in given:
        if one.key in named_there or (one.concept is None and f" {one.key} " in words):
            return one
    if named_there:
        return None
    used = {key for one in given for line in lines_of(one.expression) for key in _keys(line)}
    return next((one for one in given if one.key not in used), None)


def overrides(given: Definition, asked: str) -> bool:
    """Whether a definition is that of an input of a ratio that a question asks for, and not of the ratio itself."""
    ratios = [one.concept for one in mentions(asked) if one.concept.statement is None]
    meant = {given.key: given.expression}
    lines = [Line(one.names[0], one) for one in ratios if one.key != given.key]
    return any(with_meanings(line, meant) != line for line in lines)


def without(asked: str, given: Sequence[Definition]) -> str:
    """A question without its definitions."""
    for one in reversed(given):
        asked = f"{JOINS_DEFINITION.sub('', asked[: one.start])} . {asked[one.end :]}"
    return asked


def meanings(given: Sequence[Definition]) -> Mapping[str, Expression]:
    """Key → formula."""
    return {one.key: one.expression for one in given}


def with_meanings(expression: Expression, meant: Mapping[str, Expression]) -> Expression:
    """An expression with the formulas of a question in place of the names that it defines."""
    match expression:
        case Line() as line:
            if key := next((key for key in _keys(line) if key in meant), None):
                left = {other: formula for other, formula in meant.items() if other != key}
                inside = with_meanings(meant[key], left)
                when = When(line.year, line.part or WHOLE_YEAR) if line.year else None
                return at(inside, when) if when else inside
            if line.concept and line.concept.formula and not line.of:
                worked = parse(line.concept.formula)
                left = {key: formula for key, formula in meant.items() if key != line.concept.key}
                told = with_meanings(worked, left)
                return told if told != worked else line
            return line
        case Operation(sign, left, right):
            return Operation(sign, with_meanings(left, meant), with_meanings(right, meant))
        case Over(how, what, years):
            return Over(how, with_meanings(what, meant), years)
        case _:
            return expression


def _keys(line: Line) -> tuple[str, ...]:
    words = " ".join(words_of(line.said))
    return (line.concept.key, words) if line.concept else (words,)
