"""Works a computation out from the lines of statements, exactly, cites each number, and writes the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, DecimalException, localcontext

from tasks.documents.blocks import Place
from tasks.language.sentences import Language
from tasks.rag.answers import Citation, Draft
from tasks.rag.numbers.cell_facts import name_of_cell
from tasks.rag.numbers.computations import Computation, Shown, Task
from tasks.rag.numbers.concepts import label_of, score_label, words_of
from tasks.rag.numbers.evaluation import (
    RATIO,
    Describe,
    Evaluator,
    NotFound,
    NoYear,
    Rows,
    UnitsDiffer,
    Value,
    never,
    place_of,
)
from tasks.rag.numbers.expressions import Constant, Operation, Over
from tasks.rag.numbers.identities import OTHERWISE, said_in_answer
from tasks.rag.numbers.line_lookup import AMOUNTS, PLAIN_HEADERS, TOTALS, Lines, Number, agree

DIGITS = 28
UNREAD, ASSUMED, QUALIFIED, OF_A_PART, ELSEWHERE, BREAKS, RESTATED = 0.9, 0.85, 0.85, 0.8, 0.85, 0.75, 0.8
"""What is left of the confidence in an answer for a word that nothing explains; a period that the question does not
name; a line that is found by its words; a column of a part of the company; a table that is not the statement of the
line; a cell whose sum does not hold; another value in another document."""
NO_SCALE = 0.5
"""The same for an amount that seems to lack its scale."""
SMALL = 1_000_000
NO_UNIT = 0.4
"""The same for an amount without a unit beside one with a currency."""
Years = Callable[[], Sequence[int]]
"""The fiscal years of the statements of the documents."""


def work_out(
    computation: Computation,
    lines: Lines,
    *,
    documents: Sequence[str],
    statements: Lines | None = None,
    rows: Rows = tuple,
    describe: Describe = never,
    years: Years = tuple,
    others: Sequence[Lines] = (),
) -> Draft:
    """The answer: each figure with its formula and a citation for each input; it abstains where one is missing.

    documents: names of those that were looked in. statements: their primary statements alone.
    others: those of one entity, apart, which may restate a figure.
    """
    evaluator = Evaluator(lines, statements, rows, describe)
    told: list[str] = []
    missing: list[str] = []
    language = computation.language
    for task in computation.tasks:
        named = {"title": task.title, "label": task.label}
        try:
            told.append(sentence_of(task, _worked(evaluator, task, language), computation))
        except NotFound as error:
            missing.append(_missing(error, documents, language, years))
        except NoYear as error:
            missing.append(NO_YEAR[language].format(said=error))
        except UnitsDiffer:
            missing.append(UNITS[language].format(**named).strip())
        except (ZeroDivisionError, DecimalException):
            missing.append(BY_ZERO[language].format(**named).strip())
    citations = tuple(cited_number(n, number) for n, number in evaluator.used.values())
    if not told:
        return Draft(" ".join(dict.fromkeys(missing)), abstained=True, reason="a number of the computation is missing")
    doubts = [*_doubts(evaluator, language), *_restated(evaluator, others, language)]
    text = "\n".join((*told, *dict.fromkeys((*missing, *(said for _, said in doubts if said)))))
    confidence = UNREAD ** len(computation.unread) * (ASSUMED if computation.assumed else 1.0)
    for factor, _ in doubts:
        confidence *= factor
    return Draft(text, citations, reason="worked out from tables", confidence=round(confidence, 4))


def _worked(evaluator: Evaluator, task: Task, language: Language) -> Value:
    """The value of a task, with the scales of its inputs where they have several."""
    with localcontext(prec=DIGITS):
        evaluator.scale_words = {}
        found = evaluator.evaluate(task.expression, task.when)
        if len({number.scale for _, number in evaluator.used.values()}) > 1:
            evaluator.scale_words = INPUT_SCALES[language]
            found = evaluator.evaluate(task.expression, task.when)
        return found


def _doubts(evaluator: Evaluator, language: Language) -> list[tuple[float, str]]:
    """For each number that was used: what is left of the confidence, and what the answer says of it."""
    found: list[tuple[float, str]] = []
    for n, number in evaluator.used.values():
        line, _ = evaluator.lines[n]
        plain = line.concept is not None and not line.of
        by_words = evaluator.by_words.get(place_of(number), QUALIFIED)
        found.append((score_label(line.concept, label_of(number.row_path)) if plain and line.concept else by_words, ""))
        words = {word for header in number.column_path for word in words_of(header) if word.isalpha()}
        if plain and words - PLAIN_HEADERS - TOTALS:
            found.append((OF_A_PART, ""))
        if plain and line.concept and line.concept.statement not in (None, number.statement):
            found.append((ELSEWHERE, ""))
        if number.broken:
            found.append((BREAKS, said_in_answer(n, number.broken, number.scale, language)))
    units = {number.unit for _, number in evaluator.used.values()}
    if "" in units and units & AMOUNTS:
        found.append((NO_UNIT, ""))
    elif _lacks_scale(evaluator):
        found.append((NO_SCALE, ""))
    return [(min(1.0, factor), said) for factor, said in found]


def _lacks_scale(evaluator: Evaluator) -> bool:
    """Whether a small amount in whole units is a line of statements of a document that speaks in thousands or millions:
    its table may only not say so."""
    small: set[str] = set()
    for n, number in evaluator.used.values():
        concept = evaluator.lines[n][0].concept
        in_statements = concept and concept.statement not in (None, "budget") and "per_share" not in concept.key
        is_whole = number.value == number.value.to_integral_value()
        if in_statements and is_whole and number.unit in AMOUNTS and number.scale == 1 and abs(number.value) < SMALL:
            small.add(number.document)
    return bool(small) and any(row["document"] in small and row["scale"] > 1 for row in evaluator.rows())


def _restated(evaluator: Evaluator, others: Sequence[Lines], language: Language) -> list[tuple[float, str]]:
    """Other values of the same line and period in other documents of the entity."""
    found: list[tuple[float, str]] = []
    for n, number in evaluator.used.values() if len(others) > 1 else ():
        line, when = evaluator.lines[n]
        for book in others:
            rival = book.find(line, when.year, when.part) if not line.of else None
            if rival and rival.document != number.document and not agree(number, rival):
                said = f"{line.said} {when.label}"
                text = OTHERWISE[language].format(said=said, n=n, shown=rival.shown, document=rival.name)
                found.append((RESTATED, text))
    return found


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
ONLY_YEARS = {"en": "Their tables are of {span}.", "ko": "표에 있는 연도는 {span}입니다."}
MOST_NAMED = 3


def _missing(error: NotFound, documents: Sequence[str], language: Language, years: Years) -> str:
    where = ", ".join(documents[:MOST_NAMED]) + (" …" if len(documents) > MOST_NAMED else "")
    told = MISSING[language].format(what=error, where=where or "…")
    there = years()
    if not there or error.when.year in there:
        return told
    span = f"FY{there[0]}" if len(there) == 1 else f"FY{there[0]} … FY{there[-1]}"
    return f"{told} {ONLY_YEARS[language].format(span=span)}"


def cited_number(n: int, number: Number) -> Citation:
    """The cell as mark n of an answer, or the sentence that states the number."""
    told = number.table < 0
    header = " ".join(number.column_path) or number.period.label
    cell = name_of_cell(number.document, table=number.table, row=number.row, col=number.col)
    return Citation(
        n=n,
        document=number.name,
        digest=number.document,
        page=number.page,
        bbox=number.bbox,
        quote=number.row_path[-2] if told else f"{' › '.join(number.row_path)}; {header}: {number.shown}",
        cell=None if told else cell,
        place=Place(cells=number.cells),
    )


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
    match task.expression:
        case Over(how="change") if value.value < 0:
            result = f"{result}, {FELL[asked.language]}"
        case Operation("-", Operation("/", _, _), Constant(one)) if one == 1 and value.value < 0:  # a rate of growth
            result = f"{result}, {FELL[asked.language]}"
        case _:
            pass
    if value.when:
        result = f"{result} ({value.when.label})"
    return " = ".join(filter(None, (head, value.text, result)))


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
    # what is counted in Korean is written out
    scales = ENGLISH_SCALES if not korean else MYRIADS if value.unit in AMOUNTS else {}
    largest = next((scale for scale in scales if abs(value.value) >= scale), Decimal(1))
    least = SCALES.get(asked.scale) or largest
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


def rounded(value: Decimal, asked: Computation, usual: int) -> str:
    decimals = usual if asked.decimals is None else asked.decimals
    return f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"
