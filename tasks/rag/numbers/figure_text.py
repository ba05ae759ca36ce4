"""Figures as an answer writes them: formula, value, unit and rounding."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from tasks.language.sentences import Language
from tasks.rag.numbers.computations import Computation, Shown, Task
from tasks.rag.numbers.evaluation import RATIO, Value
from tasks.rag.numbers.expressions import Constant, Expression, Operation, Over
from tasks.rag.numbers.line_lookup import AMOUNTS

SCALES = {"thousands": Decimal(1_000), "millions": Decimal(1_000_000), "billions": Decimal(1_000_000_000)}
KOREAN_SCALES = {"thousands": "천", "millions": "백만", "billions": "십억"}
MYRIADS = {Decimal(10) ** 12: "조", Decimal(10) ** 8: "억", Decimal(10) ** 4: "만"}
KOREAN_UNITS = {"USD": "달러", "KRW": "원", "EUR": "유로", "JPY": "엔", "GBP": "파운드", "CNY": "위안", "shares": "주"}
INPUT_SCALES: Mapping[Language, Mapping[Decimal, str]] = {
    "en": {Decimal(10) ** 3: " thousand", Decimal(10) ** 6: " million", Decimal(10) ** 9: " billion"},
    "ko": {Decimal(10) ** 3: "천", Decimal(10) ** 6: "백만", Decimal(10) ** 8: "억", Decimal(10) ** 9: "십억"},
}
ENGLISH_SCALES = {Decimal(10) ** 9: "billion", Decimal(10) ** 6: "million"}
POINTS: Mapping[Language, str] = {"en": " percentage points", "ko": "%p"}


FELL: Mapping[Language, str] = {"en": "a decrease", "ko": "감소"}


def sentence_of(task: Task, value: Value, asked: Computation) -> str:
    """`Inventory turnover FY2019 = 16,830 [1] ÷ average(2,721 [2], 2,667 [3]) = 6.25`."""
    title = f"{task.title[:1].upper()}{task.title[1:]}"
    head = " ".join(filter(None, (title, task.label)))
    result = result_of(value, task.shown, asked)
    if isinstance(task.expression, Over) and task.expression.how == "change":
        if result.endswith("%"):
            result = f"{result[:-1]}{POINTS[asked.language]}"
        elif value.rate is not None:
            result = f"{result} ({rounded(100 * value.rate, asked, 2)}%)"
    if value.value < 0 and _is_change(task.expression):
        result = f"{result}, {FELL[asked.language]}"
    if value.when:
        result = f"{result} ({value.when.label})"
    return " = ".join(filter(None, (head, value.text, result)))


def _is_change(expression: Expression) -> bool:
    """Whether an expression is a difference over time, or a rate of growth."""
    match expression:
        case Over(how="change"):
            return True
        case Operation("-", Operation("/", _, _), Constant(value)):
            return value == 1
        case _:
            return False


def result_of(value: Value, shown: Shown, asked: Computation) -> str:
    if value.unit == "%":
        return rounded(value.value, asked, 2) + "%"
    share = shown == "" and value.unit == RATIO and abs(value.value) < 1
    if (shown == "%" or share) and asked.defined and not asked.in_percent:  # as the question's formula gives it
        return f"{rounded(value.value, asked, 4)} ({rounded(100 * value.value, asked, 2)}%)"
    if shown == "%":
        plain = f" ({rounded(value.value, asked, 2)})" if value.value >= 1 and not asked.in_percent else ""
        return f"{rounded(100 * value.value, asked, 2)}%{plain}"
    if shown == "days":
        return rounded(value.value, asked, 2) + {"en": " days", "ko": "일"}[asked.language]
    if value.unit != RATIO and (value.unit or shown == "amount"):
        return _amount(value, asked)
    return rounded(value.value, asked, 2)


def _amount(value: Value, asked: Computation) -> str:
    """`USD 302.58 million`, `3.03억 달러`; in the scale that the question asks for."""
    korean = asked.language == "ko"
    least = SCALES.get(asked.scale) or next(
        (least for least in _scales(value.unit, korean=korean) if abs(value.value) >= least), Decimal(1)
    )
    number = value.value / least
    whole = asked.decimals is None and number == number.to_integral_value()
    text = f"{number:,.0f}" if whole else rounded(number, asked, 2)
    if korean:
        scale = KOREAN_SCALES[asked.scale] if asked.scale else MYRIADS.get(least, "")
        if value.unit not in KOREAN_UNITS:  # what is counted
            return f"{text}{scale}{value.unit}"
        return f"{text}{scale} {KOREAN_UNITS[value.unit]}"
    scale = f" {asked.scale.removesuffix('s') or ENGLISH_SCALES.get(least, '')}".rstrip()
    return f"{value.unit} {text}{scale}" if value.unit in AMOUNTS else f"{text}{scale} {value.unit}".rstrip()


def _scales(unit: str, *, korean: bool) -> Mapping[Decimal, str]:
    """Those that a figure is written in; what is counted in Korean is written out."""
    if not korean:
        return ENGLISH_SCALES
    return MYRIADS if unit in AMOUNTS else {}


def rounded(value: Decimal, asked: Computation, usual: int) -> str:
    decimals = usual if asked.decimals is None else asked.decimals
    return f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"
