"""Evaluates expressions over the lines of statements, exactly, and keeps the number that each line was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

from tasks.rag.numbers.concepts import FREE_WORDS, NEARLY, Concept, label_of, score_label, words_of
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation, Over, parse
from tasks.rag.numbers.line_lookup import Lines, Number
from tasks.rag.numbers.periods import WHOLE_YEAR, When

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
SIGNS = {"+": "+", "-": "−", "*": "×", "/": "÷"}


class NotFound(Exception):
    """A number that a computation needs stands in no table that was read; the message names it."""

    def __init__(self, name: str, when: When) -> None:
        super().__init__(f"{name} {when.label}")
        self.when = when


class NoYear(Exception):
    """A line of an expression has no period, and neither has the computation."""


class NoGrowthRate(Exception):
    """A compound growth rate is asked for of one year, or of values that are not above zero; the message names them."""

    def __init__(self, values: str, *, of_one_year: bool) -> None:
        super().__init__(values)
        self.of_one_year = of_one_year


class UnitsDiffer(Exception):
    """Amounts of two units are added, or an amount and a ratio."""


RATIO = "ratio"
"""Unit of an amount divided by an amount of the same unit."""
Numbers = Callable[[], Sequence[Number]]
"""A function that returns all numbers of the documents."""


Describe = Callable[[str, When], tuple[Number, float] | None]
"""A function from words and a period to the cell that they mean and the certainty; None where that is too low."""


def find_no_cell(_name: str, _when: When) -> None:
    """Find no cell by words alone: a Describe for computations over statements only."""


Place = tuple[str, int, int, int]
"""Document, table, row and column."""


def place_of(number: Number) -> Place:
    """Return document, table, row and column of a number."""
    return number.document, number.table, number.row, number.col


class Value(NamedTuple):
    """A number that an expression gave, with its unit and the text of its working."""

    value: Decimal
    unit: str
    """`USD`, `shares`, `%`, RATIO; empty for a plain number, or where a table names no unit."""
    text: str
    """The working, with the marks of the inputs: `16,830 [1] ÷ 2,721 [2]`."""
    precedence: int = 3
    """Precedence of the outermost operation in `text`: 1 of a sum, 2 of a product, 3 of anything else."""
    when: When | None = None
    """The period of the highest or lowest of several values."""
    rate: Decimal | None = None
    """The rate of growth, where the value is a change."""


class Evaluator:
    """Evaluates the expressions of one question, and numbers the cells that it uses in the order of their use."""

    def __init__(self, lines: Lines, statements: Lines | None, numbers: Numbers, describe: Describe) -> None:
        """Make an evaluator. statements: the lines of the primary statements alone; numbers: all of them."""
        self._describe = describe
        self.by_words: dict[Place, float] = {}
        """Numbers that were found by words alone → the certainty that they are meant, 0 to 1."""
        self._lines = lines
        self._statements = statements
        self.numbers = numbers
        self.scale_words: Mapping[Decimal, str] = {}
        """Scale → word that follows an input of that scale in the working; empty where all have one scale."""
        self.used: dict[Place, tuple[int, Number]] = {}
        self.lines: dict[int, tuple[Line, When]] = {}
        """Mark of a number → the line and the period that it was found for."""
        self._open: set[str] = set()  # concepts whose formulas are being worked out: none may need itself

    def evaluate(self, expression: Expression, when: When | None) -> Value:
        """Return the value of an expression; when: the period of the lines that name none.

        Raises NotFound, NoYear, NoGrowthRate, UnitsDiffer, ZeroDivisionError.
        """
        match expression:
            case Constant(value, text):
                return Value(value, "", text)
            case Line(year=year, part=part):
                own = part or (when.part if when else WHOLE_YEAR)
                return self._evaluate_line(expression, When(year, own) if year is not None else when)
            case Operation(sign, left, right):
                return _combine(sign, self.evaluate(left, when), self.evaluate(right, when))
            case Over(aggregate, operand, years):
                if years:
                    whens = (
                        year if isinstance(year, When) else When(year, when.part if when else WHOLE_YEAR)
                        for year in years
                    )
                    return self._evaluate_over(aggregate, operand, tuple(whens))
                if when is None:
                    self.evaluate(operand, None)  # raises NoYear with the line that names none
                    raise NoYear(aggregate)
                return self._evaluate_over(aggregate, operand, (when.before(), when))  # opening and closing

    def _evaluate_over(self, aggregate: str, expression: Expression, whens: Sequence[When]) -> Value:
        """Return an aggregate over periods, which all need a value (`previous`: the first). Raises NoGrowthRate."""
        if aggregate == "previous":
            return self.evaluate(expression, whens[0])
        # all must be there: a year that is missing could be the highest
        values = [self.evaluate(expression, when) for when in whens]
        if aggregate in ("highest", "lowest"):
            choose, name = (max, "max") if aggregate == "highest" else (min, "min")
            best = choose(range(len(whens)), key=lambda at: values[at].value)
            text = f"{name}({', '.join(value.text for value in values)})"
            return Value(values[best].value, values[best].unit, text, when=whens[best])
        unit = values[0].unit
        total = sum((value.value for value in values), Decimal(0))
        texts = ", ".join(value.text for value in values)
        if aggregate == "sum":
            return Value(total, unit, " + ".join(_bracket(value, 1) for value in values), 1)
        if aggregate == "average":
            return Value(total / len(values), unit, f"average({texts})")
        first, last = values[0], values[-1]
        if aggregate == "change":
            rate = last.value / first.value - 1 if first.value > 0 else None  # a loss has no rate of growth
            return _combine("-", last, first)._replace(precedence=0, rate=rate)  # in brackets even within a sum
        span = whens[-1].year - whens[0].year
        if first.value <= 0 or last.value <= 0 or not span:
            values = " → ".join(dict.fromkeys((first.text, last.text)))
            raise NoGrowthRate(values, of_one_year=not span)
        rate = (last.value / first.value) ** (Decimal(1) / span) - 1
        return Value(rate, "", f"({_bracket(last, 2)} ÷ {_bracket(first, 3)})^(1/{span}) − 1", 1)

    def _evaluate_line(self, line: Line, when: When | None) -> Value:
        """Return the value of a line's cell, which is cited, else of its formula. Raises NoYear, NotFound."""
        if when is None:
            raise NoYear(line.name)
        concept = line.concept
        ratio = concept is not None and concept.statement is None
        cell: Number | None = None
        if concept and not ratio and (line.of or line.preferred):
            cell = self._find_part(line, when)
        # a line of a part of the company is never taken from the whole
        if not (cell or ratio or (concept and line.of)):
            cell = self._find_cell(line, when)
        if cell and concept and concept.formula and not line.of and self._statements:
            with suppress(NotFound):
                # a cell that stands in no primary statement may be of another company
                if self._statements.find(line, when.year, when.part) != cell:
                    return self._evaluate_formula(line, concept, when)
        if cell:
            n, number = self.used.setdefault(place_of(cell), (len(self.used) + 1, cell))
            self.lines.setdefault(n, (line, when))
            outflow = concept is not None and concept.outflow
            digits = number.shown.strip("()-− $€£¥₩") if outflow else number.shown.lstrip("$€£¥₩ ")
            scale = self.scale_words.get(number.scale, "")
            return Value(abs(number.value) if outflow else number.value, number.unit, f"{digits}{scale} [{n}]")
        if concept and concept.formula:
            return self._evaluate_formula(line, concept, when)
        raise NotFound(line.name, when)

    def _evaluate_formula(self, line: Line, concept: Concept, when: When) -> Value:
        """Work out a ratio, or a line that no row shows, by its concept's formula, and note its inputs in `used`.

        Raises NotFound where an input is missing, `used` being as before then, or where the formula needs itself.
        """
        if concept.key in self._open:
            raise NotFound(line.name, when)
        used = dict(self.used)
        self._open.add(concept.key)
        try:
            return self.evaluate(_restrict_to_part(parse(concept.formula), line.of), when)
        except NotFound:
            self.used = used  # inputs that were found are not cited for a formula that lacks another
            if concept.statement:
                raise NotFound(line.name, when) from None
            raise
        finally:
            self._open.discard(concept.key)

    def _find_cell(self, line: Line, when: When) -> Number | None:
        """Return a line's cell: of the statement if its label names the line, else of a table or by words; or None."""
        cell = self._statements.find(line, when.year, when.part) if self._statements else None
        if cell:
            label = label_of(cell.row_path)
            if line.concept:
                is_named = score_label(line.concept, label) >= NEARLY
            else:
                is_named = set(words_of(label)) - FREE_WORDS == set(words_of(line.name)) - FREE_WORDS
            if is_named:
                return cell
        cell = self._lines.find(line, when.year, when.part)
        # the label of the row itself must have a word of the line, and not only its headings
        shares_words = cell and not set(words_of(line.name)).isdisjoint(words_of(" ".join(cell.row_path[-1:])))
        if line.concept or shares_words:
            return cell
        by_words = self._describe(line.name, when)
        if by_words is None:
            return None
        number, certainty = by_words
        self.by_words[place_of(number)] = certainty
        return number

    def _find_part(self, line: Line, when: When) -> Number | None:
        """Return the cell of a part of the company, with its preferred words too, else with those it needs; or None."""
        qualifiers = f"{line.of} {line.preferred}".strip()
        for qualifier in dict.fromkeys((qualifiers, line.of)):
            for book in (self._statements, self._lines) if qualifier else ():
                if book and (number := book.find(line._replace(of=qualifier), when.year, when.part)):
                    return number
        return None


def _restrict_to_part(expression: Expression, of: str) -> Expression:
    """Return a formula with its lines restricted to a part of the company; unchanged where `of` is empty."""
    match expression:
        case Line() if of:
            return expression._replace(of=of, name=f"{of} {expression.name}")
        case Operation(sign, left, right):
            return Operation(sign, _restrict_to_part(left, of), _restrict_to_part(right, of))
        case Over(aggregate, operand, years):
            return Over(aggregate, _restrict_to_part(operand, of), years)
        case _:
            return expression


def _combine(sign: str, left: Value, right: Value) -> Value:
    """Return `left sign right` with its unit and text. Raises UnitsDiffer, ZeroDivisionError with the text."""
    level = PRECEDENCE[sign]
    text = f"{_bracket(left, level)} {SIGNS[sign]} {_bracket(right, level + (sign in '-/'))}"
    units = {left.unit, right.unit} - {""}
    if sign in "+-" and len(units) > 1:
        raise UnitsDiffer(text)
    unit = next(iter(units - {RATIO}), RATIO if units else "")  # a share of dollars is in dollars
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


def _bracket(value: Value, least: int) -> str:
    """Return the working of an operand, in brackets where its precedence is below `least`."""
    return value.text if value.precedence >= least else f"({value.text})"
