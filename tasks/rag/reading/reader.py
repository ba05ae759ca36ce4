"""Answers a question from the cells and sentences that were found: value, working, and a citation for each cell.

`read_answer` lists what the page could answer, takes the likeliest, and refuses what makes no sense of its units.
A model may choose the cells and the operation instead; they are worked out and cited in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, DecimalException, localcontext
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from storage.index import Index
from storage.numbers import select_cells, select_statements
from storage.records import Record
from tasks.documents.blocks import Place
from tasks.language.number_words import CURRENCIES
from tasks.language.sentences import Language, disarm_marks, language_of
from tasks.language.tokens import Stems
from tasks.rag.answers import Citation, Draft, Filters, Short, Value, write_amount
from tasks.rag.numbers.cell_facts import name_of_cell
from tasks.rag.numbers.concepts import mentions
from tasks.rag.numbers.expressions import lines_of, parse
from tasks.rag.numbers.working_out import POINTS
from tasks.rag.planning.names import stem_of
from tasks.rag.reading.candidates import (
    IN_PERCENT,
    LONG,
    MOST_OPERANDS,
    PLAIN,
    SCALES,
    Candidate,
    scale_of,
    short_texts,
)
from tasks.rag.reading.cell_features import Features, describe_cells
from tasks.rag.reading.pages import Amount, Cell, Page, Question, compare_documents, years_of
from tasks.rag.reading.scorers import WORKED, Reader, answer_key, choose, load_reader
from tasks.rag.retrieval.search import Hit

ALL = Filters()
PRIMARY = ("income", "balance", "cash_flow")
"""Statements that are read where a question names a line of them, whether or not they were found."""
MOST_DOCUMENTS = 6
"""Most documents that are read for an answer, those found first."""
LARGEST_OF_KINDS = 150
"""Percent from which a share of a balance in a flow, or the other way round, is no share."""
SIGNIFICANT = 15
"""Significant digits of the exact value of a quotient that has no end."""
MOST_SENTENCE_CHARS = 300
MOST_NAME_CHARS = 90
MOST_LEVELS = 3
"""Levels of a row path that name a cell, the innermost ones."""
TITLES: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "growth": "Growth", "difference": "Difference", "sum": "Sum", "average": "Average", "share": "Share",
        "ratio": "Ratio", "product": "Product", "count": "Count", "argmax": "largest",
        "argmin": "smallest", "max": "largest", "min": "smallest", "yes": "Yes", "no": "No",
    },
    "ko": {
        "growth": "증감률", "difference": "차이", "sum": "합계", "average": "평균", "share": "비중",
        "ratio": "비율", "product": "곱", "count": "개수", "argmax": "최대",
        "argmin": "최소", "max": "최대", "min": "최소", "yes": "예", "no": "아니요",
    },
}  # fmt: skip
WORKINGS = {
    "difference": "{0} − {1}", "growth": "({0} − {1}) / {1}", "share": "{0} / {1}", "ratio": "{0} / {1}",
    "product": "{0} × {1}",
}  # fmt: skip
PAIRED = frozenset(["difference", "growth", "share", "ratio", "product"])
"""Operations over two cells, of which a model names the first one first."""
MOST_SHOWN = 24
"""Most cells that a model is shown."""
REFUSALS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "years": "No value of {0} was found; the closest are of {1}.",
        "currencies": "Not worked out: the amounts are in several currencies ({0}).",
        "percentage": "Not worked out: a percentage and an amount cannot be put together.",
        "units": "Not worked out: a share needs one unit, and the values have several ({0}).",
        "kinds": "Not worked out: a balance at one day is no share of what flowed in a period ({0}%).",
        "sign": "Not worked out: there is no rate of growth from {1} to {0}, across a change of sign.",
        "share": "Not worked out: {0}% would be no part of a whole, and the documents do not state it.",
    },
    "ko": {
        "years": "{0}년의 값은 찾지 못했습니다. 가장 가까운 값은 {1}년의 것입니다.",
        "currencies": "계산하지 않았습니다: 금액의 통화가 서로 다릅니다({0}).",
        "percentage": "계산하지 않았습니다: 백분율과 금액은 함께 계산할 수 없습니다.",
        "units": "계산하지 않았습니다: 비중을 구할 값의 단위가 서로 다릅니다({0}).",
        "kinds": "계산하지 않았습니다: 잔액은 기간 금액의 일부가 아닙니다({0}%).",
        "sign": "계산하지 않았습니다: {1}에서 {0}(으)로 부호가 바뀌어 증감률이 없습니다.",
        "share": "계산하지 않았습니다: {0}%는 전체의 일부가 될 수 없고 문서에도 없는 값입니다.",
    },
}
_DIGITS = re.compile(r"\d[\d,.'’ ]*\d|\d")


class Reading(NamedTuple):
    """A document as it is read for a question."""

    page: Page
    question: Question
    features: Features
    """(cells, CELL_FEATURES)"""


def open_pages(question: str, hits: Sequence[Hit], index: Index, *, filters: Filters = ALL) -> list[Reading]:
    """Return a Reading for each of the best MOST_DOCUMENTS documents among the hits. Raises WrongTokenizer.

    filters: what the question names, whose words are asked of no cell.
    """
    records, stems = select_records(question, hits, index), Stems(index.manifest.tokenizer)
    documents = compare_documents(hits, is_named=bool(filters.documents))
    spoken_names = [match.said for match in filters.matches]
    readings: list[Reading] = []
    for document in list(documents)[:MOST_DOCUMENTS]:
        own = [hit for hit in hits if hit.chunk.document == document]
        page = Page(own, records, stems, documents=filters.documents, standing=documents[document])
        asked = Question(question, stems, spoken_names)
        readings.append(Reading(page, asked, describe_cells(page, asked)))
    return readings


def read_answer(readings: Sequence[Reading], names: Mapping[str, str], *, reader: Reader | None = None) -> Draft | None:
    """Return the likeliest answer of the cells and sentences that were found, with its confidence.

    names: of documents, by digest. Each document is read by itself, and another document that answers otherwise makes
    the answer less sure. None where a whole sentence answers better, or nothing does. It abstains, and shows the cells,
    where the likeliest answer makes no sense: of two currencies, or a balance as a share of a flow.
    """
    fitted = reader or load_reader()
    choices = [(choice, reading) for reading in readings if (choice := choose(fitted, *reading))]
    if not choices:
        return None
    # one document holds the answer: the odds of each compete, but equal answers support each other
    odds = [choice.confidence / (1.0001 - choice.confidence) for choice, _ in choices]
    best = max(range(len(choices)), key=lambda at: odds[at])
    choice, reading = choices[best]
    candidate = choice.candidate
    if candidate.operation == "span":
        return None
    key = answer_key(candidate)
    against = [odds[at] for at, (other, _) in enumerate(choices) if answer_key(other.candidate) != key]
    confidence = odds[best] / (1 + odds[best] + sum(against)) if against else choice.confidence
    language = language_of(reading.question.text)
    years = reading.question.years
    draft = write_answer(reading.page, candidate, language, names, several=len(readings) > 1, years=years)
    return draft and draft._replace(confidence=round(confidence, 4))


def is_of_labels(draft: Draft) -> bool:
    """Return whether an answer of the reader is the words of a cell or of labels, and no number."""
    return draft.value is None and draft.operation in ("value", "labels", "argmax", "argmin")


class ShownCell(NamedTuple):
    """A cell that a model may calculate with."""

    id: str
    """`c1`, `c2` …"""
    text: str
    """Name and value of the cell: `Revenue, 2019: USD 735 million`."""
    reading: Reading
    at: int
    """Index of the cell in its page."""


def show_cells(
    readings: Sequence[Reading], names: Mapping[str, str], *, reader: Reader | None = None
) -> list[ShownCell]:
    """Return the cells with a number that fit the question best, at most MOST_SHOWN, those of the best fit first."""
    fitted = reader or load_reader()
    scored: list[tuple[float, Reading, int]] = []
    for reading in readings:
        scores = fitted.score_cells(reading.features)
        scored += [(float(scores[at]), reading, at) for at, cell in enumerate(reading.page.cells) if cell.amount]
    scored.sort(key=lambda entry: -entry[0])
    shown: list[ShownCell] = []
    for number, (_, reading, at) in enumerate(scored[:MOST_SHOWN], 1):
        answer = _Answer(reading.page, Candidate("value", (at,)), "en", names, len(readings) > 1)
        shown.append(ShownCell(f"c{number}", answer.list_cells()[0].removesuffix(" [1]"), reading, at))
    return shown


class Calculation(Record):
    """Operation over cells of the prompt, as a model asks for it in JSON."""

    operation: Literal["value", "list", "difference", "growth", "share", "ratio", "product", "sum", "average"]
    cells: tuple[str, ...] = Field(min_length=1, max_length=MOST_OPERANDS)


def work_out_reply(text: str, shown: Sequence[ShownCell], names: Mapping[str, str]) -> Draft | None:
    """Return what a model's JSON asks to be worked out over the cells that it was shown, with their citations.

    names: of documents, by digest. None where it is no such JSON, names a cell that it was not shown, cells of several
    documents, too few or too many of them, or none with a word or a year of the question, and where it divides by 0.
    """
    try:  # models write words or a fence around their JSON
        reply = Calculation.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
    except ValidationError:
        return None
    by_id = {cell.id: cell for cell in shown}
    chosen = [by_id[name] for name in reply.cells if name in by_id]
    pair, single = reply.operation in PAIRED, reply.operation == "value"
    wanted = 2 if pair else 1 if single else max(2, len(reply.cells))
    if len(chosen) != wanted or len(chosen) != len(reply.cells) or len({id(cell.reading) for cell in chosen}) > 1:
        return None
    page, question, _ = chosen[0].reading
    words = frozenset[object]().union(*(page.cells[cell.at].words | page.cells[cell.at].years for cell in chosen))
    if words.isdisjoint(question.bag.union(question.years)):
        return None
    cells = tuple(cell.at for cell in chosen)
    candidate = Candidate(reply.operation, cells, tuple(page.cells[at].text for at in cells))
    language = language_of(question.text)
    if reply.operation in WORKED:
        try:
            number = _Answer(page, candidate, language, names, several=False).work_out()
        except (ZeroDivisionError, DecimalException):
            return None
        candidate = candidate._replace(texts=(), number=number)
    draft = write_answer(page, candidate, language, names, years=question.years)
    return draft and draft._replace(reason=f"a model chose the cells: {reply.operation}")


def select_records(question: str, hits: Sequence[Hit], index: Index) -> list[dict[str, Any]]:
    """Return the cells of the tables that hits are of, and of the statements that hold the lines that are asked."""
    tables = [(hit.chunk.document, hit.chunk.table) for hit in hits if hit.chunk.table is not None]
    documents = list(dict.fromkeys(hit.chunk.document for hit in hits))[:MOST_DOCUMENTS]
    asked = [mention.concept for mention in mentions(question)]
    formulas = [parse(concept.formula) for concept in asked if concept.formula]
    asked += [line.concept for formula in formulas for line in lines_of(formula) if line.concept]
    statements = [statement for statement in PRIMARY if any(concept.statement == statement for concept in asked)]
    tables += select_statements(index.numbers, documents, statements)
    return select_cells(index.numbers, list(dict.fromkeys(tables)))


def write_answer(
    page: Page,
    candidate: Candidate,
    language: Language,
    names: Mapping[str, str],
    *,
    several: bool = False,
    years: Sequence[int] = (),
) -> Draft | None:
    """Return a candidate as an answer with its cells, abstaining if it is nonsense; None if they give another number.

    names: of documents, by digest. several: whether several documents could be meant, so that they are named.
    years: those that the question names; cells of other years alone do not answer.
    """
    answer = _Answer(page, candidate, language, names, several)
    if candidate.operation in WORKED and not answer.adds_up():
        return None
    if refusal := find_nonsense(page, candidate, years):
        kind, values = refusal
        text = f"{REFUSALS[language][kind].format(*values)} {'; '.join(answer.list_cells())}"
        reason = REFUSALS["en"][kind].format(*values).removeprefix("Not worked out: ")
        return Draft(text, answer.citations(), abstained=True, reason=reason)
    return Draft(
        answer.sentence(),
        answer.citations(),
        reason=f"read from the tables and sentences that were found: {candidate.operation}",
        short=Short(values=answer.short(), scale=scale_of(page, candidate)),
        value=answer.value(),
        operation=candidate.operation,
    )


# ---- what makes no sense


def find_nonsense(page: Page, candidate: Candidate, years: Sequence[int] = ()) -> tuple[str, tuple[str, ...]] | None:
    """Return why an operation makes no sense, a key of REFUSALS, and what the message names; None if it makes sense.

    years: those that the question names.
    """
    operation, number = candidate.operation, candidate.number
    cells = [page.cells[at] for at in candidate.cells]
    of_cells = [cell.years for cell in cells]
    # of one year a table may say another name: of a fiscal year, of a season
    if len(years) > 1 and all(of_cells) and of_cells and frozenset[int]().union(*of_cells).isdisjoint(years):
        there = sorted(frozenset[int]().union(*of_cells))
        return "years", (", ".join(map(str, years)), ", ".join(map(str, there)))
    amounts = [cell.amount for cell in cells if cell.amount]
    if operation not in (*WORKED, "yesno") or len(amounts) < 2:
        return None
    units = list(dict.fromkeys(amount.unit for amount in amounts if amount.unit))
    currencies = [unit for unit in units if unit in CURRENCIES.values()]
    if len(currencies) > 1:
        return "currencies", (", ".join(currencies),)
    # an amount without a unit beside a percentage may be a percentage whose sign stands elsewhere
    if operation != "product" and "%" in units and len(units) > 1:
        return "percentage", ()
    if operation in ("share", "growth") and len(units) > 1:
        return "units", (", ".join(units),)
    if number is None:
        return None
    if operation == "growth" and (amounts[0].printed < 0) != (amounts[1].printed < 0) and amounts[0].printed:
        return "sign", (write_digits(amounts[0].printed), write_digits(amounts[1].printed))
    if operation != "share":
        return None
    statements = {cell.record.get("statement") for cell in cells}
    percent = write_digits(_round(number, places=2))
    of_flows = statements & {"income", "cash_flow"}
    if "balance" in statements and of_flows and abs(number) >= LARGEST_OF_KINDS:
        return "kinds", (percent,)
    if not 0 <= number <= 100 and not _is_printed(page, number):
        return "share", (percent,)
    return None


def _is_printed(page: Page, percent: Decimal) -> bool:
    """Return whether a cell of a page prints a percentage, once this is rounded to the decimals of the cell."""
    return any(
        cell.amount.printed == _round(percent, places=_places(cell.amount.printed))
        for cell in page.cells
        if cell.amount and cell.amount.unit == "%"
    )


# ---- what is written


class _Answer:
    """A candidate with what its texts are made of."""

    def __init__(
        self, page: Page, candidate: Candidate, language: Language, names: Mapping[str, str], several: bool
    ) -> None:
        self.page, self.candidate, self.names, self.several = page, candidate, names, several
        self.language: Language = language
        self.operation = candidate.operation
        self.cells = [page.cells[at] for at in dict.fromkeys((*candidate.cells, *candidate.evidence))]
        self.amounts = [page.cells[at].amount or Amount(Decimal(0), Decimal(1), "") for at in candidate.cells]

    def operands(self) -> list[Decimal]:
        """Return the values of the cells in the scale of the first one; percentages as they are printed."""
        factor = self.factor()
        return [
            each.printed if each.factor == factor or each.unit == "%" else each.printed * each.factor / factor
            for each in self.amounts
        ]

    def factor(self) -> Decimal:
        """Return the factor of the answer's number: that of the first amount that is no percentage."""
        return next((amount.factor for amount in self.amounts if amount.unit != "%"), Decimal(1))

    def adds_up(self) -> bool:
        """Return whether the cells give the number; a long line is cut to its first cells."""
        number = self.candidate.number
        return number is not None and abs(self.work_out() - number) <= abs(number) * Decimal("1e-9")

    def work_out(self) -> Decimal:
        """Return the operation over the cells' values; growth and shares in per cent. Raises DecimalException."""
        values = self.operands()
        first, second = values[0], values[-1]
        match self.operation:
            case "difference":
                return first - second
            case "growth":
                return (first - second) / second * 100
            case "share":
                return first / second * 100
            case "ratio":
                return first / second
            case "product":
                return first * second / (100 if any(amount.unit == "%" for amount in self.amounts) else 1)
            case "average":
                return sum(values, Decimal(0)) / len(values)
            case _:
                return sum(values, Decimal(0))

    def unit(self) -> str:
        """Return the unit of the answer's number: `USD`, `%`, `USD per share`; empty for a number without one."""
        units = [amount.unit for amount in self.amounts]
        if self.operation in IN_PERCENT:
            return "%"
        if self.operation == "ratio":
            return f"{units[0]} per {units[1].removesuffix('s')}" if units[0] != units[1] and all(units) else ""
        if self.operation in PLAIN or not units:
            return ""
        if self.operation == "product":
            return next((unit for unit in units if unit not in ("", "%")), "")
        return next(filter(None, units), "")

    def scale(self) -> str:
        """Return the word of the number's scale, or none."""
        if self.operation in (*PLAIN, *IN_PERCENT) or self.unit() == "%":
            return ""
        return SCALES.get(self.factor(), MYRIADS.get(self.factor(), ""))

    def value(self) -> Value | None:
        """Return the number that answers, exact and as shown, with unit and scale; None if it is no single number."""
        number = self.number()
        if number is None:
            return None
        plain = self.operation in (*PLAIN, *IN_PERCENT) or self.unit() == "%"
        with localcontext(prec=SIGNIFICANT):
            exact = +(number if plain else number * self.factor())
        return Value(exact=_plain(exact), unit=self.unit(), scale=self.scale(), display=self.display())

    def number(self) -> Decimal | None:
        """Return the number of the answer in the scale of its first cell; None of one that is a text."""
        if self.candidate.number is not None:
            return self.candidate.number
        if self.operation in ("value", "max", "min") and self.cells[0].amount:
            return self.cells[0].amount.printed
        return None

    def display(self) -> str:
        """Return the number with the digits of its source; a quotient with at least three significant ones."""
        number = self.number() or Decimal(0)
        if self.operation not in WORKED:
            return write_digits(number, self.cells[0].text if self.cells else "")
        places = max((_places(amount.printed) for amount in self.amounts), default=0)
        if self.operation in ("difference", "sum"):
            return f"{number.quantize(Decimal(1).scaleb(-max(places, _places(number))), context=LONG):,f}"
        if places or number != number.to_integral_value():
            places = max(2, places if self.operation == "average" else 0)
        return f"{_round(number, places=places):,f}"

    def short(self) -> tuple[str, ...]:
        """Return the values as a person writes them into a form; in whole units where no word names their scale."""
        if self.candidate.number is not None and self.scale() in MYRIADS.values() and self.operation in WORKED:
            return (_plain(self.candidate.number * self.factor()),)
        return short_texts(self.candidate)

    def amount_text(self) -> str:
        """Return the number with unit and scale as a sentence writes it."""
        if self.operation == "difference" and self.unit() == "%":
            return f"{self.display()}{POINTS[self.language]}"
        return write_amount(self.display(), self.unit(), self.scale(), self.language)

    def sentence(self) -> str:
        """Return the answer with its marks `[1]`: cells by row, column and period, and a result; labels stand alone."""
        titles, cells = TITLES[self.language], self.list_cells()
        match self.operation:
            case "value" | "list" | "max" | "min":
                return "; ".join(cells)
            case "argmax" | "argmin":
                return f"{disarm_marks(self.candidate.texts[0])} ({titles[self.operation]}): {'; '.join(cells)}"
            case "labels":
                marks = "".join(f" [{n}]" for n in range(1, len(self.citations()) + 1))
                return f"{disarm_marks('; '.join(self.candidate.texts))}{marks}"
            case "yesno":
                return f"{titles[self.candidate.texts[0]]}: {'; '.join(cells)}"
            case "count":
                return f"{titles['count']}: {self.display()} ({'; '.join(cells)})"
            case _:
                return f"{'; '.join(cells)}. {titles[self.operation]} = {self.working()} = {self.amount_text()}"

    def working(self) -> str:
        """Return the working over the printed numbers: `(735 − 687) / 687`."""
        texts = [self.page.cells[at].text for at in self.candidate.cells]
        values = [write_digits(value, text) for value, text in zip(self.operands(), texts, strict=True)]
        if self.operation == "product":
            values = [
                f"{value}{'%' * (amount.unit == '%')}" for value, amount in zip(values, self.amounts, strict=True)
            ]
        values = [f"({value})" if value.startswith("-") else value for value in values]
        if self.operation in WORKINGS:
            return WORKINGS[self.operation].format(*values)
        total = " + ".join(values)
        return f"({total}) / {len(values)}" if self.operation == "average" else total

    def list_cells(self) -> list[str]:
        """Return a text for each cell, `name: value [1]`, or the sentence that holds its value, with its mark."""
        marks = {citation.cell or citation.quote: citation.n for citation in self.citations()}
        texts: list[str] = []
        for cell in self.cells:
            place = marks[self._cite(1, cell).cell or self._cite(1, cell).quote]
            if cell.column < 0 and self.operation not in WORKED:
                text = self._quote(cell, MOST_SENTENCE_CHARS)
                stop = "." * text.endswith(".")
                texts.append(f"{text.removesuffix('.')} [{place}]{stop}")
                continue
            text = disarm_marks(cell.text)
            if cell.amount:
                scale = SCALES.get(cell.amount.factor, MYRIADS.get(cell.amount.factor, ""))
                digits = write_digits(cell.amount.printed, cell.text)
                text = write_amount(digits, cell.amount.unit, "" if cell.amount.unit == "%" else scale, self.language)
            texts.append(f"{self.name_cell(cell)}: {text} [{place}]" if not cell.is_label else f"{text} [{place}]")
        return list(dict.fromkeys(texts))

    def name_cell(self, cell: Cell) -> str:
        """Return row path, column and period of a cell, and its document where several could be meant."""
        if cell.column < 0:
            return f"“{self._quote(cell, MOST_NAME_CHARS)}”"
        row, column = self.page.rows[cell.row], self.page.columns[cell.column]
        path = " › ".join(filter(None, (part.strip(" :") for part in row.path[-MOST_LEVELS:])))
        heads = " / ".join(dict.fromkeys(filter(None, (head.strip(" :") for head in column.heads))))
        period = cell.record.get("period") or {}
        label = "" if years_of(f"{path} {heads}") else period.get("label", "")
        document = stem_of(self.names[cell.record["document"]]) if self.several else ""
        name = ", ".join(filter(None, (path, heads, label)))
        return disarm_marks(f"{name} ({document})" if document else name)

    def _quote(self, cell: Cell, most: int) -> str:
        """Return the sentence of a value; of a long one the part around the value."""
        text = " ".join(self.page.sentences[cell.row].text.split())
        at = max(0, text.find(cell.text))
        if len(text) > most:
            start = 0 if at + len(cell.text) < most else text.find(" ", max(0, at - most // 2)) + 1
            part = text[start : start + most].rpartition(" ")[0] if start + most < len(text) else text[start:]
            text = f"{'…' * (start > 0)}{part}{'…' * (start + len(part) < len(text))}"
        return disarm_marks(text)

    def citations(self) -> tuple[Citation, ...]:
        """Return a citation for each cell of a table, and one for each sentence; none of an answer without cells."""
        cited: dict[str, Citation] = {}
        for cell in self.cells:
            citation = self._cite(len(cited) + 1, cell)
            cited.setdefault(citation.cell or citation.quote, citation)
        return tuple(cited.values())

    def _cite(self, n: int, cell: Cell) -> Citation:
        """Return citation `n` of a cell, quoting its sentence, or its row's path and column's header with its text."""
        if cell.column < 0:
            sentence = self.page.sentences[cell.row]
            hit = self.page.hits[sentence.hit]
            chunk = hit.chunk
            place = Place(section=chunk.section, block=chunk.block, heading_path=chunk.heading_path, cells=chunk.cells)
            return Citation(
                n=n, document=hit.document_name, digest=chunk.document, page=chunk.page, page_source=hit.page_source,
                bbox=chunk.bbox, quote=sentence.text, chunk_id=chunk.id, place=place,
            )  # fmt: skip
        record, column = cell.record, self.page.columns[cell.column]
        header = " ".join(column.heads) or (record["period"] or {}).get("label", "")
        digest = record["document"]
        name = name_of_cell(digest, table=record["table"], row=record["row"], col=record["col"])
        path = " › ".join(record["row_path"] or ())
        return Citation(
            n=n, document=self.names[digest], digest=digest, page=record["page"], bbox=record["bbox"], cell=name,
            quote="; ".join(filter(None, (path, f"{header}: {cell.text}" if header else cell.text))),
            place=Place(cells=record["cells"]),
        )  # fmt: skip


MYRIADS = {Decimal(10) ** 12: "조", Decimal(10) ** 8: "억", Decimal(10) ** 4: "만"}
"""Korean scales, which only Korean documents write."""


def write_digits(number: Decimal, source: str = "") -> str:
    """Return a number with the digits of its source where that is spelt as English does, else with thousands parted."""
    match = _DIGITS.search(source)
    digits = match[0] if match else ""
    sign = "-" if number < 0 else ""
    if re.fullmatch(r"\d[\d,]*(?:\.\d+)?", digits) and Decimal(digits.replace(",", "")) == abs(number):
        return sign + digits
    text = f"{abs(number):,f}"
    return sign + (text.rstrip("0").rstrip(".") if "." in text else text)


def _places(number: Decimal) -> int:
    """Return how many decimals a number has."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _round(number: Decimal, *, places: int) -> Decimal:
    """Return a number with so many decimals, and at least three significant digits."""
    if number and number != number.to_integral_value():
        places = max(places, 2 - number.adjusted())
    return number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, LONG)


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
