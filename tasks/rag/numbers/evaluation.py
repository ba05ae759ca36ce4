"""Evaluates expressions over the lines of statements, exactly, and keeps the number that each line was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from tasks.rag.numbers.concepts import FREE_WORDS, NEARLY, Concept, label_of, score_label, words_of
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation, Over, parse
from tasks.rag.numbers.line_lookup import Lines, Number
from tasks.rag.numbers.periods import WHOLE_YEAR, When

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
SIGNS = {"+": "+", "-": "−", "*": "×", "/": "÷"}


class NotFound(Exception):
    """A number that a computation needs stands in no table that was read; the message names it."""

    def __init__(self, said: str, when: When) -> None:
        super().__init__(f"{said} {when.label}")
        self.when = when


class NoYear(Exception):
    """A line has no year."""


class UnitsDiffer(Exception):
    """Amounts of two units are added, or an amount and a ratio."""


RATIO = "ratio"
"""Unit of an amount divided by an amount."""
Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""The numbers of the documents, as rows of storage.numbers."""


Describe = Callable[[str, When], tuple[Number, float] | None]
"""Words and a period → the cell that they mean and how surely; None where none is sure enough."""


def never(_said: str, _when: When) -> None:
    """No cell is found by words alone."""


Place = tuple[str, int, int, int]
"""Document, table, row and column."""


def place_of(number: Number) -> Place:
    """Where a number stands."""
    return number.document, number.table, number.row, number.col


class Value(NamedTuple):
    value: Decimal
    unit: str
    """`USD`, `shares`, `%`, RATIO; empty for a plain number, or where a table names no unit."""
    text: str
    """How it came about, with the marks of its inputs."""
    precedence: int = 3
    when: When | None = None
    """Of several periods the one that the value is of."""
    rate: Decimal | None = None
    """Of a change: the rate of growth."""


class Evaluator:
    """Evaluates one question's expressions; counts the numbers that it uses."""

    def __init__(self, lines: Lines, statements: Lines | None, rows: Rows, describe: Describe) -> None:
        """statements: the lines of the primary statements alone. rows: all numbers."""
        self._describe = describe
        self.by_words: dict[Place, float] = {}
        """Numbers that words alone found → how surely they are meant."""
        self._lines = lines
        self._statements = statements
        self.rows = rows
        self.scale_words: Mapping[Decimal, str] = {}
        """Of the inputs; empty where all have one scale."""
        self.used: dict[Place, tuple[int, Number]] = {}
        self.lines: dict[int, tuple[Line, When]] = {}
        """What each number was looked for as."""
        self._open: set[str] = set()

    def evaluate(self, expression: Expression, when: When | None) -> Value:
        """Raises NotFound, NoYear, ZeroDivisionError."""
        match expression:
            case Constant(value, shown):
                return Value(value, "", shown)
            case Line(year=year, part=part):
                own = part or (when.part if when else WHOLE_YEAR)
                return self._line(expression, When(year, own) if year is not None else when)
            case Operation(sign, left, right):
                return _combined(sign, self.evaluate(left, when), self.evaluate(right, when))
            case Over(how, what, years):
                if years:
                    given = (
                        one if isinstance(one, When) else When(one, when.part if when else WHOLE_YEAR) for one in years
                    )
                    return self._over(how, what, tuple(given))
                if when is None:
                    raise NoYear("average")
                return self._over(how, what, (when.before(), when))

    def _over(self, how: str, what: Expression, whens: Sequence[When]) -> Value:
        if how == "previous":
            return self.evaluate(what, whens[0])
        values = [self.evaluate(what, one) for one in whens]  # all must be there, or another could be the highest
        if how in ("highest", "lowest"):
            best = (max if how == "highest" else min)(range(len(whens)), key=lambda at: values[at].value)
            text = f"{'max' if how == 'highest' else 'min'}({', '.join(one.text for one in values)})"
            return Value(values[best].value, values[best].unit, text, when=whens[best])
        unit = values[0].unit
        total = sum((one.value for one in values), Decimal(0))
        texts = ", ".join(one.text for one in values)
        if how == "sum":
            return Value(total, unit, " + ".join(_inside(one, 1) for one in values), 1)
        if how == "average":
            return Value(total / len(values), unit, f"average({texts})")
        first, last = values[0], values[-1]
        if how == "change":
            rate = last.value / first.value - 1 if first.value > 0 else None
            return _combined("-", last, first)._replace(precedence=0, rate=rate)
        span = whens[-1].year - whens[0].year
        if first.value <= 0 or last.value <= 0 or not span:
            raise ZeroDivisionError(f"{first.text} → {last.text}")
        rate = (last.value / first.value) ** (Decimal(1) / span) - 1
        return Value(rate, "", f"({_inside(last, 2)} ÷ {_inside(first, 3)})^(1/{span}) − 1", 1)

    def _line(self, line: Line, when: When | None) -> Value:
        if when is None:
            raise NoYear(line.said)
        concept = line.concept
        ratio = concept is not None and concept.statement is None
        found = None if ratio else self._of_part(line, when) if concept and (line.of or line.beside) else None
        if not (found or ratio or (concept and line.of)):
            found = self._find(line, when)
        if found and concept and concept.formula and not line.of and self._statements:
            with suppress(NotFound):
                # a cell that stands in no primary statement may be of another company
                if self._statements.find(line, when.year, when.part) != found:
                    return self._by_formula(line, concept, when)
        if found:
            n, number = self.used.setdefault(place_of(found), (len(self.used) + 1, found))
            self.lines.setdefault(n, (line, when))
            outflow = concept is not None and concept.outflow
            shown = number.shown.strip("()-− $€£¥₩") if outflow else number.shown.lstrip("$€£¥₩ ")
            scale = self.scale_words.get(number.scale, "")
            return Value(abs(number.value) if outflow else number.value, number.unit, f"{shown}{scale} [{n}]")
        if concept and concept.formula:
            return self._by_formula(line, concept, when)
        raise NotFound(line.said, when)

    def _by_formula(self, line: Line, concept: Concept, when: When) -> Value:
        """A ratio, or a line that no row shows, worked out. Raises NotFound."""
        if concept.key in self._open:
            raise NotFound(line.said, when)
        used = dict(self.used)
        self._open.add(concept.key)
        try:
            return self.evaluate(_with_qualifier(parse(concept.formula), line.of), when)
        except NotFound:
            self.used = used
            if concept.statement:
                raise NotFound(line.said, when) from None
            raise
        finally:
            self._open.discard(concept.key)

    def _find(self, line: Line, when: When) -> Number | None:
        """The cell of a line: in the statement itself, where it is surely there, before any other table."""
        found = self._statements.find(line, when.year, when.part) if self._statements else None
        if found:
            label = label_of(found.row_path)
            if line.concept:
                surely = score_label(line.concept, label) >= NEARLY
            else:
                surely = set(words_of(label)) - FREE_WORDS == set(words_of(line.said)) - FREE_WORDS
            if surely:
                return found
        found = self._lines.find(line, when.year, when.part)
        # the label of the row itself must have a word of the line, and not only its headings
        named = found and not set(words_of(line.said)).isdisjoint(words_of(" ".join(found.row_path[-1:])))
        if line.concept or named:
            return found
        by_words = self._describe(line.said, when)
        if by_words is None:
            return None
        number, sure = by_words
        self.by_words[place_of(number)] = sure
        return number

    def _of_part(self, line: Line, when: When) -> Number | None:
        """The line of a part of the company: with all words that are said of it, or with those that must be."""
        told = f"{line.of} {line.beside}".strip()
        for of in dict.fromkeys((told, line.of)):
            for book in (self._statements, self._lines) if of else ():
                if book and (found := book.find(line._replace(of=of), when.year, when.part)):
                    return found
        return None


def _with_qualifier(expression: Expression, of: str) -> Expression:
    """A formula of the lines of a part of the company."""
    match expression:
        case Line() if of:
            return expression._replace(of=of, said=f"{of} {expression.said}")
        case Operation(sign, left, right):
            return Operation(sign, _with_qualifier(left, of), _with_qualifier(right, of))
        case Over(how, what, years):
            return Over(how, _with_qualifier(what, of), years)
        case _:
            return expression


def _combined(sign: str, left: Value, right: Value) -> Value:
    level = PRECEDENCE[sign]
    text = f"{_inside(left, level)} {SIGNS[sign]} {_inside(right, level + (sign in '-/'))}"
    units = {left.unit, right.unit} - {""}
    if sign in "+-" and len(units) > 1:
        raise UnitsDiffer(text)
    unit = next(iter(units - {RATIO}), RATIO if units else "")
    match sign:
        case "+":
            return Value(left.value + right.value, unit, text, level)
        case "-":
            return Value(left.value - right.value, unit, text, level)
        case "*":
            return Value(left.value * right.value, unit, text, level)
        case _:
            if not right.value:
                raise ZeroDivisionError(text)
            if left.unit == right.unit:
                unit = RATIO if left.unit else ""
            elif right.unit != RATIO:
                unit = left.unit
            return Value(left.value / right.value, unit, text, level)


def _inside(value: Value, least: int) -> str:
    return value.text if value.precedence >= least else f"({value.text})"
