"""Answers questions for one value that a table shows, in whatever words it is asked for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from storage.index import Index
from tasks.language.sentences import Language, language_of
from tasks.language.tokens import BIGRAM
from tasks.rag.answering.computing import NAME_CONFIDENCE
from tasks.rag.answering.question_reading import phrase_question, read_cell_question
from tasks.rag.answers import Draft, RetrievalPlan, write_amount
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.numbers.cell_search import (
    FREE,
    CellMatch,
    CellQuestion,
    Context,
    Match,
    column_words,
    compare_cells,
    rank_cells,
)
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.identities import describe_in_answer
from tasks.rag.numbers.line_lookup import Number, select_numbers
from tasks.rag.numbers.periods import When
from tasks.rag.numbers.working_out import cite_number
from tasks.rag.planning.names import stem_of
from tasks.rag.planning.plan import QUALIFIER_FIELDS
from tasks.rag.reading.candidates import SCALES
from tasks.rag.reading.reader import MYRIADS, write_digits
from tasks.rag.retrieval.search import Hit, read_chunk

MOST_DOCUMENTS = 6
"""Most documents whose cells are compared where the question names documents."""
MOST_LEAD_LINES = 3
"""Lines at the beginning of a table's passage that may introduce it."""


def look_up_cell(question: str, plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> Draft | None:
    """Return the value that the question asks for; None where it asks for something else or no cell is sure enough.

    Raises WrongTokenizer.
    """
    tokenizer = index.manifest.tokenizer or BIGRAM
    cell_question = read_cell_question(question, tokenizer=tokenizer, names=document_names_in(plan))
    if cell_question is None:
        return None
    numbers, documents, is_named = _select_candidates(plan, hits, index)
    around, ordered = _CellContext(index, documents, hits).around, documents if is_named else ()
    matches = rank_cells(cell_question, numbers, tokenizer=tokenizer, documents=ordered, context=around)
    best_cell = compare_cells(matches)
    return best_cell and answer_of(best_cell, cell_question, is_named=is_named, language=language_of(question))


class Cells:
    """The cells that a question may mean, scored against any words of it."""

    def __init__(self, plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> None:
        self.is_unnamed = plan.is_unnamed
        self._tokenizer = index.manifest.tokenizer or BIGRAM
        self.numbers, documents, is_named = _select_candidates(plan, hits, index)
        self._context = _CellContext(index, documents, hits, titled=not is_named)
        self._matches: dict[tuple[str, str, When | None], list[Match]] = {}

    def matches(self, words: str, more_words: str, sentence: str, when: When | None) -> list[Match]:
        """Return the cells that the words fit, best first; parameters of `phrase_question`. Raises WrongTokenizer."""
        key = (words, more_words, when)
        if key not in self._matches:
            tokenizer, around = self._tokenizer, self._context.around
            phrased = phrase_question(words, more_words, sentence, when, tokenizer=tokenizer)
            self._matches[key] = (
                rank_cells(phrased, self.numbers, tokenizer=tokenizer, context=around) if phrased else []
            )
        return self._matches[key]


class _Candidates(NamedTuple):
    """The numbers that a question may mean, and their documents."""

    numbers: Sequence[Number]
    documents: list[str]
    is_named: bool
    """Whether the question names the documents."""


def document_names_in(plan: RetrievalPlan) -> list[str]:
    """Return what a question calls the documents that it names."""
    return [match.said for match in plan.filters.matches if match.field not in QUALIFIER_FIELDS]


def _select_candidates(plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> _Candidates:
    """Return the numbers of up to six documents that the question names, else those of the pages that were found."""
    names, filters = index.names, plan.filters
    names_any = any(
        match.field not in QUALIFIER_FIELDS and match.confidence >= NAME_CONFIDENCE for match in filters.matches
    )
    is_named = (names_any or filters.mode == "only") and bool(filters.documents)
    candidates = (*filters.favoured, *filters.documents) if is_named else (hit.chunk.document for hit in hits)
    documents = [document for document in dict.fromkeys(candidates) if document in names]
    documents = documents[:MOST_DOCUMENTS] if is_named else documents  # the pages found are few by themselves
    pages = () if is_named else tuple(dict.fromkeys((hit.chunk.document, hit.chunk.page) for hit in hits))
    numbers = select_numbers(index.numbers, tuple((document, names[document]) for document in documents), pages)
    return _Candidates(numbers, documents, is_named)


class _CellContext:
    """The words of documents around their cells: headings and first lines of the passage that shows the table."""

    def __init__(self, index: Index, documents: Sequence[str], hits: Sequence[Hit], *, titled: bool = False) -> None:
        """Read the tables of the documents. titled: whether their names count as words around their cells too."""
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

    def around(self, number: Number) -> Context:
        """Return the words around a number, with the 0-based rank of its page among the hits, None for no hit.

        Where no table shows the number, they are the names of its document if `titled`, else empty.
        """
        key = (number.document, number.page)
        rank = self._rank.get(key) if number.page is not None else None
        title = self._titles.get(number.document, "")
        table = next((chunk for chunk in self._tables[key] if _shows(chunk, number)), None)
        lines = [line for line in table.text.splitlines()[:MOST_LEAD_LINES] if "|" not in line] if table else []
        lead = " ".join((*table.heading_path[-2:], *lines)) if table else ""
        return Context(f"{title} {lead}".strip(), rank)


def _shows(chunk: Chunk, number: Number) -> bool:
    """Return whether a chunk shows a number: by its box, or else by the number and its row's label in its text."""
    if chunk.bbox and number.bbox:
        x, y = (number.bbox[0] + number.bbox[2]) / 2, (number.bbox[1] + number.bbox[3]) / 2
        return chunk.bbox[0] <= x <= chunk.bbox[2] and chunk.bbox[1] <= y <= chunk.bbox[3]
    return number.shown in chunk.text and all(label in chunk.text for label in number.row_path[-1:])


# chosen on the calibration half of answers.jsonl: of 43 questions 33 right, 1 wrong (24 and 7 without cells)
LEAST = 0.55
"""Confidence below which no answer is given."""
MOST_MARGIN = 0.2
"""Lead over the next cell from which a larger lead makes an answer no surer."""


def answer_of(cell: CellMatch, question: CellQuestion, *, is_named: bool, language: Language) -> Draft | None:
    """Return the answer that reads one cell: `Loss on sale of stores FY2018 = $36 million [1]`; None if unsure.

    Cash flows lose their sign; a number in doubt adds a line. is_named: whether the question names the document.
    """
    confidence = confidence_of(cell, is_named=is_named)
    if confidence < LEAST:
        return None
    number = cell.best.number
    # the label of the row, with the headings that the question names, and the column if it is of a part
    *heads, label = number.row_path or ("",)
    question_words = set(words_of(question.core)) - FREE
    bare = not set(words_of(label)) - FREE
    row_heads = [head for head in heads if question_words & set(words_of(head))] or (heads[-1:] if bare else [])
    row = " › ".join(part.strip(" :") for part in (*row_heads, label))
    column = " ".join(number.column_path) if column_words(number.column_path) else ""
    head = " ".join(filter(None, (" — ".join(filter(None, (row, column))), number.period.label)))
    lacks = f", without {', '.join(word.text for word in cell.best.unheld)}" if cell.best.unheld else ""
    printed = number.value / Decimal(number.scale)
    printed = abs(printed) if number.statement == "cash_flow" else printed  # (746) paid is asked for as an amount
    scale = SCALES.get(Decimal(number.scale), MYRIADS.get(Decimal(number.scale), ""))
    amount = write_amount(write_digits(printed, number.shown), number.unit, scale, language)
    doubt = f"\n{describe_in_answer(1, number.broken, number.scale, language)}" if number.broken else ""
    return Draft(
        f"{head} = {amount} [1]{doubt}",
        (cite_number(1, number),),
        reason=f"the cell of a table whose labels hold {cell.best.question_share:.0%} of the question{lacks}",
        confidence=round(confidence, 4),
    )


def confidence_of(cell: CellMatch, *, is_named: bool) -> float:
    """Return the probability that the cell is the one that is meant, 0 … 1.

    Logistic regression on 72 questions over filings, reports and notices, 22 of them without an answer.
    """
    best = cell.best
    logit = 1.9 * best.score + 10.3 * min(cell.margin, MOST_MARGIN) + 1.5 * is_named + 0.5 * best.certainty - 3.2
    # what nothing around a cell holds may be what tells it from the right one
    logit -= 1.2 * bool(best.unheld) + 0.5 * any(word.focus for word in best.unheld)
    return 1 / (1 + math.exp(-logit))
