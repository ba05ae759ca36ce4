"""An answer and what led to it: the plan, the chunks that were found, and the evidence for each claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from storage.records import FiniteRecord, Record
from tasks.documents.blocks import BBox, PageSource, Place
from tasks.rag.retrieval.strategies import StrategyName

if TYPE_CHECKING:
    from storage.segments import CatalogueEntry
    from tasks.rag.answers import Citation


QueryType = Literal["single", "multi", "compare", "followup"]
RouteMode = Literal["all", "prefer", "only"]


class Turn(Record):
    """A question of the conversation, and what it was answered with."""

    question: str
    answer: str
    documents: tuple[str, ...] = ()
    """Digests of the documents that the answer cites, or else was looked for in."""


class NameMatch(Record):
    """A name of the catalogue that the question holds."""

    field: str
    """`issuer`, `project_name`, `name`, `year`, `form` …: where the catalogue has it."""
    value: str
    """As the catalogue writes it."""
    said: str
    """As the question writes it."""
    confidence: float = Field(ge=0, le=1)


class Filters(Record):
    """Documents that a question means, the surest first."""

    mode: RouteMode = "all"
    """`only` these documents, `prefer` them (the others stay below), or `all` alike."""
    documents: tuple[str, ...] = ()
    favoured: tuple[str, ...] = ()
    """The `documents` that fit best in year, form or amount; the others may hold the answer too."""
    matches: tuple[NameMatch, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    """`documents` by the side of a comparison that they belong to; one group where nothing is compared."""
    ambiguous: tuple[str, ...] = ()
    """Names of the documents that fit equally well where the question means one; the answer names them."""


MAX_WRONG = 1.0
"""Share of questions that may be answered wrongly where nobody says otherwise: every answer is given."""


class Calibration(FiniteRecord):
    """Confidences of the answers to labelled questions; they set how sure an answer must be."""

    n: int = Field(ge=1)
    """Questions, those that were not answered among them."""
    right: tuple[float, ...]
    """Confidences of the right answers."""
    wrong: tuple[float, ...]
    """Confidences of the wrong answers, those to unanswerable questions among them."""


class AnswerSettings(Record):
    """How answers are made, whichever model gives them."""

    strategy: StrategyName | None = None
    """How passages are found; None: as the kind of question asks for."""
    top_k: int | None = None
    """How many passages; None: as the kind of question asks for."""
    max_wrong: float = Field(default=MAX_WRONG, ge=0, le=1)
    """Share of questions like those of the calibration that may be answered wrongly; surer answers are given, others
    withheld. 1: every answer is given. Answers that a model writes are not withheld."""
    calibration: Calibration | None = None
    """Sets how sure an answer must be for `max_wrong`. None: that of our own questions."""


class RetrievalPlan(Record):
    """How a question is looked up."""

    query_type: QueryType
    strategy: str
    top_k: int = Field(ge=1)
    needs_multi_doc: bool
    filters: Filters = Filters()
    decided_by: Literal["model", "words", "history", "user", "default"] = "default"
    """Who chose the type."""
    words: tuple[str, ...] = ()
    """Words of the question that decided the type."""


class Retrieved(Record):
    """A chunk that was found, best first."""

    document: str
    """Path below the indexed folder."""
    digest: str
    page: int | None
    page_source: PageSource = "stored"
    bbox: BBox | None
    chunk_id: str
    score: float
    ranks: dict[str, int]
    """Retriever → 1-based rank; `rerank` among them when a reranker ordered the pool."""
    used: bool = True
    """False: the token budget of the context left it out."""
    text: str


class Citation(Record):
    """Where a claim stands."""

    n: int
    """The number that the answer shows: [1]."""
    document: str
    digest: str
    page: int | None
    page_source: PageSource = "stored"
    """layout: where a layout engine puts it, which may differ from the word processor's print by a page; slides: the
    page is a slide."""
    bbox: BBox | None
    quote: str
    chunk_id: str | None = None
    """None: a number of a table, or a fact of the catalogue."""
    cell: str | None = None
    """Number of a table, as `trivet why` takes it: `DIGEST:TABLE:ROW:COLUMN`, 0-based."""
    place: Place = Place()
    """Where it stands in formats with and without pages: section, block, headings above."""


class Draft(NamedTuple):
    """An answer while it is made."""

    text: str
    citations: tuple[Citation, ...] = ()
    unsupported: tuple[str, ...] = ()
    abstained: bool = False
    reason: str | None = None
    notes: tuple[str, ...] = ()
    by_model: bool = False
    confidence: float | None = None
    """How likely the answer is right, 0 … 1, by what chose it; None: nothing estimates it (a model wrote it)."""


class ModelCall(Record):
    """A call of a model, by which its stored answer is found again."""

    role: Literal["classify", "compute", "answer", "rewrite"]
    model: str
    key: str
    cached: bool
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Answered(Record):
    """A question, its answer, and all that led to it."""

    question: str
    answer: str
    """With the numbers of its citations: `… 1,250,000,000원이다 [1].`"""
    citations: tuple[Citation, ...]
    unsupported: tuple[str, ...] = ()
    """Sentences of the answer with a number that no cited block holds, or without any evidence."""
    abstained: bool = False
    plan: RetrievalPlan
    retrieved: tuple[Retrieved, ...]
    index_digest: str = ""
    """Digest of the index that was asked; empty in answers of versions that did not keep it."""
    reason: str | None = None
    """Without a model: why the documents are taken to answer the question or not."""
    confidence: float | None = None
    """Without a model: how likely the answer is right, 0 … 1, whether it was given or withheld."""
    notes: tuple[str, ...] = ()
    """Deviations: an unavailable model, a filter that found nothing, a rewrite that was dropped."""
    calls: tuple[ModelCall, ...] = ()
    model_away: bool = False
    """True: a model that should have written the answer could not be asked; another time it may be."""
    model_refused: bool = False
    """True: a model that should have written the answer cannot take this question, now or later."""
    timings: dict[str, float] = Field(default_factory=dict)


DECKS = ("pptx", "ppt")
"""Formats whose pages are slides."""
PAGES: dict[str, dict[PageSource, str]] = {
    "en": {"stored": "page {}", "layout": "page {} as laid out", "slides": "slide {}"},
    "ko": {"stored": "{}쪽", "layout": "{}쪽(조판 기준)", "slides": "슬라이드 {}"},
}


def page_source_of(entry: CatalogueEntry) -> PageSource:
    """What the page numbers of a document are."""
    return "slides" if entry.format in DECKS and entry.page_source == "stored" else entry.page_source


def place_of(
    document: str,
    page: int | None,
    source: PageSource = "stored",
    cells: str | None = None,
    *,
    language: str = "en",
) -> str:
    """`a.pdf, page 3`; `a.hwp, page 3 as laid out`; `a.pptx, slide 3`; `a.xlsx, Sheet 'May', B3:D9`; or `a.pdf 3쪽`."""
    if cells:
        return f"{document}, {cells}"
    if not page:
        return document
    words = PAGES[language]
    where = words.get(source, words["stored"]).format(page)
    return f"{document} {where}" if language == "ko" else f"{document}, {where}"


def cited_place(citation: Citation, *, language: str = "en") -> str:
    """The place of a citation, as `place_of` writes it."""
    told = citation.document, citation.page, citation.page_source, citation.place.cells
    return place_of(*told, language=language)
