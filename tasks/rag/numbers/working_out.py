"""Works a computation out from the lines of statements, exactly, with a citation for each number that goes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, DecimalException, localcontext
from typing import NamedTuple

from tasks.language.sentences import Language
from tasks.rag.answers import Citation, Draft
from tasks.rag.numbers.computations import Computation, Shown, Task
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation, Over, parse
from tasks.rag.numbers.line_lookup import AMOUNTS, Lines, Number
from tasks.rag.numbers.year_parts import WHOLE_YEAR

DIGITS = 28
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
SIGNS = {"+": "+", "-": "−", "*": "×", "/": "÷"}
SCALES = {"thousands": Decimal(1_000), "millions": Decimal(1_000_000), "billions": Decimal(1_000_000_000)}
KOREAN_SCALES = {"thousands": "천", "millions": "백만", "billions": "십억"}
MYRIADS = {Decimal(10) ** 12: "조", Decimal(10) ** 8: "억", Decimal(10) ** 4: "만"}
KOREAN_UNITS = {"USD": "달러", "KRW": "원", "EUR": "유로", "JPY": "엔", "GBP": "파운드", "CNY": "위안", "shares": "주"}
INPUT_SCALES: Mapping[Language, Mapping[Decimal, str]] = {
    "en": {Decimal(10) ** 3: " thousand", Decimal(10) ** 6: " million", Decimal(10) ** 9: " billion"},
    "ko": {Decimal(10) ** 3: "천", Decimal(10) ** 6: "백만", Decimal(10) ** 8: "억", Decimal(10) ** 9: "십억"},
}
ENGLISH_SCALES = {Decimal(10) ** 9: "billion", Decimal(10) ** 6: "million"}


class NotFound(Exception):
    """A number that a computation needs stands in no table that was read; the message names it."""

    def __init__(self, said: str, year: int) -> None:
        super().__init__(f"{said} FY{year}")


class NoYear(Exception):
    """A line has no year."""


class UnitsDiffer(Exception):
    """Amounts of two units are added, or an amount and a ratio."""


RATIO = "ratio"
"""Unit of an amount divided by an amount."""


class _Value(NamedTuple):
    value: Decimal
    unit: str
    """`USD`, `shares`, `%`, RATIO; empty for a plain number, or where a table names no unit."""
    text: str
    """How it came about, with the marks of its inputs."""
    precedence: int = 3


class _Worker:
    """Evaluates one question's expressions; counts the numbers that it uses."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.part = WHOLE_YEAR
        self.scale_words: Mapping[Decimal, str] = {}
        """Of the inputs; empty where all have one scale."""
        self.used: dict[tuple[str, int, int, int], tuple[int, Number]] = {}
        self._open: set[str] = set()

    def evaluate(self, expression: Expression, year: int | None) -> _Value:
        """Raises NotFound, NoYear, ZeroDivisionError."""
        match expression:
            case Constant(value, shown):
                return _Value(value, "", shown)
            case Line():
                return self._line(expression, expression.year or year)
            case Operation(sign, left, right):
                return _combined(sign, self.evaluate(left, year), self.evaluate(right, year))
            case Over(how, what, years):
                return self._over(how, what, years or _both_ends(year))

    def _over(self, how: str, what: Expression, years: Sequence[int]) -> _Value:
        if how == "previous":
            return self.evaluate(what, years[0])
        values = [self.evaluate(what, year) for year in years]
        unit = values[0].unit
        if how == "average":
            return _Value(
                sum((one.value for one in values), Decimal(0)) / len(values),
                unit,
                f"average({', '.join(v.text for v in values)})",
            )
        first, last = values[0], values[-1]
        if how == "change":
            return _combined("-", last, first)._replace(precedence=0)
        span = years[-1] - years[0]
        if first.value <= 0 or last.value <= 0:
            raise ZeroDivisionError(f"{first.text} → {last.text}")
        rate = (last.value / first.value) ** (Decimal(1) / span) - 1
        return _Value(rate, "", f"({_inside(last, 2)} ÷ {_inside(first, 3)})^(1/{span}) − 1", 1)

    def _line(self, line: Line, year: int | None) -> _Value:
        if year is None:
            raise NoYear(line.said)
        concept = line.concept
        found = None if concept and concept.statement is None else self._lines.find(line, year, self.part)
        if found:
            n, number = self._cited(found)
            outflow = concept is not None and concept.outflow
            shown = number.shown.strip("()-− $€£¥₩") if outflow else number.shown.lstrip("$€£¥₩ ")
            scale = self.scale_words.get(number.scale, "")
            return _Value(abs(number.value) if outflow else number.value, number.unit, f"{shown}{scale} [{n}]")
        if concept and concept.formula and concept.key not in self._open:
            self._open.add(concept.key)
            try:
                return self.evaluate(parse(concept.formula), year)
            except NotFound:
                if concept.statement is None:
                    raise
            finally:
                self._open.discard(concept.key)
        raise NotFound(line.said, year)

    def _cited(self, number: Number) -> tuple[int, Number]:
        key = (number.document, number.table, number.row, number.col)
        return self.used.setdefault(key, (len(self.used) + 1, number))


def work_out(computation: Computation, lines: Lines, *, documents: Sequence[str]) -> Draft:
    """The answer: each figure with its formula and a citation for each input; it abstains where one is missing.

    documents: names of those that were looked in.
    """
    worker = _Worker(lines)
    told: list[str] = []
    missing: list[str] = []
    for task in computation.tasks:
        worker.part = task.part
        try:
            with localcontext(prec=DIGITS):
                worker.scale_words = {}
                found = worker.evaluate(task.expression, task.year)
                if len({number.scale for _, number in worker.used.values()}) > 1:
                    worker.scale_words = INPUT_SCALES[computation.language]
                    found = worker.evaluate(task.expression, task.year)
                told.append(_sentence(task, found, computation))
        except NotFound as error:
            missing.append(_missing(str(error), documents, computation.language))
        except NoYear as error:
            missing.append(NO_YEAR[computation.language].format(said=error))
        except UnitsDiffer:
            missing.append(UNITS[computation.language].format(title=task.title, label=task.label).strip())
        except (ZeroDivisionError, DecimalException):
            missing.append(BY_ZERO[computation.language].format(title=task.title, label=task.label).strip())
    citations = tuple(_citation(n, number) for n, number in worker.used.values())
    if not told:
        return Draft(" ".join(dict.fromkeys(missing)), abstained=True, reason="a number of the computation is missing")
    return Draft("\n".join((*told, *dict.fromkeys(missing))), citations, reason="worked out from tables")


NO_YEAR = {"en": "{said}: the question names no year.", "ko": "{said}: 질문에 연도가 없습니다."}
BY_ZERO = {
    "en": "{title} {label} cannot be worked out: it would divide by zero.",
    "ko": "{title} {label}: 0으로 나누게 되어 계산할 수 없습니다.",
}
UNITS = {
    "en": "{title} {label} cannot be worked out: the formula adds what has different units; brackets may be missing.",
    "ko": "{title} {label}: 단위가 다른 값을 더하게 되어 계산할 수 없습니다. 괄호가 빠졌을 수 있습니다.",
}
MISSING = {
    "en": "{what} was not found in the tables of {where}.",
    "ko": "{what}: {where}의 표에서 찾지 못했습니다.",
}
POINTS: Mapping[Language, str] = {"en": " percentage points", "ko": "%p"}
MOST_NAMED = 3


def _missing(what: str, documents: Sequence[str], language: Language) -> str:
    where = ", ".join(documents[:MOST_NAMED]) + (" …" if len(documents) > MOST_NAMED else "")
    return MISSING[language].format(what=what, where=where or "…")


def _both_ends(year: int | None) -> tuple[int, int]:
    if year is None:
        raise NoYear("average")
    return year - 1, year


def _combined(sign: str, left: _Value, right: _Value) -> _Value:
    level = PRECEDENCE[sign]
    text = f"{_inside(left, level)} {SIGNS[sign]} {_inside(right, level + (sign in '-/'))}"
    units = {left.unit, right.unit} - {""}
    if sign in "+-" and len(units) > 1:
        raise UnitsDiffer(text)
    unit = next(iter(units - {RATIO}), RATIO if units else "")
    match sign:
        case "+":
            return _Value(left.value + right.value, unit, text, level)
        case "-":
            return _Value(left.value - right.value, unit, text, level)
        case "*":
            return _Value(left.value * right.value, unit, text, level)
        case _:
            if not right.value:
                raise ZeroDivisionError(text)
            if left.unit == right.unit:
                unit = RATIO if left.unit else ""
            elif right.unit != RATIO:
                unit = left.unit
            return _Value(left.value / right.value, unit, text, level)


def _inside(value: _Value, least: int) -> str:
    return value.text if value.precedence >= least else f"({value.text})"


def _sentence(task: Task, value: _Value, asked: Computation) -> str:
    """`Inventory turnover FY2019 = 16,830 [1] ÷ average(2,721 [2], 2,667 [3]) = 6.25`."""
    title = f"{task.title[:1].upper()}{task.title[1:]}"
    head = " ".join(filter(None, (title, task.label)))
    result = _result(value, task.shown, asked)
    if result.endswith("%") and isinstance(task.expression, Over) and task.expression.how == "change":
        result = f"{result[:-1]}{POINTS[asked.language]}"
    return " = ".join(filter(None, (head, value.text, result)))


def _result(value: _Value, shown: Shown, asked: Computation) -> str:
    if value.unit == "%":
        return _rounded(value.value, asked, 2) + "%"
    if shown == "%" and asked.defined and not asked.in_percent:  # as the question's formula gives it
        return f"{_rounded(value.value, asked, 4)} ({_rounded(100 * value.value, asked, 2)}%)"
    if shown == "%":
        return _rounded(100 * value.value, asked, 2) + "%"
    if shown == "days":
        return _rounded(value.value, asked, 2) + {"en": " days", "ko": "일"}[asked.language]
    if value.unit not in ("", RATIO) or shown == "amount":
        return _amount(value, asked)
    return _rounded(value.value, asked, 2)


def _amount(value: _Value, asked: Computation) -> str:
    """`USD 302.58 million`, `3.03억 달러`; in the scale that the question asks for."""
    korean = asked.language == "ko"
    least = SCALES.get(asked.scale) or next(
        (least for least in (MYRIADS if korean else ENGLISH_SCALES) if abs(value.value) >= least), Decimal(1)
    )
    number = value.value / least
    whole = asked.decimals is None and number == number.to_integral_value()
    text = f"{number:,.0f}" if whole else _rounded(number, asked, 2)
    if korean:
        scale = KOREAN_SCALES[asked.scale] if asked.scale else MYRIADS.get(least, "")
        return f"{text}{scale} {KOREAN_UNITS.get(value.unit, value.unit)}".rstrip()
    scale = f" {asked.scale.removesuffix('s') or ENGLISH_SCALES.get(least, '')}".rstrip()
    return f"{value.unit} {text}{scale}" if value.unit in AMOUNTS else f"{text}{scale} {value.unit}".rstrip()


def _rounded(value: Decimal, asked: Computation, usual: int) -> str:
    decimals = usual if asked.decimals is None else asked.decimals
    return f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"


def _citation(n: int, number: Number) -> Citation:
    header = " ".join(number.column_path) or number.period.label
    return Citation(
        n=n,
        document=number.name,
        digest=number.document,
        page=number.page,
        bbox=number.bbox,
        quote=f"{' › '.join(number.row_path)}; {header}: {number.shown}",
    )
