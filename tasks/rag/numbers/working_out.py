"""Works a computation out from the lines of statements, exactly, cites each number, and writes the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, DecimalException, localcontext
from typing import NamedTuple

from tasks.documents.blocks import Place
from tasks.language.sentences import Language
from tasks.rag.answers import Citation, Draft, join_short, write_amount
from tasks.rag.answers import Value as Result
from tasks.rag.numbers.cell_facts import name_of_cell
from tasks.rag.numbers.computations import Computation, DisplayUnit, Task
from tasks.rag.numbers.concepts import label_of, score_label, words_of
from tasks.rag.numbers.evaluation import (
    RATIO,
    Describe,
    Evaluator,
    NoGrowthRate,
    NotFound,
    NoYear,
    Numbers,
    UnitsDiffer,
    Value,
    find_no_cell,
    place_of,
)
from tasks.rag.numbers.expressions import Constant, Operation, Over
from tasks.rag.numbers.identities import OTHERWISE, describe_in_answer
from tasks.rag.numbers.line_lookup import AMOUNTS, PLAIN_HEADERS, TOTALS, Lines, Number, is_same_amount

DIGITS = 28  # Decimal's own default, whatever context the caller has set
UNREAD, ASSUMED, QUALIFIED, OF_A_PART, ELSEWHERE, BREAKS, RESTATED = 0.9, 0.85, 0.85, 0.8, 0.85, 0.75, 0.8
"""Factors of an answer's confidence: for a word that nothing explains; a period that the question does not name; a line
that is found by its words; a column of a part of the company; a table that is not the statement of the line; a cell
whose sum does not hold; another value in another document."""
NO_SCALE = 0.5
"""Factor of the confidence for an amount that seems to lack its scale."""
SMALL = 1_000_000  # an amount of a statement below it may be one in thousands or millions
NO_UNIT = 0.4
"""Factor of the confidence for an amount without a unit beside one with a currency."""
Years = Callable[[], Sequence[int]]
"""A function that returns the fiscal years of the statements of the documents, in order."""


def work_out(
    computation: Computation,
    lines: Lines,
    *,
    documents: Sequence[str],
    statements: Lines | None = None,
    numbers: Numbers = tuple,
    describe: Describe = find_no_cell,
    years: Years = tuple,
    single_documents: Sequence[Lines] = (),
) -> Draft:
    """Write the answer: each value with its formula and a citation for each input; it abstains where all are missing.

    documents: names of those that were searched. statements: their primary statements alone.
    single_documents: the lines of each document of one entity by itself, which may restate a value.
    """
    evaluator = Evaluator(lines, statements, numbers, describe)
    sentences: list[str] = []
    results: list[Result | None] = []
    missing: list[str] = []
    language = computation.language
    for task in computation.tasks:
        names = {"title": task.title, "label": task.label}
        try:
            value = _evaluate_task(evaluator, task, language)
            spelling = _spelling_of(value, evaluator, language)
            result = round_result(value, task.display_unit, computation, spelling)
            sentences.append(write_sentence(task, value, computation, result))
            results.append(None if value.when else result)  # the period may be what is asked for
        except NotFound as error:
            missing.append(_describe_missing(error, documents, language, years))
        except NoYear as error:
            missing.append(NO_YEAR[language].format(name=error))
        except NoGrowthRate as error:
            missing.append((OF_ONE_YEAR if error.of_one_year else NOT_POSITIVE)[language].format(values=error, **names))
        except UnitsDiffer:
            missing.append(UNITS[language].format(**names).strip())
        except (ZeroDivisionError, DecimalException):
            missing.append(BY_ZERO[language].format(**names).strip())
    citations = tuple(cite_number(n, number) for n, number in evaluator.used.values())
    if not sentences:
        return Draft(" ".join(dict.fromkeys(missing)), abstained=True, reason="a number of the computation is missing")
    doubts = [*_find_doubts(evaluator, language), *_find_restatements(evaluator, single_documents, language)]
    text = "\n".join((*sentences, *dict.fromkeys((*missing, *(note for _, note in doubts if note)))))
    confidence = UNREAD ** len(computation.unread) * (ASSUMED if computation.assumed else 1.0)
    for factor, _ in doubts:
        confidence *= factor
    draft = Draft(text, citations, reason="worked out from tables", confidence=round(confidence, 4))
    if missing or not all(results):
        return draft
    short = join_short([result.short for result in results if result])
    return draft._replace(short=short, value=results[0] if len(results) == 1 else None)


def _evaluate_task(evaluator: Evaluator, task: Task, language: Language) -> Value:
    """Evaluate a task; the working names the scales of its inputs where they have several."""
    with localcontext(prec=DIGITS):
        evaluator.scale_words = {}
        value = evaluator.evaluate(task.expression, task.when)
        if len({number.scale for _, number in evaluator.used.values()}) > 1:  # known only once all inputs are found
            evaluator.scale_words = INPUT_SCALES[language]
            value = evaluator.evaluate(task.expression, task.when)
        return value


def _find_doubts(evaluator: Evaluator, language: Language) -> list[tuple[float, str]]:
    """Return factors of the confidence for the numbers that were used, each with a note for the answer or none."""
    doubts: list[tuple[float, str]] = []
    for n, number in evaluator.used.values():
        line, _ = evaluator.lines[n]
        plain = line.concept is not None and not line.of
        by_words = evaluator.by_words.get(place_of(number), QUALIFIED)
        doubts.append(
            (score_label(line.concept, label_of(number.row_path)) if plain and line.concept else by_words, "")
        )
        words = {word for header in number.column_path for word in words_of(header) if word.isalpha()}
        if plain and words - PLAIN_HEADERS - TOTALS:
            doubts.append((OF_A_PART, ""))
        if plain and line.concept and line.concept.statement not in (None, number.statement):
            doubts.append((ELSEWHERE, ""))
        if number.broken:
            doubts.append((BREAKS, describe_in_answer(n, number.broken, number.scale, language)))
    units = {number.unit for _, number in evaluator.used.values()}
    if "" in units and units & AMOUNTS:
        doubts.append((NO_UNIT, ""))
    elif _lacks_scale(evaluator):
        doubts.append((NO_SCALE, ""))
    return [(min(1.0, factor), note) for factor, note in doubts]


def _lacks_scale(evaluator: Evaluator) -> bool:
    """Return whether a small amount in whole units seems to lack its scale.

    It is a line of statements in a document whose other tables are in thousands or millions: its own may not say so.
    """
    small: set[str] = set()
    for n, number in evaluator.used.values():
        concept = evaluator.lines[n][0].concept
        in_statements = concept and concept.statement not in (None, "budget") and "per_share" not in concept.key
        is_whole = number.value == number.value.to_integral_value()
        if in_statements and is_whole and number.unit in AMOUNTS and number.scale == 1 and abs(number.value) < SMALL:
            small.add(number.document)
    return bool(small) and any(number.document in small and number.scale > 1 for number in evaluator.numbers())


def _find_restatements(
    evaluator: Evaluator, single_documents: Sequence[Lines], language: Language
) -> list[tuple[float, str]]:
    """Return factor and note for each other value of the same line and period in other documents of the entity."""
    doubts: list[tuple[float, str]] = []
    for n, number in evaluator.used.values() if len(single_documents) > 1 else ():
        line, when = evaluator.lines[n]
        for book in single_documents:
            rival = book.find(line, when.year, when.part) if not line.of else None
            if rival and rival.document != number.document and not is_same_amount(number, rival):
                name = f"{line.name} {when.label}"
                text = OTHERWISE[language].format(name=name, n=n, shown=rival.shown, document=rival.name)
                doubts.append((RESTATED, text))
    return doubts


NO_YEAR = {"en": "{name}: the question names no year.", "ko": "{name}: 질문에 연도가 없습니다."}
BY_ZERO = {
    "en": "{title} {label} cannot be worked out: it would divide by zero.",
    "ko": "{title} {label}: 0으로 나누게 되어 계산할 수 없습니다.",
}
OF_ONE_YEAR = {
    "en": "{title} {label} cannot be worked out: a compound growth rate needs two different years; name both.",
    "ko": "{title} {label}: 연평균 성장률에는 서로 다른 두 해가 필요합니다. 두 해를 모두 적어 주십시오.",
}
NOT_POSITIVE = {
    "en": "{title} {label} cannot be worked out: a compound growth rate needs values above zero, not {values}.",
    "ko": "{title} {label}: 연평균 성장률은 두 값이 모두 0보다 커야 합니다: {values}.",
}
UNITS = {
    "en": "{title} {label} cannot be worked out: the formula adds what has different units; brackets may be missing.",
    "ko": "{title} {label}: 단위가 다른 값을 더하게 되어 계산할 수 없습니다. 괄호가 빠졌을 수 있습니다.",
}
MISSING = {"en": "{name} was not found in the tables of {where}.", "ko": "{name}: {where}의 표에서 찾지 못했습니다."}
ONLY_YEARS = {"en": "Their tables are of {span}.", "ko": "표에 있는 연도는 {span}입니다."}
MOST_NAMED = 3


def _describe_missing(error: NotFound, documents: Sequence[str], language: Language, years: Years) -> str:
    """Return the message about a missing line, with the years that tables have where its year is none of them."""
    where = ", ".join(documents[:MOST_NAMED]) + (" …" if len(documents) > MOST_NAMED else "")
    message = MISSING[language].format(name=error, where=where or "…")
    table_years = years()
    if not table_years or error.when.year in table_years:
        return message
    span = f"FY{table_years[0]}" if len(table_years) == 1 else f"FY{table_years[0]} … FY{table_years[-1]}"
    return f"{message} {ONLY_YEARS[language].format(span=span)}"


def cite_number(n: int, number: Number) -> Citation:
    """Return the citation of a number's cell under mark n of an answer."""
    header = " ".join(number.column_path) or number.period.label
    return Citation(
        n=n,
        document=number.name,
        digest=number.document,
        page=number.page,
        bbox=number.bbox,
        quote=f"{' › '.join(number.row_path)}; {header}: {number.shown}",
        cell=name_of_cell(number.document, table=number.table, row=number.row, col=number.col),
        place=Place(cells=number.cells),
    )


SCALES = {"thousands": Decimal(1_000), "millions": Decimal(1_000_000), "billions": Decimal(1_000_000_000)}
INPUT_SCALES: Mapping[Language, Mapping[Decimal, str]] = {
    "en": {Decimal(10) ** 3: " thousand", Decimal(10) ** 6: " million", Decimal(10) ** 9: " billion"},
    "ko": {Decimal(10) ** 3: "천", Decimal(10) ** 6: "백만", Decimal(10) ** 8: "억", Decimal(10) ** 9: "십억"},
}
POINTS: Mapping[Language, str] = {"en": " percentage points", "ko": "%p"}
FELL: Mapping[Language, str] = {"en": "a decrease", "ko": "감소"}
PLAIN = Decimal(1)


class Spelling(NamedTuple):
    """How the inputs of a value are written in their source."""

    scale: Decimal = PLAIN
    """The smallest scale of the inputs; 1 where the language has no word for it."""
    decimals: int = 0
    """Most decimals of the inputs of that scale."""


def _spelling_of(value: Value, evaluator: Evaluator, language: Language) -> Spelling:
    """Return scale and decimals of the inputs whose marks stand in the working of a value."""
    inputs = [number for n, number in evaluator.used.values() if f"[{n}]" in value.text]
    scale = min((number.scale for number in inputs), default=PLAIN)
    if scale not in INPUT_SCALES[language]:
        return Spelling()
    exponents = [(number.value / scale).normalize().as_tuple().exponent for number in inputs if number.scale == scale]
    return Spelling(scale, max(0, *(-exponent for exponent in exponents if isinstance(exponent, int))))


def write_sentence(task: Task, value: Value, computation: Computation, result: Result) -> str:
    """Write a value and its working: `Current ratio FY2019 = 16,830 [1] ÷ 8,415 [2] = 2.00`."""
    title = f"{task.title[:1].upper()}{task.title[1:]}"
    head = " ".join(filter(None, (title, task.label)))
    text = write_result(value, task.display_unit, computation, result)
    if isinstance(task.expression, Over) and task.expression.aggregate == "change":
        if text.endswith("%"):
            text = f"{text[:-1]}{POINTS[computation.language]}"
        elif value.rate is not None:
            text = f"{text} ({write_rounded(100 * value.rate, computation, 2)}%)"
    match task.expression:
        case Over(aggregate="change") if value.value < 0:
            text = f"{text}, {FELL[computation.language]}"
        case Operation("-", Operation("/", _, _), Constant(one)) if one == 1 and value.value < 0:  # a rate of growth
            text = f"{text}, {FELL[computation.language]}"
        case _:
            pass
    if value.when:
        text = f"{text} ({value.when.label})"
    return " = ".join(filter(None, (head, value.text, text)))


def _is_fraction(value: Value, display_unit: DisplayUnit, computation: Computation) -> bool:
    """Return whether the formula of the question gives a fraction, though it may be meant as a percentage."""
    share = display_unit == "" and value.unit == RATIO and abs(value.value) < 1
    return value.unit != "%" and (display_unit == "%" or share) and computation.defined and not computation.in_percent


def round_result(value: Value, display_unit: DisplayUnit, computation: Computation, spelling: Spelling) -> Result:
    """Return a value in the unit, the scale and with the decimals that are asked for, else those of its source."""
    if _is_fraction(value, display_unit, computation):
        return Result(exact=f"{value.value:f}", display=write_rounded(value.value, computation, 4))
    if "%" in (value.unit, display_unit):
        percent = value.value if value.unit == "%" else 100 * value.value
        return Result(exact=f"{percent:f}", unit="%", display=write_rounded(percent, computation, 2))
    is_amount = display_unit != "days" and value.unit != RATIO and (value.unit or display_unit == "amount")
    if not is_amount:
        unit = "days" if display_unit == "days" else ""
        return Result(exact=f"{value.value:f}", unit=unit, display=write_rounded(value.value, computation, 2))
    scale = SCALES.get(computation.scale, spelling.scale)
    digits = _write_digits(value.value / scale, computation, spelling.decimals if scale == spelling.scale else 0)
    word = INPUT_SCALES["en"].get(scale, "") or INPUT_SCALES[computation.language].get(scale, "")
    return Result(exact=f"{value.value:f}", unit=value.unit, scale=word.strip(), display=digits)


def write_result(value: Value, display_unit: DisplayUnit, computation: Computation, result: Result) -> str:
    """Write a result as a sentence ends with it: `2.00`, `34.21%`, `USD 302,580 thousand`."""
    if _is_fraction(value, display_unit, computation):
        return f"{result.display} ({write_rounded(100 * value.value, computation, 2)}%)"
    if result.unit == "%":
        # 100 % and more are written as a multiple too, unless the question speaks of percent
        is_multiple = value.unit != "%" and value.value >= 1 and not computation.in_percent
        return f"{result.display}%" + (f" ({write_rounded(value.value, computation, 2)})" if is_multiple else "")
    return write_amount(result.display, result.unit, result.scale, computation.language)


def _write_digits(number: Decimal, computation: Computation, decimals: int) -> str:
    """Write a number with the decimals of its source; with two where it has more, however many are asked for."""
    usual = max(decimals, 2)
    if computation.decimals is not None or number != round(number, usual):
        return write_rounded(number, computation, usual)
    least = next(places for places in range(decimals, usual + 1) if number == round(number, places))
    return f"{round(number, least):,f}"


def write_rounded(value: Decimal, computation: Computation, usual: int) -> str:
    """Write a number with the decimals that the question asks for, else the usual ones; halves are rounded up.

    Where it has more, a small one gets three significant digits: .006012 is no 0.01.
    """
    decimals = usual if computation.decimals is None else computation.decimals
    if computation.decimals is None and value != round(value, usual):
        decimals = max(usual, 2 - value.adjusted())
    # by default halves go to the even digit: 0.125 would be 0.12
    return f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"
