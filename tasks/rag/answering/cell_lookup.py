"""The answer to a question for one figure that a table shows, in whatever words it is asked for."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from models.embedders import reads_script
from models.protocols import Embedder
from storage.index import Index
from tasks.language.numbers import CALENDAR, read_numbers
from tasks.language.sentences import Language, language_of
from tasks.language.tokens import BIGRAM
from tasks.rag.answering.passages import Passage, read_passages
from tasks.rag.answering.question_reading import line_question, phrase_question, read_cell_question, read_year_question
from tasks.rag.answers import Draft, RetrievalPlan
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.numbers.cell_search import (
    FREE,
    CellMatch,
    CellQuestion,
    CellScorer,
    Context,
    Match,
    search_cells,
    select_period,
    telling,
)
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.evaluation import Describe
from tasks.rag.numbers.identities import describe_in_answer
from tasks.rag.numbers.line_lookup import AMOUNTS, NIL, UNDATED, Number, number_of
from tasks.rag.numbers.periods import When, find_period
from tasks.rag.numbers.working_out import INPUT_SCALES, KOREAN_UNITS, cite_number
from tasks.rag.planning.names import stem_of
from tasks.rag.planning.plan import QUALIFIER_FIELDS
from tasks.rag.retrieval.search import Hit, read_chunk

NAMED = 0.5
"""Confidence from which a question names a document."""
MOST_DOCUMENTS = 6
MOST_LEAD_LINES = 3
"""Lines of a table's passage that may lead to it."""


def looked_up(
    question: str, plan: RetrievalPlan, hits: Sequence[Hit], index: Index, *, embedder: Callable[[], Embedder]
) -> Draft | None:
    """The figure that the question asks for; None where it asks for something else, or no cell is sure enough.

    Raises WrongTokenizer.
    """
    tokenizer = index.manifest.tokenizer or BIGRAM
    if of_years := year_of_figure(question, plan, hits, index):
        return of_years
    asked = read_cell_question(question, tokenizer=tokenizer, said=said_in(plan))
    if asked is None:
        return None
    found, named = _searched(asked, question, plan, hits, index, embedder)
    return answer_of(found, asked, named=named, language=language_of(question)) if found else None


def describing(plan: RetrievalPlan, hits: Sequence[Hit], index: Index, *, embedder: Callable[[], Embedder]) -> Describe:
    """What finds the cell that some words mean in a period; with None where it is less sure than an answer must be."""
    tokenizer = index.manifest.tokenizer or BIGRAM

    def describe(said: str, when: When) -> tuple[Number, float] | None:
        asked = line_question(said, when, tokenizer=tokenizer)
        if asked is None:
            return None
        found, named = _searched(asked, said, plan, hits, index, embedder)
        if found is None or found.best.unheld:
            return None
        sure = confidence_of(found, named=named)
        return (found.best.number, sure) if sure >= LEAST else None

    return describe


def _searched(
    asked: CellQuestion,
    said: str,
    plan: RetrievalPlan,
    hits: Sequence[Hit],
    index: Index,
    embedder: Callable[[], Embedder],
) -> tuple[CellMatch | None, bool]:
    """The cell that fits best, and whether the question names its document. said: the words that are asked with."""
    among = _among(plan, hits, index)
    found = search_cells(
        asked,
        among.numbers,
        tokenizer=index.manifest.tokenizer or BIGRAM,
        documents=among.documents if among.named else (),
        context=_Around(index, among.documents, hits).of,
        embed=(lambda texts: embedder().embed(texts)) if reads_script(index.manifest.embedder, said) else None,
    )
    return found, among.named


def year_of_figure(question: str, plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> Draft | None:
    """The year in which a line is largest, or smallest: `FY2018: Sensors = $918 million [1] (FY2019 914 [2], …)`.

    None where the question asks for no year, or no line of several years holds enough of it.
    """
    tokenizer = index.manifest.tokenizer or BIGRAM
    read = read_year_question(question, tokenizer=tokenizer, said=said_in(plan))
    if read is None:
        return None
    figure, most = read
    among = _among(plan, hits, index)
    dated = [one for one in among.numbers if one.period.year and one.shown not in NIL]
    scorer, around = CellScorer(figure, dated, tokenizer), _Around(index, among.documents, hits, titled=not among.named)
    best = max((scorer.match(one, around.of(one), 1.0) for one in dated), key=lambda one: one.score, default=None)
    line = lambda one: (one.document, one.table, one.row_path, telling(one.column_path))  # noqa: E731
    years = {one.period.year: one for one in dated if best and line(one) == line(best.number)}
    confidence = best.question_share * (OF_YEARS if among.named else OF_YEARS_UNNAMED) if best else 0.0
    if len(years) < 2 or confidence < LEAST:
        return None
    first, *others = sorted(years.values(), key=lambda one: one.value, reverse=most)[:MOST_YEARS]
    told = [f"FY{one.period.year} {one.shown.lstrip('$€£¥₩ ')} [{n}]" for n, one in enumerate(others, 2)]
    head = f"FY{first.period.year}: {figure.core} = {format_as_in_table(first, language_of(question))} [1]"
    return Draft(
        f"{head} ({', '.join(told)})",
        tuple(cite_number(n, one) for n, one in enumerate((first, *others), 1)),
        reason=f"the years of a line that holds {best.question_share:.0%} of the question" if best else None,
        confidence=round(confidence, 4),
    )


class Cells:
    """The cells that a question may mean, scored against any words of it."""

    def __init__(self, question: str, plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> None:
        self._tokenizer = index.manifest.tokenizer or BIGRAM
        among = _among(plan, hits, index)
        told = told_numbers(hits, question, among.numbers)
        self.numbers = [*among.numbers, *(one for one in told if one.document in among.documents)]
        self.named = among.named
        self._around = _Around(index, among.documents, hits, titled=not among.named)
        self._found: dict[tuple[str, str, When | None], list[Match]] = {}

    def matches(self, words: str, beside: str, asked: str, when: When | None) -> list[Match]:
        """Those that the words fit, best first. beside, when: see `phrase_question`. Raises WrongTokenizer."""
        key = (words, beside, when)
        if key not in self._found:
            question = phrase_question(words, beside, asked, when, tokenizer=self._tokenizer)
            if question is None:
                return self._found.setdefault(key, [])
            dated = select_period(question, [one for one in self.numbers if one.shown not in NIL])
            scorer = CellScorer(question, [number for number, _ in dated], self._tokenizer)
            matches = (scorer.match(number, self._around.of(number), share) for number, share in dated)
            self._found[key] = sorted((one for one in matches if one.score), key=lambda one: -one.score)
        return self._found[key]


class _Among(NamedTuple):
    """The numbers that a question may mean."""

    numbers: list[Number]
    documents: list[str]
    named: bool


def said_in(plan: RetrievalPlan) -> list[str]:
    """What a question calls the documents that it names."""
    return [match.said for match in plan.filters.matches if match.field not in QUALIFIER_FIELDS]


def _among(plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> _Among:
    """Those of the documents that the question names, else those of the pages that were found."""
    from storage.numbers import select_numbers

    names, filters = index.names, plan.filters
    named = any(one.field not in QUALIFIER_FIELDS and one.confidence >= NAMED for one in filters.matches)
    named = (named or filters.mode == "only") and bool(filters.documents)
    among = (*filters.favoured, *filters.documents) if named else (hit.chunk.document for hit in hits)
    documents = [one for one in dict.fromkeys(among) if one in names][: MOST_DOCUMENTS if named else None]
    rows = select_numbers(index.numbers, {document: names[document] for document in documents}).records()
    numbers = [number_of(row) for row in rows]
    if not named:
        pages = {(hit.chunk.document, hit.chunk.page) for hit in hits}
        numbers = [one for one in numbers if (one.document, one.page) in pages]
    return _Among(numbers, documents, named)


class _Around:
    """What documents say around their cells: headings and lead lines of the passage that shows the table."""

    def __init__(self, index: Index, documents: Sequence[str], hits: Sequence[Hit], *, titled: bool = False) -> None:
        """titled: whether what documents are called stands around their cells too: the question does not name them."""
        entries = [entry for document in documents if titled and (entry := index.entry(document))]
        self._titles = {entry.document: f"{stem_of(entry.name)} {entry.title or ''}" for entry in entries}
        self._rank: dict[tuple[str, int | None], int] = {}
        for at, hit in enumerate(hits):
            self._rank.setdefault((hit.chunk.document, hit.chunk.page), at)
        self._tables: dict[tuple[str, int | None], list[Chunk]] = defaultdict(list)
        for row in index.rows_of(documents).nonzero()[0] if documents else ():
            chunk = read_chunk(index, int(row))
            if chunk.kind == "table":
                self._tables[chunk.document, chunk.page].append(chunk)

    def of(self, number: Number) -> Context:
        key = (number.document, number.page)
        rank = self._rank.get(key) if number.page is not None else None
        title = self._titles.get(number.document, "")
        shown = next((chunk for chunk in self._tables[key] if _shows(chunk, number)), None)
        lines = [line for line in shown.text.splitlines()[:MOST_LEAD_LINES] if "|" not in line] if shown else []
        lead = " ".join((*shown.heading_path[-2:], *lines)) if shown else ""
        return Context(f"{title} {lead}".strip(), rank)


def _shows(chunk: Chunk, number: Number) -> bool:
    if chunk.bbox and number.bbox:
        x, y = (number.bbox[0] + number.bbox[2]) / 2, (number.bbox[1] + number.bbox[3]) / 2
        return chunk.bbox[0] <= x <= chunk.bbox[2] and chunk.bbox[1] <= y <= chunk.bbox[3]
    return number.shown in chunk.text and all(label in chunk.text for label in number.row_path[-1:])


SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "KRW": "₩"}
COUNTS: Mapping[str, str] = {"people": " people", "shares": " shares", "years": " years", "days": " days"}
LEAST = 0.55
"""Confidence below which there is no answer."""
OF_YEARS, OF_YEARS_UNNAMED = 0.9, 0.75
"""How sure a year is of whose line all is said; in a document that the question does not name."""
MOST_YEARS = 8
MOST_MARGIN = 0.2
"""A cell that is further ahead of the next is no surer."""


def answer_of(found: CellMatch, question: CellQuestion, *, named: bool, language: Language) -> Draft | None:
    """`Loss on sale of stores FY2018 = $36 million [1]`; None where the cell is too unsure.

    named: the question names the document.
    """
    confidence = confidence_of(found, named=named)
    if confidence < LEAST:
        return None
    number = found.best.number
    # the label of the row, with the headings that the question names, and the column if it is of a part
    *heads, label = number.row_path or ("",)
    asked = set(words_of(question.core)) - FREE
    bare = not set(words_of(label)) - FREE
    told = [head for head in heads if asked & set(words_of(head))] or (heads[-1:] if bare else [])
    row = " › ".join(part.strip(" :") for part in (*told, label))
    column = " ".join(number.column_path) if telling(number.column_path) else ""
    head = " ".join(filter(None, (" — ".join(filter(None, (row, column))), number.period.label)))
    lacks = f", without {', '.join(word.text for word in found.best.unheld)}" if found.best.unheld else ""
    doubt = f"\n{describe_in_answer(1, number.broken, number.scale, language)}" if number.broken else ""
    return Draft(
        f"{head} = {format_as_in_table(number, language)} [1]{doubt}",
        (cite_number(1, number),),
        reason=f"the cell of a table whose labels hold {found.best.question_share:.0%} of the question{lacks}",
        confidence=round(confidence, 4),
    )


def confidence_of(found: CellMatch, *, named: bool) -> float:
    """How likely the cell is the one that is meant, 0 … 1.

    Logistic regression on 72 questions over filings, reports and notices, 22 of them without an answer.
    """
    best = found.best
    sign = 1.9 * best.score + 10.3 * min(found.margin, MOST_MARGIN) + 1.5 * named + 0.5 * best.certainty - 3.2
    sign -= 1.2 * bool(best.unheld) + 0.5 * any(word.focus for word in best.unheld)
    return 1 / (1 + math.exp(-sign))


def format_as_in_table(number: Number, language: Language) -> str:
    """The figure as the table shows it, with scale and unit: `$3,136 million`, `60,540백만원`, `2,310`."""
    digits = re.sub(r"[^\d.,/]", "", number.shown) if re.search(r"\d", number.shown) else number.shown
    minus = "-" if number.value < 0 and number.statement != "cash_flow" else ""
    scale = INPUT_SCALES[language].get(Decimal(number.scale), "")
    if language == "ko":
        return f"{minus}{digits}{scale}{KOREAN_UNITS.get(number.unit, number.unit)}"
    if number.unit in AMOUNTS:
        return f"{minus}{SIGNS.get(number.unit, f'{number.unit} ')}{digits}{scale}"
    return f"{minus}{digits}{scale}{COUNTS.get(number.unit, number.unit)}"


MOST_CHARS = 400
"""A longer passage states too much for its numbers to be told apart."""
DIGITS = re.compile(r"\d[\d,.]*")
RANGE = re.compile(r"\d\s?[~∼–-]\s?\d")
BARE = re.compile(r"\d|10|(?:19|20)\d\d|.*[A-Za-z]")
"""Marks of lists and years, where nothing stands behind that is counted."""
WORD = re.compile(r"[^\W\d_]{2,}")


def told_numbers(hits: Sequence[Hit], question: str, cells: Sequence[Number]) -> list[Number]:
    """Those of the sentences and rows that were found, in their order; the table of each is a number below 0.

    What the question says itself is none, nor the ends of a range, nor in a row of a table what is a cell of its page.
    """
    said = set(DIGITS.findall(question))
    known = {(one.document, one.page, one.value) for one in cells}
    passages = (one for one in read_passages(hits) if not one.is_list and len(one.text) <= MOST_CHARS)
    return [
        number
        for at, one in enumerate(passages)
        for number in _numbers(one, hits[one.hit], table=-1 - one.hit, row=at)
        if not said.intersection(DIGITS.findall(number.shown))
        and not (one.is_row and (number.document, number.page, number.value) in known)
    ]


def _numbers(passage: Passage, hit: Hit, *, table: int, row: int) -> Iterator[Number]:
    text = passage.text
    found = [one for one in read_numbers(text) if one.unit not in (*CALENDAR, "year")]
    found = [one for one in found if one.unit or not BARE.fullmatch(one.text.strip("() "))]
    within = [match.span() for match in RANGE.finditer(text)]
    found = [one for one in found if not any(one.start < end and start < one.end for start, end in within)]
    ends = [0, *(one.end for one in found)]
    starts = [*(one.start for one in found[1:]), len(text)]
    period = find_period(text) or UNDATED
    for col, number in enumerate(found):
        before, after = text[ends[col] : number.start], text[number.end : starts[col]]
        label = before if WORD.search(before) else after
        path = (*hit.chunk.heading_path[-1:], text, " ".join(label.split()))
        yield Number(
            name=hit.document_name,
            document=hit.chunk.document,
            value=number.value,
            shown=number.text,
            scale=Decimal(1),
            unit=number.unit,
            period=period,
            row_path=path,
            column_path=(),
            page=hit.chunk.page,
            bbox=hit.chunk.bbox,
            table=table,
            row=row,
            col=col,
            statement="other",
            broken=None,
        )
