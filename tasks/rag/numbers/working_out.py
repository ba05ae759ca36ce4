"""Works a computation out from the lines of statements, exactly, with a citation for each number that goes in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal, DecimalException, localcontext
from typing import Any, NamedTuple

from tasks.documents.blocks import Place
from tasks.language.sentences import Language
from tasks.rag.answers import Citation, Draft
from tasks.rag.numbers.computations import Computation, Shown, Task
from tasks.rag.numbers.concepts import HANGUL, NEARLY, Concept, fit, label_of, words_of
from tasks.rag.numbers.doubts import OTHERWISE, said_in_answer
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation, Over, parse
from tasks.rag.numbers.line_lookup import AMOUNTS, PLAIN_HEADERS, SURE, WHOLE, Lines, Number
from tasks.rag.numbers.ranking import ranked
from tasks.rag.numbers.restatements import agree
from tasks.rag.numbers.year_parts import When

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


UNREAD, ASSUMED, QUALIFIED, OF_A_PART, ELSEWHERE, BREAKS, RESTATED = 0.9, 0.85, 0.85, 0.8, 0.85, 0.75, 0.8
"""What is left of the confidence in an answer for a word that nothing explains; a period that the question does not
name; a line that is found by its words; a column of a part of the company; a table that is not the statement of the
line; a cell whose sum does not hold; another value in another document."""
NO_UNIT = 0.4
"""The same for an amount without a unit beside one with a currency."""
MOST_NAMES = 10
"""Names of a concept that a qualified line is looked for by."""


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


class _Value(NamedTuple):
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


class _Worker:
    """Evaluates one question's expressions; counts the numbers that it uses."""

    def __init__(self, lines: Lines, statements: Lines | None, rows: Rows) -> None:
        """statements: the lines of the primary statements alone. rows: all numbers."""
        self._lines = lines
        self._statements = statements
        self._rows = rows
        self.scale_words: Mapping[Decimal, str] = {}
        """Of the inputs; empty where all have one scale."""
        self.used: dict[tuple[str, int, int, int], tuple[int, Number]] = {}
        self.lines: dict[int, tuple[Line, When]] = {}
        """What each number was looked for as."""
        self._open: set[str] = set()

    def evaluate(self, expression: Expression, when: When | None) -> _Value:
        """Raises NotFound, NoYear, ZeroDivisionError."""
        match expression:
            case Constant(value, shown):
                return _Value(value, "", shown)
            case Line():
                return self._line(expression, _own(expression, when))
            case Operation(sign, left, right):
                return _combined(sign, self.evaluate(left, when), self.evaluate(right, when))
            case Over(how, what, years):
                return self._over(how, what, _whens(years, when))

    def rank(self, line: Line, when: When) -> Sequence[tuple[str, _Value]]:
        """The parts of the company by how much of a line they have, the largest first. Raises NotFound."""
        total = self._find(line, when)
        parts = ranked(line.concept, when, total, self._rows()) if total and line.concept else ()
        if not parts:
            raise NotFound(line.said, when)
        told: list[tuple[str, _Value]] = []
        for name, number in parts:
            n, kept = self._cited(number, Line(f"{name} {line.said}", line.concept, of=name), when)
            told.append((name, _Value(kept.value, kept.unit, f"{kept.shown.lstrip('$€£¥₩ ')} [{n}]")))
        return told

    def _over(self, how: str, what: Expression, whens: Sequence[When]) -> _Value:
        if how == "previous":
            return self.evaluate(what, whens[0])
        if how in ("highest", "lowest"):
            return self._extreme(how, what, whens)
        values = [self.evaluate(what, one) for one in whens]
        unit = values[0].unit
        total = sum((one.value for one in values), Decimal(0))
        texts = ", ".join(one.text for one in values)
        if how == "sum":
            return _Value(total, unit, " + ".join(_inside(one, 1) for one in values), 1)
        if how == "average":
            return _Value(total / len(values), unit, f"average({texts})")
        first, last = values[0], values[-1]
        if how == "change":
            rate = last.value / first.value - 1 if first.value > 0 else None
            return _combined("-", last, first)._replace(precedence=0, rate=rate)
        span = whens[-1].year - whens[0].year
        if first.value <= 0 or last.value <= 0 or not span:
            raise ZeroDivisionError(f"{first.text} → {last.text}")
        rate = (last.value / first.value) ** (Decimal(1) / span) - 1
        return _Value(rate, "", f"({_inside(last, 2)} ÷ {_inside(first, 3)})^(1/{span}) − 1", 1)

    def _extreme(self, how: str, what: Expression, whens: Sequence[When]) -> _Value:
        """The highest or the lowest of the periods; all of them must be there, or another could be it."""
        values = [(self.evaluate(what, one), one) for one in whens]
        best, when = (max if how == "highest" else min)(values, key=lambda one: one[0].value)
        texts = ", ".join(value.text for value, _ in values)
        return _Value(best.value, best.unit, f"{'max' if how == 'highest' else 'min'}({texts})", when=when)

    def _line(self, line: Line, when: When | None) -> _Value:
        if when is None:
            raise NoYear(line.said)
        concept = line.concept
        ratio = concept is not None and concept.statement is None
        found = None if ratio else self._qualified(line, when) if line.of else self._find(line, when)
        if found and concept and concept.formula and not line.of and self._is_elsewhere(line, when, found):
            with suppress(NotFound):
                return self._by_formula(line, concept, when)
        if found:
            n, number = self._cited(found, line, when)
            outflow = concept is not None and concept.outflow
            shown = number.shown.strip("()-− $€£¥₩") if outflow else number.shown.lstrip("$€£¥₩ ")
            scale = self.scale_words.get(number.scale, "")
            return _Value(abs(number.value) if outflow else number.value, number.unit, f"{shown}{scale} [{n}]")
        if concept and concept.formula:
            return self._by_formula(line, concept, when)
        raise NotFound(line.said, when)

    def _by_formula(self, line: Line, concept: Concept, when: When) -> _Value:
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
        if found and (line.concept is None or fit(line.concept, label_of(found.row_path)) >= NEARLY):
            return found
        found = self._lines.find(line, when.year, when.part)
        if found and line.concept is None and not _names(line.said, found):
            return None
        return found

    def _is_elsewhere(self, line: Line, when: When, number: Number) -> bool:
        """Whether a cell stands in no primary statement, and may be of another company."""
        return self._statements is not None and self._statements.find(line, when.year, when.part) != number

    def _qualified(self, line: Line, when: When) -> Number | None:
        """The line of a part of the company, by the words of both: as it was said, or by another name of the line."""
        assert line.concept is not None
        korean = HANGUL.search(line.of) is not None
        names = [name for name in line.concept.names if (HANGUL.search(name) is not None) == korean]
        for said in (line.said, *(f"{line.of} {name}" for name in names[:MOST_NAMES])):
            found = self._find(Line(said, None), when)
            if found and _of_concept(line, found):
                return found
        return None

    def _cited(self, number: Number, line: Line, when: When) -> tuple[int, Number]:
        key = (number.document, number.table, number.row, number.col)
        n, kept = self.used.setdefault(key, (len(self.used) + 1, number))
        self.lines.setdefault(n, (line, when))
        return n, kept


def _of_concept(line: Line, number: Number) -> bool:
    """Whether a label of a cell names the concept beside its qualifier: "Cost of revenue" is no revenue."""
    of = re.compile("|".join(map(re.escape, line.of.split())), re.IGNORECASE)
    labels = (of.sub(" ", label) for label in (*number.row_path, *number.column_path))
    return line.concept is not None and any(fit(line.concept, " ".join(label.split())) >= SURE for label in labels)


def _names(said: str, number: Number) -> bool:
    """Whether the label of a row itself has a word of the line, and not only its headings."""
    return not set(words_of(said)).isdisjoint(words_of(" ".join(number.row_path[-1:])))


def _own(line: Line, when: When | None) -> When | None:
    """The period of a line: its own where it names one."""
    if line.year is None:
        return when
    part = line.part or (when.part if when else None)
    return When(line.year, part) if part else When(line.year)


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


Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""The numbers of the documents, as rows of storage.numbers."""
Years = Callable[[], Sequence[int]]
"""The fiscal years of the statements of the documents."""


def work_out(
    computation: Computation,
    lines: Lines,
    *,
    documents: Sequence[str],
    statements: Lines | None = None,
    rows: Rows = tuple,
    years: Years = tuple,
    others: Sequence[Lines] = (),
) -> Draft:
    """The answer: each figure with its formula and a citation for each input; it abstains where one is missing.

    documents: names of those that were looked in. statements: their primary statements alone.
    others: those of one entity, apart, which may restate a figure.
    """
    worker = _Worker(lines, statements, rows)
    told: list[str] = []
    missing: list[str] = []
    language = computation.language
    for task in computation.tasks:
        named = {"title": task.title, "label": task.label}
        try:
            if task.rank:
                told.append(_ranking(task, worker, computation))
            else:
                told.append(_sentence(task, _worked(worker, task, language), computation))
        except NotFound as error:
            unknown = NO_PARTS[language].format(**named) if task.rank else _missing(error, documents, language, years)
            missing.append(unknown)
        except NoYear as error:
            missing.append(NO_YEAR[language].format(said=error))
        except UnitsDiffer:
            missing.append(UNITS[language].format(**named).strip())
        except (ZeroDivisionError, DecimalException):
            missing.append(BY_ZERO[language].format(**named).strip())
    citations = tuple(cited_number(n, number) for n, number in worker.used.values())
    if not told:
        return Draft(" ".join(dict.fromkeys(missing)), abstained=True, reason="a number of the computation is missing")
    doubts = [*_doubts(worker, language), *_restated(worker, others, language)]
    text = "\n".join((*told, *dict.fromkeys((*missing, *(said for _, said in doubts if said)))))
    confidence = _confidence(computation, [factor for factor, _ in doubts])
    return Draft(text, citations, reason="worked out from tables", confidence=confidence)


def _worked(worker: _Worker, task: Task, language: Language) -> _Value:
    """The value of a task, with the scales of its inputs where they have several."""
    with localcontext(prec=DIGITS):
        worker.scale_words = {}
        found = worker.evaluate(task.expression, task.when)
        if len({number.scale for _, number in worker.used.values()}) > 1:
            worker.scale_words = INPUT_SCALES[language]
            found = worker.evaluate(task.expression, task.when)
        return found


def _confidence(computation: Computation, doubts: Sequence[float]) -> float:
    """The product of what each doubt leaves."""
    left = UNREAD ** len(computation.unread) * (ASSUMED if computation.assumed else 1.0)
    for one in doubts:
        left *= one
    return round(left, 4)


def _doubts(worker: _Worker, language: Language) -> list[tuple[float, str]]:
    """For each number that was used: what is left of the confidence, and what the answer says of it."""
    found: list[tuple[float, str]] = []
    for n, number in worker.used.values():
        line, _ = worker.lines[n]
        plain = line.concept is not None and not line.of
        found.append((fit(line.concept, label_of(number.row_path)) if plain and line.concept else QUALIFIED, ""))
        if plain and _of_a_part(number):
            found.append((OF_A_PART, ""))
        if plain and line.concept and line.concept.statement not in (None, number.statement):
            found.append((ELSEWHERE, ""))
        if number.broken:
            found.append((BREAKS, said_in_answer(n, number.broken, number.scale, language)))
    units = {number.unit for _, number in worker.used.values()}
    if "" in units and units & AMOUNTS:
        found.append((NO_UNIT, ""))
    return [(min(1.0, factor), said) for factor, said in found]


def _of_a_part(number: Number) -> bool:
    words = {word for header in number.column_path for word in words_of(header) if word.isalpha()}
    return bool(words - PLAIN_HEADERS - WHOLE)


def _restated(worker: _Worker, others: Sequence[Lines], language: Language) -> list[tuple[float, str]]:
    """Other values of the same line and period in other documents of the entity."""
    found: list[tuple[float, str]] = []
    for n, number in worker.used.values() if len(others) > 1 else ():
        line, when = worker.lines[n]
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
NO_PARTS = {
    "en": "No table shows parts that add up to {title} {label}.",
    "ko": "{title} {label}: 합계와 맞는 부문별 표를 찾지 못했습니다.",
}
POINTS: Mapping[Language, str] = {"en": " percentage points", "ko": "%p"}
MOST_NAMED = 3


def _missing(error: NotFound, documents: Sequence[str], language: Language, years: Years) -> str:
    where = ", ".join(documents[:MOST_NAMED]) + (" …" if len(documents) > MOST_NAMED else "")
    told = MISSING[language].format(what=error, where=where or "…")
    there = years()
    if not there or error.when.year in there:
        return told
    span = f"FY{there[0]}" if len(there) == 1 else f"FY{there[0]} … FY{there[-1]}"
    return f"{told} {ONLY_YEARS[language].format(span=span)}"


def _whens(years: Sequence[int | When], when: When | None) -> tuple[When, ...]:
    """The periods of an operation; where it names none, the computation's and the one before."""
    if years:
        return tuple(one if isinstance(one, When) else When(one, when.part) if when else When(one) for one in years)
    if when is None:
        raise NoYear("average")
    return when.before(), when


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
    if isinstance(task.expression, Over) and task.expression.how == "change":
        if result.endswith("%"):
            result = f"{result[:-1]}{POINTS[asked.language]}"
        elif value.rate is not None:
            result = f"{result} ({_rounded(100 * value.rate, asked, 2)}%)"
    if value.when:
        result = f"{result} ({value.when.label})"
    return " = ".join(filter(None, (head, value.text, result)))


def _ranking(task: Task, worker: _Worker, asked: Computation) -> str:
    """`Net sales FY2018: North America 141,366 [1], International 65,866 [2], AWS 25,655 [3]`, as asked first."""
    assert isinstance(task.expression, Line)
    assert task.when
    parts = worker.rank(task.expression, task.when)
    ordered = list(reversed(parts)) if task.rank == "least" else parts
    first, value = ordered[0]
    others = ", ".join(f"{name} {one.text}" for name, one in ordered[1:])
    title = f"{task.title[:1].upper()}{task.title[1:]} {task.label}"
    return f"{first}: {title} = {value.text} = {_result(value, task.shown, asked)} ({others})"


def _result(value: _Value, shown: Shown, asked: Computation) -> str:
    if value.unit == "%":
        return _rounded(value.value, asked, 2) + "%"
    share = shown == "" and value.unit == RATIO and abs(value.value) < 1
    if (shown == "%" or share) and asked.defined and not asked.in_percent:  # as the question's formula gives it
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


def cited_number(n: int, number: Number) -> Citation:
    """The cell as mark n of an answer."""
    header = " ".join(number.column_path) or number.period.label
    return Citation(
        n=n,
        document=number.name,
        digest=number.document,
        page=number.page,
        bbox=number.bbox,
        quote=f"{' › '.join(number.row_path)}; {header}: {number.shown}",
        place=Place(cells=number.cells),
    )
