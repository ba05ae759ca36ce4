"""Definitions that a question gives beside each other: "CCC = DIO + DSO − DPO, where DIO = 365 × inventory / COGS …".

The figure that is asked for is worked out with all of them; a definition of one of its inputs beats ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tasks.rag.numbers.computations import at
from tasks.rag.numbers.concepts import Concept, mentions, words_of
from tasks.rag.numbers.expressions import (
    Expression,
    Line,
    NoExpression,
    Operation,
    Over,
    lines_of,
    named,
    parse,
)
from tasks.rag.numbers.question_shape import WORDS
from tasks.rag.numbers.year_parts import When

ASSIGNS, BEFORE_NAME, AFTER_FORMULA, SENTENCE_END = (
    re.compile(WORDS[name], re.IGNORECASE) for name in ("assigns", "before_name", "after_formula", "sentence_end")
)
JOINS_DEFINITION = re.compile(r"[\s,;]*\b(?:where|and|with|given|if|using|use|take|taking)\s*$", re.IGNORECASE)
MOST_NAME_WORDS = 6
MOST_FREE_WORDS = 4
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
        expression = _formula(asked[body:end], known)
        if expression and 0 < len(words_of(name)) <= MOST_NAME_WORDS:
            found.append(Definition(name, named(name), expression, start, end))
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
        end = min((one.start() for one in SENTENCE_END.finditer(asked, sign.end(), last)), default=last)
        yield asked[starts[at_sign] : sign.start()].strip(" \"“”'(),:"), starts[at_sign], sign.end(), end


def _formula(body: str, known: set[str]) -> Expression | None:
    """The longest beginning of a text that is a formula: "inventory / COGS, all with year-end balances"."""
    text = body
    shortest: Expression | None = None
    while text.strip():
        text = AFTER_FORMULA.sub("", text).strip(" ,;:.")
        expression = _parsed(text)
        if expression and all(_is_known(line, known) for line in lines_of(expression)):
            return expression
        if expression and all(len(words_of(line.said)) <= MOST_FREE_WORDS for line in lines_of(expression)):
            shortest = shortest or expression
        text = text.rpartition(",")[0]
    return shortest if isinstance(shortest, Operation | Over) else None


def _parsed(text: str) -> Expression | None:
    try:
        return parse(text)
    except NoExpression:
        return None


def _is_known(line: Line, known: set[str]) -> bool:
    return line.concept is not None or " ".join(words_of(line.said)) in known


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
        case Line():
            return _meaning(expression, meant)
        case Operation(sign, left, right):
            return Operation(sign, with_meanings(left, meant), with_meanings(right, meant))
        case Over(how, what, years):
            return Over(how, with_meanings(what, meant), years)
        case _:
            return expression


def _meaning(line: Line, meant: Mapping[str, Expression]) -> Expression:
    key = next((key for key in _keys(line) if key in meant), None)
    if key:
        left = {other: formula for other, formula in meant.items() if other != key}
        inside = with_meanings(meant[key], left)
        return at(inside, When(line.year, line.part) if line.part else When(line.year)) if line.year else inside
    if line.concept and line.concept.formula and not line.of:
        worked = parse(line.concept.formula)
        told = with_meanings(worked, {key: formula for key, formula in meant.items() if key != line.concept.key})
        return told if told != worked else line
    return line


def _keys(line: Line) -> tuple[str, ...]:
    words = " ".join(words_of(line.said))
    return (line.concept.key, words) if line.concept else (words,)
