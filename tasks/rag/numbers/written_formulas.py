"""Reads the formulas that a question writes: "inventory turnover, defined as COGS / average inventory"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

from tasks.rag.numbers.computations import (
    UNITS,
    Combined,
    DisplayUnit,
    Latest,
    Task,
    find_named_periods,
    operation,
    set_period,
    spread_over_periods,
)
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
from tasks.rag.numbers.question_shape import WORDS, any_of

DEFINED = tuple(re.compile(pattern, re.IGNORECASE) for pattern in WORDS["defined"])
"""Words between the name of a ratio and its formula; group `body` is the formula."""
SHARE, PERCENT, SUBTRACTION, FORMULA_END, SOURCE = map(
    any_of, ("share", "percent", "subtraction", "formula_end", "source")
)
SENTENCE_END = re.compile(r"(?<=[^\s.][.?!。])\s+(?=[A-Z가-힣\"“(])|[?!]")
HUNDRED = Decimal(100)
MOST_LINE_WORDS = 9
GENERIC = frozenset(("value", "amount", "number", "year", "period", "figure", "price", "cost"))
"""Words of formulas in the abstract: "ending value / beginning value"."""
MOST_FREE_WORDS = 3
"""Most words of a line in a formula of which no line is known."""


def read_written_formula(question: str, latest: Latest = lambda: None) -> Task | None:
    """Read the value whose formula a question writes; None where it writes none, or only those of inputs."""
    question = SOURCE.sub(" ", question)
    inputs = definitions(question)
    if len(inputs) > 1:
        rest = remove_definitions(question, inputs)
        root = find_root(inputs, rest)
        if root is None:
            return None
        whole_formula = substitute_meanings(
            root.expression, {key: formula for key, formula in formulas_by_key(inputs).items() if key != root.key}
        )
        return _make_task(whole_formula, question[: root.start] or question[: root.end], rest, "", latest)
    if inputs and defines_input(inputs[0], remove_definitions(question, inputs)):
        return None
    for match in (match for pattern in DEFINED for match in pattern.finditer(question)):
        # up to the end of its sentence, or what the pattern holds of it
        if "whole" in match.groupdict():
            start, end = match.span("whole")
        else:
            start = match.start("body")
            ends = (
                sentence_end.start()
                for sign in (SENTENCE_END, FORMULA_END)
                for sentence_end in sign.finditer(question, start)
            )
            end = min(ends, default=len(question))
        body = question[start:end].rstrip(" .?!:;")
        try:
            expression = _parse_words(body)
        except NoExpression:
            continue
        if not isinstance(expression, Operation | Over) or _is_no_formula(expression):
            continue
        rest = f"{question[: match.start()]} . {question[end:]}"
        return _make_task(expression, question[: match.start()], rest, body, latest)
    return None


def _make_task(expression: Expression, before: str, rest: str, body: str, latest: Latest) -> Task:
    """Return the task of a formula that a question writes, for the last period that the question names.

    before: the question up to the formula. rest: the question without it. body: the formula itself; periods are taken
    from the first of these that names any, else from `latest`. The title is the line named last before the formula.
    """
    whens = find_named_periods(before) or find_named_periods(rest) or find_named_periods(body)
    when = whens[-1] if whens else None if any(line.year for line in lines_of(expression)) else latest()
    # the last ratio or line that is named before its definition
    mentioned = mentions(before)
    name = mentioned[-1] if mentioned else None
    percent = (name and name.concept.unit) or ("%" if PERCENT.search(rest) else "")
    title = before[name.start : name.end] if name else ""
    match expression:  # what is multiplied by 100 is to be shown in percent
        case Operation("*", inner, Constant(value)) | Operation("*", Constant(value), inner) if value == HUNDRED:
            expression, percent = inner, "%"
        case _:
            pass
    operation_name, asked_periods = operation(rest), find_named_periods(rest)
    if operation_name and len(asked_periods) > 1 and not any(line.year for line in lines_of(expression)):
        (only,) = spread_over_periods(
            Combined(title, expression, display_unit_of(percent)), operation_name, asked_periods
        )
        return only
    if when is None:
        return Task(title, expression, None, "", display_unit_of(percent))
    return Task(title, expression, when.year, when.label, display_unit_of(percent), when.part)


def _parse_words(body: str) -> Expression:
    """Parse "A divided by B", "the ratio of A to B", "A as a percentage of B" or signs. Raises NoExpression."""
    if match := SHARE.search(body):
        parts = {name: part for name, part in match.groupdict().items() if part}
        part = next(value for name, value in parts.items() if name.startswith("part"))
        whole = next(value for name, value in parts.items() if name.startswith("whole"))
        return Operation("/", parse(part), parse(whole))
    if match := SUBTRACTION.search(body):
        return Operation("-", parse(match["more"]), parse(match["less"]))
    # "a minus b, divided by c" divides the difference: the comma outweighs the precedence of the signs
    before, comma, after = body.rpartition(", divided by ")
    return Operation("/", parse(before), parse(after)) if comma else parse(body)


def _is_no_formula(expression: Expression) -> bool:
    """Return whether a text was no formula: one of its lines is a sentence, or none is known."""
    lines = list(lines_of(expression))
    if any(line.concept for line in lines):
        return any(len(words_of(line.name)) > MOST_LINE_WORDS for line in lines)
    words = [words_of(line.name) for line in lines]
    return not all(
        0 < len(line_words) <= MOST_FREE_WORDS and not GENERIC.intersection(line_words) for line_words in words
    )


def display_unit_of(unit: str) -> DisplayUnit:
    """Return how a concept's unit is displayed; empty for a plain number."""
    return UNITS.get(unit, "")


ASSIGNS, BEFORE_NAME, AFTER_FORMULA, DEFINITION_END = map(
    any_of, ("assigns", "before_name", "after_formula", "sentence_end")
)
JOINS_DEFINITION = re.compile(r"[\s,;]*\b(?:where|and|with|given|if|using|use|take|taking)\s*$", re.IGNORECASE)
MOST_NAME_WORDS = 6
MOST_WORDS_UNNAMED = 4
"""Most words of a line in a formula that no concept names."""


class Definition(NamedTuple):
    """A name that a question defines, with its formula."""

    name: str
    concept: Concept | None
    expression: Expression
    start: int
    """Offset of its first character in the question."""
    end: int

    @property
    def key(self) -> str:
        """The key of its concept, or its words: lines of other formulas are compared with it."""
        return self.concept.key if self.concept else " ".join(words_of(self.name))


def definitions(question: str) -> tuple[Definition, ...]:
    """Read the definitions that a question writes, in its order; a name of over six words defines nothing."""
    raw = list(_locate_definitions(question))
    names = {" ".join(words_of(name)) for name, *_ in raw}
    read: list[Definition] = []
    for name, start, body, end in raw:
        expression = _longest_formula(question[body:end], names)
        if expression and 0 < len(words_of(name)) <= MOST_NAME_WORDS:
            read.append(Definition(name, find_concept(name), expression, start, end))
    return tuple(read)


def _locate_definitions(question: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield each name that a question defines, its offset, and where its formula begins and ends."""
    signs = list(ASSIGNS.finditer(question))
    starts: list[int] = []
    for at_sign, sign in enumerate(signs):
        previous_end = signs[at_sign - 1].end() if at_sign else 0
        before = list(BEFORE_NAME.finditer(question, previous_end, sign.start()))
        starts.append(before[-1].end() if before else previous_end)
    for at_sign, sign in enumerate(signs):
        last = starts[at_sign + 1] if at_sign + 1 < len(signs) else len(question)
        end = min((match.start() for match in DEFINITION_END.finditer(question, sign.end(), last)), default=last)
        yield question[starts[at_sign] : sign.start()].strip(" \"“”'(),:"), starts[at_sign], sign.end(), end


def _longest_formula(body: str, names: set[str]) -> Expression | None:
    """Parse the longest beginning that is a formula, None without one: "inventory / COGS, all at the year-end"."""
    text = body
    shortest: Expression | None = None
    while text.strip():
        text = AFTER_FORMULA.sub("", text).strip(" ,;:.")
        with suppress(NoExpression):
            expression = parse(text)
            lines = list(lines_of(expression))
            if all(line.concept is not None or " ".join(words_of(line.name)) in names for line in lines):
                return expression
            if all(len(words_of(line.name)) <= MOST_WORDS_UNNAMED for line in lines):
                shortest = shortest or expression
        text = text.rpartition(",")[0]
    return shortest if isinstance(shortest, Operation | Over) else None


def find_root(definitions: Sequence[Definition], question: str) -> Definition | None:
    """Return the definition of what `question`, without definitions, asks for; None if only an input is defined."""
    named_there = {definition.concept.key for definition in mentions(question)}
    words = f" {' '.join(words_of(question))} "
    for definition in definitions:
        if definition.key in named_there or (definition.concept is None and f" {definition.key} " in words):
            return definition
    if named_there:
        return None
    used = {key for definition in definitions for line in lines_of(definition.expression) for key in _keys(line)}
    return next((definition for definition in definitions if definition.key not in used), None)


def defines_input(definition: Definition, question: str) -> bool:
    """Return whether a definition is that of an input of a ratio that a question asks for, not of the ratio itself."""
    ratios = [mention.concept for mention in mentions(question) if mention.concept.statement is None]
    formulas = {definition.key: definition.expression}
    lines = [Line(ratio.names[0], ratio) for ratio in ratios if ratio.key != definition.key]
    return any(substitute_meanings(line, formulas) != line for line in lines)


def remove_definitions(question: str, definitions: Sequence[Definition]) -> str:
    """Return a question without its definitions."""
    for definition in reversed(definitions):
        question = f"{JOINS_DEFINITION.sub('', question[: definition.start])} . {question[definition.end :]}"
    return question


def formulas_by_key(definitions: Sequence[Definition]) -> Mapping[str, Expression]:
    """Return the formula of each definition by its key."""
    return {definition.key: definition.expression for definition in definitions}


def substitute_meanings(expression: Expression, formulas: Mapping[str, Expression]) -> Expression:
    """Replace the names that a question defines, in an expression and its ratios, by their formulas."""
    match expression:
        case Line() as line:
            if key := next((key for key in _keys(line) if key in formulas), None):
                remaining = {name: formula for name, formula in formulas.items() if name != key}
                inside = substitute_meanings(formulas[key], remaining)
                when = When(line.year, line.part or WHOLE_YEAR) if line.year else None
                return set_period(inside, when) if when else inside
            if line.concept and line.concept.formula and not line.of:
                own_formula = parse(line.concept.formula)
                remaining = {key: formula for key, formula in formulas.items() if key != line.concept.key}
                with_inputs = substitute_meanings(own_formula, remaining)
                return with_inputs if with_inputs != own_formula else line
            return line
        case Operation(sign, left, right):
            return Operation(sign, substitute_meanings(left, formulas), substitute_meanings(right, formulas))
        case Over(aggregate, operand, years):
            return Over(aggregate, substitute_meanings(operand, formulas), years)
        case _:
            return expression


def _keys(line: Line) -> tuple[str, ...]:
    words = " ".join(words_of(line.name))
    return (line.concept.key, words) if line.concept else (words,)
