"""Answers questions that ask for arithmetic over the tables of the documents that they name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from storage.index import Index
from tasks.language.sentences import language_of
from tasks.rag.answers import Draft, RetrievalPlan
from tasks.rag.numbers.computation_reading import asks_to_work_out, read_computation, writes_formula
from tasks.rag.numbers.computations import operation
from tasks.rag.numbers.concepts import NEARLY, concepts, label_of, mentions, score_concepts, words_of
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.line_lookup import UNDATED, Lines, Number, select_numbers
from tasks.rag.numbers.operands import PERCENT, TIMES, list_readings
from tasks.rag.numbers.periods import Part, When, write_years_out
from tasks.rag.numbers.working_out import work_out
from tasks.rag.planning.names import stem_of
from tasks.rag.planning.plan import QUALIFIER_FIELDS
from tasks.rag.retrieval.search import Hit

NAME_CONFIDENCE = 0.5
"""Confidence from which a question names a document; one with a less sure name may be about another document."""
SEVERAL_ENTITIES = 0.8
"""Factor of the confidence where the documents are of several entities."""
FIRST, LEAST_OF_FIRST = 5, 3
"""Passages of which LEAST_OF_FIRST must be of one document for it to be used where the question names none."""
MOST_RESTATING = 6
"""Most documents of one entity that are compared with each other."""
NEARLY_ALL = 0.85
"""Share of the fullest table's lines from which a table may be the statement; schedules that follow have more lines."""
LEAST_OF_USUAL = 0.3
"""Share of the numbers of a document's commonest period that a period needs to be one of the document's own."""
STATED = re.compile(
    r"\d\s?(?:%|per\s?cent|퍼센트|프로|배\b|basis points|times\b|x\b|to 1)"
    r"|(?<![$€£¥₩\d.,])\d{1,2}\.\d{1,2}(?!\s?(?:million|billion|thousand|억|조|만)|[\d,.])",
    re.IGNORECASE,
)
"""A share, a rate or a ratio that a document states itself."""
RATE_ASKED = re.compile(f"{PERCENT.pattern}|{TIMES.pattern}|\\b(?:ratio|rate|margin|yield)s?\\b", re.IGNORECASE)
"""Words of a question for a share, a rate or a ratio."""
NOT_WORKED = {
    "en": "This figure takes arithmetic that was not understood. Passages that may hold its inputs:",
    "ko": "계산이 필요한 질문이지만 계산식을 이해하지 못했습니다. 관련된 곳:",
}

NO_TERM = {
    "en": "{term} is no business year of the tables of {where}.",
    "ko": "{term}: {where}의 표에 없는 사업연도입니다.",
}


def compute_answer(question: str, plan: RetrievalPlan, index: Index, *, hits: Sequence[Hit] = ()) -> Draft | None:
    """Return the values that the question asks for; None where it asks for something else or names no document.

    It abstains where no value has all inputs, or no table the business term; a sentence may state the value then.
    """
    book = open_book(plan, index, hits)
    if book is None:
        return None
    question = write_years_out(question)
    if TERM.search(question):
        question = _with_years(question, book.numbers)
        if term := TERM.search(question):
            # A business term that no table names
            text = NO_TERM[language_of(question)].format(term=term[0], where=", ".join(book.among.values()))
            return Draft(text, abstained=True, reason="the documents do not have the period of the question")
    names = [match.said for match in plan.filters.matches if match.field not in QUALIFIER_FIELDS]
    computation = read_computation(
        question, spoken_names=names, names=tuple(book.among.values()), latest=book.latest, labels=lambda: book.labels
    )
    if computation is None:
        return None
    draft = work_out(
        computation,
        book.lines(),
        documents=tuple(book.among.values()),
        statements=book.statements(),
        numbers=lambda: book.numbers,
        years=lambda: book.years,
        single_documents=[book.lines(document) for document in book.of_one_entity],
    )
    if draft.confidence is None or book.one_entity:
        return draft
    return draft._replace(confidence=round(draft.confidence * SEVERAL_ENTITIES, 4))


class Book:
    """The numbers of the documents that a question names, read from the index as they are needed."""

    def __init__(self, index: Index, among: Mapping[str, str], *, one_entity: bool) -> None:
        """Make the book; among: the name of each document by its digest, those that fit best first."""
        self.among = among
        self.one_entity = one_entity
        self._index = index

    @property
    def of_one_entity(self) -> Sequence[str]:
        """The digests of the documents, where all of them are of one entity and few; else empty."""
        return tuple(self.among) if self.one_entity and len(self.among) <= MOST_RESTATING else ()

    def lines(self, *documents: str) -> Lines:
        """Return the lines of these documents, or of all."""
        among = documents or tuple(self.among)
        return Lines(among, lambda year: [n for n in self.numbers if n.period.year == year and n.document in among])

    def statements(self) -> Lines:
        """Return the lines of the primary statements: of each kind the first table with nearly all of its lines."""
        # segment tables and notes have rows of the same names: with the statement first 23 of 35 are right, 21 before
        concepts_of: dict[tuple[str, str], dict[tuple[str, int], set[str]]] = defaultdict(lambda: defaultdict(set))
        kinds = concepts()
        for number in filter(_is_in_statement, self.numbers):
            keys = {key for key, score in score_concepts(label_of(number.row_path)).items() if score >= NEARLY}
            of_kind = {key for key in keys if kinds[key].statement == number.statement}
            concepts_of[number.document, number.statement][number.document, number.table] |= of_kind
        primary: set[tuple[str, int]] = set()
        for tables in concepts_of.values():
            fullest = max(map(len, tables.values()))
            primary.add(min(table for table, keys in tables.items() if len(keys) >= NEARLY_ALL * fullest))
        stated = [number for number in self.numbers if (number.document, number.table) in primary]
        return Lines(tuple(self.among), lambda year: [number for number in stated if number.period.year == year])

    @property
    def numbers(self) -> Sequence[Number]:
        """Return all numbers of the documents."""
        return select_numbers(self._index.numbers, tuple(self.among.items()), ())

    @cached_property
    def labels(self) -> Mapping[str, int]:
        """Return the words of the labels of rows and columns, each with the number of labels that hold it."""
        labels = {label for number in self.numbers for label in (*number.row_path, *number.column_path)}
        return Counter(word for label in labels for word in frozenset(words_of(label)))

    @cached_property
    def years(self) -> tuple[int, ...]:
        """Return the fiscal years of the statements, rising."""
        return tuple(sorted({number.period.year for number in self.numbers if _is_in_statement(number)}))

    def latest(self) -> When | None:
        """Return the period that the first document is of: its last year or quarter; None without statements."""
        first = next(iter(self.among), None)
        periods = [number.period for number in self.numbers if number.document == first and _is_in_statement(number)]
        spans = Counter((each.end, each.months) for each in periods if each.kind == "duration" and each.end)
        usual = max(spans.values(), default=0)
        common = [span for span, count in spans.items() if count >= usual * LEAST_OF_USUAL]
        if common:
            end = max(end for end, _ in common)
            spanned = [months for day, months in common if day == end and months]
            year = next(each.year for each in periods if each.end == end)
            if max(spanned, default=12) > 9:  # interim reports span three, six or nine months
                return When(year)
            return When(end.year, Part(months=min(spanned), month_and_day=(end.month, end.day)))
        return When(max(each.year for each in periods)) if periods else None


def open_book(plan: RetrievalPlan, index: Index, hits: Sequence[Hit] = ()) -> Book | None:
    """Return the numbers of the documents that a question names, else of that of 3 of the first 5 hits; or None."""
    filters = plan.filters
    names = index.names
    confident = [match for match in filters.matches if match.confidence >= NAME_CONFIDENCE]
    is_named = any(match.field not in QUALIFIER_FIELDS for match in confident)
    if not (is_named or filters.mode == "only" or len(names) == 1):
        # two forms of one document count as one
        first = [hit.chunk.document for hit in hits[:FIRST] if hit.chunk.document in names]
        stems = Counter(stem_of(names[document]) for document in first).most_common(1)
        if not stems or stems[0][1] < LEAST_OF_FIRST:
            return None
        commonest = next(document for document in first if stem_of(names[document]) == stems[0][0])
        return Book(index, {commonest: names[commonest]}, one_entity=False)
    among = {document: names[document] for document in filters.documents or tuple(names) if document in names}
    entities = {match.value for match in confident if match.field == "issuer"}  # its reports restate each other
    return Book(index, among, one_entity=len(among) == 1 or len(entities) == 1)


def _is_in_statement(number: Number) -> bool:
    """Return whether a number is of a primary statement and has a period."""
    return number.period is not UNDATED and number.statement in ("income", "balance", "cash_flow")


def withhold_uncomputed(question: str, draft: Draft) -> Draft:
    """Return a draft of sentences; it abstains if the question asks for arithmetic whose result no sentence states."""
    if draft.abstained or not (asks_to_work_out(question) or list_readings(question, ())):
        return draft
    # a line may state the share or rate of what the question names, which needs no formula;
    # of an amount that is to be added up, no percentage is the answer
    concepts_named = [mention.concept for mention in mentions(question)]
    is_rate = RATE_ASKED.search(question) or operation(question) in ("growth", "cagr")
    if is_rate or any(concept.statement is None for concept in concepts_named):
        concept_keys = {concept.key for concept in concepts_named}
        lines = (line for line in draft.text.split("\n") if STATED.search(line))
        names_concept = [
            not concept_keys or bool(concept_keys & {mention.concept.key for mention in mentions(line)})
            for line in lines
        ]
        if any(names_concept) and not writes_formula(question):
            return draft
    text = f"{NOT_WORKED[language_of(question)]}\n{draft.text}"
    return draft._replace(text=text, abstained=True, reason="the question asks for arithmetic that was not understood")


def _with_years(question: str, numbers: Iterable[Number]) -> str:
    """Return the question with the year in place of a business term that a table dates: 제23기 → 2023년."""
    years: dict[str, int] = {}
    for number in numbers:
        for header in (*number.column_path, *number.row_path[-1:]):
            term_match = TERM.search(header)
            if term_match and number.period is not UNDATED:
                years.setdefault(term_match[1], number.period.year)

    def replace_term(term: re.Match[str]) -> str:
        year = years.get(term[1])
        return f"{year}년" if year else term[0]

    return TERM.sub(replace_term, question)
