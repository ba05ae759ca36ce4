"""Retrieval metrics: hit@k, MRR@10 and nDCG@10 by page and by document."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import log2
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from storage.records import Record
from tasks.measure.estimates import bootstrap

Item = TypeVar("Item", bound=Hashable)

CUT = 10
SHOWN_CHARS = 80
EXPECTED = "{id, question, document, pages: [1-based], answer?, answerable?, turns?: [question]}"


class Question(Record):
    """A question with the place of its answer: one line of a questions file."""

    id: str = Field(min_length=1, coerce_numbers_to_str=True)
    question: str
    document: str | None = None
    """Name of the gold document in the catalogue; None if no document has the answer."""
    pages: tuple[int, ...] = ()
    """1-based gold pages; none where the document stores no pages, then it counts by document only."""
    answer: str | None = None
    answerable: bool = True
    """False: the documents have no answer, and the right response is to abstain."""
    turns: tuple[str, ...] = ()
    """Questions of the same conversation that were asked before this one, oldest first."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Other fields of the line, by which figures are grouped and lines chosen: `kind`, `lang`, `split` …"""

    @field_validator("question")
    @classmethod
    def _has_words(cls, question: str) -> str:
        if not question.strip():
            raise ValueError("the question is empty")
        return question

    @field_validator("pages")
    @classmethod
    def _from_one(cls, pages: tuple[int, ...]) -> tuple[int, ...]:
        if any(page < 1 for page in pages):
            raise ValueError("pages count from 1")
        return pages

    @model_validator(mode="after")
    def _has_gold(self) -> Question:
        if self.answerable and not self.document:
            raise ValueError("an answerable question needs its gold document")
        return self


class Place(NamedTuple):
    """The document and the page where a hit stands."""

    document: str
    page: int | None


class Mean(Record):
    """A mean over questions with its 95 % bootstrap interval, as the JSON of `trivet rag eval` has it."""

    value: float
    low: float
    high: float


class Ranked(Record):
    """The metrics of one question, by name."""

    id: str
    page: dict[str, float]
    """Metrics of the ranking of pages; empty for a question without gold pages."""
    document: dict[str, float]


class Evaluation(Record):
    """Means over all questions of hit@1, hit@5, hit@10, mrr@10 and ndcg@10."""

    n: int
    """Number of questions with a gold document."""
    page: dict[str, Mean]
    """Means over the questions with gold pages; empty if there are none."""
    document: dict[str, Mean]
    paged: int = Field(ge=0)


def read_questions(path: Path) -> list[Question]:
    """Read the questions of a JSONL file, at least one, names in NFC. Raises ValueError, which names the line."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; expected a line of JSON per question: {EXPECTED}") from error
    by_id: dict[str, tuple[int, Question]] = {}
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would cut inside a string, at U+2028
        if not line.strip():
            continue
        question = _read_question(line, f"{path}, line {number}")
        if question.id in by_id:
            first, _ = by_id[question.id]
            raise ValueError(f"{path}, line {number}: line {first} has the id {question.id!r} too; give each its own")
        by_id[question.id] = number, question
    if not by_id:
        raise ValueError(f"{path}: there are no questions to evaluate; give at least one line")
    return [question for _, question in by_id.values()]


def _read_question(line: str, where: str) -> Question:
    """Read a line; without a gold document it is a question that documents do not answer. Raises ValueError."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("it is no JSON object")
        values = cast("dict[str, Any]", fields)
        known_fields = {
            name: values[name] for name in Question.model_fields if values.get(name) is not None and name != "labels"
        }
        for name in ("document", "answer"):
            if isinstance(known_fields.get(name), str):
                known_fields[name] = unicodedata.normalize("NFC", known_fields[name]).strip() or None
        known_fields.setdefault("answerable", bool(known_fields.get("document")))
        others = {name: value for name, value in values.items() if name not in Question.model_fields}
        labels = {name: str(value) for name, value in others.items() if isinstance(value, str | int)}
        return Question.model_validate(known_fields | {"labels": labels})
    except ValidationError as error:
        first = error.errors()[0]
        why = ".".join(map(str, first["loc"])) + ": " + first["msg"] if first["loc"] else first["msg"]
        raise ValueError(f"{where}: expected {EXPECTED}; {why}, found {line[:SHOWN_CHARS]!r}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: expected {EXPECTED}, found {line[:SHOWN_CHARS]!r}") from error


def rank_questions(
    questions: Iterable[Question], search: Callable[[Question], Sequence[Place]], *, name_of: Callable[[str], str] = str
) -> tuple[Ranked, ...]:
    """Return the metrics of each answerable question; several hits on one page, or in one document, share a rank.

    search: places, best first, more than ten if places repeat. name_of: the name that places give a gold document.
    """
    ranked: list[Ranked] = []
    for question in questions:
        if question.answerable and question.document:
            places, document = search(question), name_of(question.document)
            pages = {Place(document, page) for page in question.pages}
            by_page = score_ranking(list(dict.fromkeys(places)), pages) if pages else {}
            by_document = score_ranking(list(dict.fromkeys(place.document for place in places)), {document})
            ranked.append(Ranked(id=question.id, page=by_page, document=by_document))
    return tuple(ranked)


def summarise(ranked: Sequence[Ranked]) -> Evaluation:
    """Return means by page and by document over all questions, with 95 % intervals. Raises ValueError without any."""
    if not ranked:
        raise ValueError("there are no questions to evaluate; give at least one line with a gold document")

    def means(scores: Sequence[dict[str, float]]) -> dict[str, Mean]:
        names = scores[0] if scores else ()
        return {name: mean_of([score[name] for score in scores]) for name in names}

    paged = [question.page for question in ranked if question.page]
    documents = means([question.document for question in ranked])
    return Evaluation(n=len(ranked), page=means(paged), document=documents, paged=len(paged))


def score_ranking(ranked: Sequence[Item], gold: set[Item]) -> dict[str, float]:
    """Return hit@k, MRR@10 and nDCG@10 of one ranking of distinct items; `gold` must not be empty."""
    return {
        "hit@1": hit(ranked, gold, k=1),
        "hit@5": hit(ranked, gold, k=5),
        "hit@10": hit(ranked, gold, k=10),
        "mrr@10": reciprocal_rank(ranked, gold, k=CUT),
        "ndcg@10": ndcg(ranked, gold, k=CUT),
    }


def hit(ranked: Sequence[Item], gold: set[Item], *, k: int) -> float:
    """Return 1 if a gold item is among the first `k`, else 0."""
    return float(any(item in gold for item in ranked[:k]))


def reciprocal_rank(ranked: Sequence[Item], gold: set[Item], *, k: int) -> float:
    """Return 1 / rank of the first gold item, or 0 if none is among the first `k`."""
    return next((1 / rank for rank, item in enumerate(ranked[:k], start=1) if item in gold), 0.0)


def ndcg(ranked: Sequence[Item], gold: set[Item], *, k: int) -> float:
    """Return the discounted gain of the gold items among the first `k`, as a share of the best order's.

    Source: Järvelin and Kekäläinen 2002, with gains of 0 and 1 and log2(rank + 1).
    """
    gain = sum(1 / log2(rank + 1) for rank, item in enumerate(ranked[:k], start=1) if item in gold)
    best = sum(1 / log2(rank + 1) for rank in range(1, min(k, len(gold)) + 1))  # no more gold than fits
    return gain / best


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of some values with its 95 % bootstrap interval. Raises ValueError without values."""
    if not values:
        raise ValueError("a mean needs at least one value")
    low, high = bootstrap(values, seed=0)
    return Mean(value=float(np.mean(values)), low=low, high=high)
