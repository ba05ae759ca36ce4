"""The records of an answer: the plan, the chunks that were found, the citations, and the models that were called."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from pydantic import Field

from storage.records import FiniteRecord, Record
from tasks.documents.blocks import BBox, PageSource, Place
from tasks.rag.retrieval.strategies import StrategyName

if TYPE_CHECKING:
    from storage.segments import CatalogueEntry
    from tasks.language.sentences import Language


QueryType = Literal["single", "multi", "compare", "followup"]
RouteMode = Literal["all", "prefer", "only"]


class Turn(Record):
    """A question of the conversation, with its answer."""

    question: str
    answer: str
    documents: tuple[str, ...] = ()
    """Digests of the documents that the answer cites; without citations, of those that were searched."""


class NameMatch(Record):
    """A name of the catalogue that the question holds."""

    field: str
    """Where the catalogue has the name: `issuer`, `project_name`, `name`, `year`, `form` …"""
    value: str
    """The name as the catalogue writes it."""
    said: str
    """The name as the question writes it."""
    confidence: float = Field(ge=0, le=1)
    """How surely the words of the question mean this name, 0 … 1."""


class Filters(Record):
    """The documents that a question means, in order of confidence."""

    mode: RouteMode = "all"
    """How the search uses the documents: `only` in them, `prefer` them above all others, or `all` documents alike."""
    documents: tuple[str, ...] = ()
    """Digests of the documents, the most confident first."""
    favoured: tuple[str, ...] = ()
    """The `documents` that fit best in year, form or amount; the others may hold the answer too."""
    matches: tuple[NameMatch, ...] = ()
    """The names in the question by which the documents were chosen."""
    groups: tuple[tuple[str, ...], ...] = ()
    """`documents` by the side of a comparison that they belong to; a single group where nothing is compared."""
    ambiguous: tuple[str, ...] = ()
    """Names of the documents that fit equally well where the question means one; the answer names them."""


MAX_WRONG = 0.1
"""Default of `max_wrong`; 1.0 gives every answer, however unsure."""


class Calibration(FiniteRecord):
    """Confidences of the answers to labelled questions; they set how sure an answer must be."""

    questions: str = ""
    """Name of the file of questions."""
    made_on: date | None = None
    """Day on which the questions were answered."""
    n: int = Field(ge=1)
    """Questions, those that were not answered among them."""
    right: tuple[float, ...]
    """Confidences of the right answers."""
    wrong: tuple[float, ...]
    """Confidences of the wrong answers, those to unanswerable questions among them."""


class AnswerSettings(Record):
    """How answers are made, whichever model gives them."""

    strategy: StrategyName | None = None
    """How chunks are found. Unset: depends on the kind of question."""
    top_k: int | None = None
    """Number of chunks. Unset: depends on the kind of question."""
    max_wrong: float = Field(default=MAX_WRONG, ge=0, le=1)
    """Share of questions like those of the calibration that may be answered wrongly; surer answers are given, others
    withheld. 1: every answer is given. Answers that a model writes are not withheld."""
    calibration: Calibration | None = None
    """Sets how sure an answer must be for `max_wrong`. None: that of our own questions."""


class RetrievalPlan(Record):
    """How a question is looked up: its type, the search settings and the documents."""

    query_type: QueryType
    strategy: str
    top_k: int = Field(ge=1)
    needs_multi_doc: bool
    """Whether the answer takes several documents, as for `multi` and `compare`."""
    filters: Filters = Filters()
    decided_by: Literal["model", "words", "history", "user", "default"] = "default"
    """What decided the type: a model's label, the words of the question, the conversation, the user, or none of
    them."""
    words: tuple[str, ...] = ()
    """Words of the question that decided the type."""

    @property
    def is_unnamed(self) -> bool:
        """Whether one document is meant, and none is named or several fit equally well."""
        return not self.needs_multi_doc and (not self.filters.documents or bool(self.filters.ambiguous))


class Retrieved(Record):
    """A chunk that the search found; an answer lists them best first."""

    document: str
    """Path of the document below the indexed folder."""
    digest: str
    page: int | None
    page_source: PageSource = "stored"
    bbox: BBox | None
    chunk_id: str
    score: float
    """The score by which the search ordered the chunks, higher first."""
    ranks: dict[str, int]
    """The chunk's 1-based rank by retriever, with `rerank` among them where a reranker ordered the candidates."""
    used: bool = True
    """False where the chunk had no room in the context."""
    text: str


class Citation(Record):
    """The place that supports a claim of an answer, with the words that stand there."""

    n: int
    """The number of the citation as the answer shows it: 1 for [1]."""
    document: str
    aliases: tuple[str, ...] = ()
    """Names of other files with the same bytes."""
    digest: str
    page: int | None
    page_source: PageSource = "stored"
    """What the page number counts: `layout` is a layout engine's page, which may differ from the word processor's
    print by one; `estimated` is one that the engine does not show; `slides` is a slide."""
    bbox: BBox | None
    quote: str
    chunk_id: str | None = None
    """Id of the chunk that is cited; None for a cell of a table or a fact of the catalogue."""
    cell: str | None = None
    """The cell that is cited, as `trivet why` takes it: `DIGEST:TABLE:ROW:COLUMN`, 0-based."""
    place: Place = Place()
    """The place in formats with and without pages: section, block, headings above it."""


Scale = Literal["", "thousand", "million", "billion", "percent"]
"""What a written number counts: `2,298,514` with `thousand` is 2,298,514,000."""


class Short(Record):
    """The answer as a person would write it into a form: no sentence around it."""

    values: tuple[str, ...]
    """One text per value that is asked for."""
    scale: Scale = ""


class Value(Record):
    """A number that answers a question, exactly, and as its source writes it."""

    exact: str
    """The exact decimal in whole units, as text: `2298514000`; of a percentage the percent."""
    unit: str = ""
    """Currency code, `%`, or a word such as `shares`; empty where the source says none."""
    scale: str = ""
    """The source's scale: `thousand`."""
    display: str
    """The digits of the source, in its scale: `2,298,514`; a quotient has at least three significant digits."""

    @property
    def short(self) -> Short:
        """The value as a person would write it into a form: in its scale, in whole units where `Scale` lacks that."""
        if self.unit == "%":
            return Short(values=(self.display,), scale="percent")
        if self.scale in get_args(Scale):
            return Short(values=(self.display,), scale=cast("Scale", self.scale))
        return Short(values=(f"{Decimal(self.exact):,f}",))


def join_short(shorts: Sequence[Short]) -> Short | None:
    """Return several short answers as one; None where their scales differ, and of none."""
    if len({short.scale for short in shorts}) != 1:
        return None
    return shorts[0].model_copy(update={"values": tuple(value for short in shorts for value in short.values)})


class Draft(NamedTuple):
    """An answer while the steps of the graph work on it."""

    text: str
    citations: tuple[Citation, ...] = ()
    unsupported: tuple[str, ...] = ()
    abstained: bool = False
    reason: str | None = None
    notes: tuple[str, ...] = ()
    by_model: bool = False
    confidence: float | None = None
    """Probability that the answer is right, 0 … 1; None where nothing estimates it, as for a model's answer."""
    short: Short | None = None
    value: Value | None = None
    """Set where the answer is one number."""
    operation: str = ""
    """The operation of the reader's candidate (tasks.rag.reading.candidates); empty for answers of other ways."""
    is_of_several: bool = False
    """Whether it says what several documents say, because the question means one and names none."""


class ModelCall(Record):
    """A call of a model, with the key under which its response is stored."""

    role: Literal["classify", "compute", "answer", "rewrite"]
    model: str
    key: str
    cached: bool
    """Whether the response came from the response store."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Answered(Record):
    """A question with its answer and everything that led to it."""

    question: str
    answer: str
    """The text with citation numbers: `… 1,250,000,000원이다 [1].`"""
    short: Short | None = None
    """Answer as a person would write it into a form; None for a withheld one, and where only a sentence answers."""
    value: str | None = None
    """The number that answers, in whole units, as exact decimal text; None where the answer is no single number."""
    unit: str = ""
    scale: str = ""
    display: str = ""
    """`value` with the digits and in the scale of its source."""
    citations: tuple[Citation, ...]
    unsupported: tuple[str, ...] = ()
    """Sentences of the answer with a number that no cited block holds, or without any evidence."""
    abstained: bool = False
    """Whether the answer is that the documents do not tell, or was withheld."""
    plan: RetrievalPlan
    retrieved: tuple[Retrieved, ...]
    index_digest: str = ""
    """Digest of the index that was searched; empty in answers of versions that did not keep it."""
    reason: str | None = None
    """Why the documents are taken to answer the question or not; None for a model's answer."""
    confidence: float | None = None
    """Probability that the answer is right, 0 … 1, whether it was given or withheld; None for a model's answer."""
    notes: tuple[str, ...] = ()
    """Deviations from the plan: an unavailable model, a filter that found nothing, a rewrite that was dropped."""
    calls: tuple[ModelCall, ...] = ()
    model_away: bool = False
    """Whether the model that should have written the answer could not be reached; another time it may be."""
    model_refused: bool = False
    """Whether the model that should have written the answer refused this question, now and later."""
    timings: dict[str, float] = Field(default_factory=dict)
    """Seconds by node of the graph, and in `total`."""


SHORT_FIELDS = ("short", "value", "unit", "scale", "display")
"""Fields of an answer that programs read in place of its sentence."""
KOREAN_UNITS = {
    "USD": " 달러", "KRW": " 원", "EUR": " 유로", "JPY": " 엔", "GBP": " 파운드", "CNY": " 위안", "shares": " 주",
    "days": "일", "people": "명", "years": "년",
}  # fmt: skip
"""Units behind a number, with the space before them; there is none before what is counted."""
KOREAN_SCALES = {"thousand": "천", "million": "백만", "billion": "십억"}


def headline_of(answered: Answered) -> str:
    """Return the short answer in one line, else "": `USD 5 thousand` (in Korean `5천 달러`), `12.4%`, `A; B`."""
    from tasks.language.sentences import language_of  # which reads lists of words: not for `trivet --help`

    if answered.value is None:
        if answered.short is None:
            return ""
        text, scale = "; ".join(answered.short.values), answered.short.scale
        return f"{text.removesuffix('%')}%" if scale == "percent" else f"{text} {scale}".rstrip()
    return write_amount(answered.display, answered.unit, answered.scale, language_of(answered.question))


def write_amount(digits: str, unit: str, scale: str, language: Language) -> str:
    """Return a number with unit and scale: `USD 735 million`, `6.99%`, `60,540백만 원`, `158개소`, `1,204 shares`."""
    if unit == "%":
        return f"{digits}%"
    if language == "ko":
        return f"{digits}{KOREAN_SCALES.get(scale, scale)}{KOREAN_UNITS.get(unit, unit)}"
    counted = f"{digits} {scale}".rstrip()
    is_currency = len(unit) == 3 and unit.isupper()
    return f"{unit} {counted}" if is_currency else f"{counted} {unit}".rstrip()


DECKS = ("pptx", "ppt")
"""Formats whose pages are slides."""
PAGES: dict[str, dict[PageSource, str]] = {
    "en": {
        "stored": "page {}",
        "layout": "page {} as laid out",
        "estimated": "page {} (estimated)",
        "slides": "slide {}",
    },
    "ko": {"stored": "{}쪽", "layout": "{}쪽(조판 기준)", "estimated": "{}쪽(추정)", "slides": "슬라이드 {}"},
}


def page_source_of(entry: CatalogueEntry, page: int | None) -> PageSource:
    """Return what the number of a page counts: stored pages, laid-out or estimated ones, or slides."""
    if page in entry.estimated_pages:
        return "estimated"
    return "slides" if entry.format in DECKS and entry.page_source == "stored" else entry.page_source


def place_of(
    document: str, page: int | None, source: PageSource = "stored", cells: str | None = None, *, language: str = "en"
) -> str:
    """Return a place as an answer names it: its `cells`, else its page, else the document alone.

    `a.pdf, page 3`; `a.hwp, page 3 as laid out`; `a.pptx, slide 3`; `a.xlsx, Sheet 'May', B3:D9`; or `a.pdf 3쪽`.
    """
    if cells:
        return f"{document}, {cells}"
    if not page:
        return document
    words = PAGES[language]
    where = words.get(source, words["stored"]).format(page)
    return f"{document} {where}" if language == "ko" else f"{document}, {where}"


def cited_place(citation: Citation, *, language: str = "en") -> str:
    """Return the place of a citation, written as by `place_of`, and the names of files that are equal."""
    place = citation.document, citation.page, citation.page_source, citation.place.cells
    return " = ".join((place_of(*place, language=language), *citation.aliases))
