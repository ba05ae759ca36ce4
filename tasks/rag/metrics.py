"""How well a search finds what questions ask for: hit@k, MRR@10 and nDCG@10 by page and by document."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from math import log2
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import Field, ValidationError

from storage.records import Record

Item = TypeVar("Item", bound=Hashable)

CUT = 10
RESAMPLES = 2_000


class Question(Record):
    """A question with the place of its answer: one line of a questions file."""

    id: str
    question: str
    document: str
    """Name of the gold document, as the catalogue has it."""
    pages: tuple[int, ...] = ()
    """1-based gold pages; none where the document stores no pages, then it counts by document only."""


class Place(NamedTuple):
    """Where a hit stands."""

    document: str
    page: int | None


class Estimate(Record):
    """A mean over questions with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class Evaluation(Record):
    """Figures by the names hit@1, hit@5, hit@10, mrr@10, ndcg@10."""

    n: int
    """Questions."""
    page: dict[str, Estimate]
    """Over the questions with gold pages; empty if there are none."""
    document: dict[str, Estimate]
    paged: int = Field(ge=0)
    """Questions with gold pages."""


def read_questions(path: Path) -> list[Question]:
    """The questions of a JSONL file; other fields of a line are passed over. Raises ValueError naming the line."""
    questions: list[Question] = []
    for number, line in enumerate(path.read_text("utf-8-sig").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            questions.append(Question.model_validate({name: fields.get(name) for name in Question.model_fields}))
        except (ValidationError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{path}, line {number}: expected {{id, question, document, pages: [1-based]}}, found {line[:80]!r}"
            ) from error
    return questions


def evaluate(questions: Sequence[Question], search: Callable[[str], Sequence[Place]], *, seed: int = 0) -> Evaluation:
    """The figures of `search` (question → places, best first, more than ten if places repeat) over `questions`.

    Several hits on one page, or in one document, count as one rank. Raises ValueError without questions.
    """
    if not questions:
        raise ValueError("there are no questions to evaluate; give at least one line")
    by_page: list[dict[str, float]] = []
    by_document: list[dict[str, float]] = []
    for question in questions:
        places = search(question.question)
        if question.pages:
            gold_pages = {Place(question.document, page) for page in question.pages}
            by_page.append(score_ranking(_distinct(places), gold_pages))
        by_document.append(score_ranking(_distinct([place.document for place in places]), {question.document}))
    return Evaluation(
        n=len(questions),
        page=_estimates(by_page, seed=seed),
        document=_estimates(by_document, seed=seed),
        paged=len(by_page),
    )


def score_ranking(ranked: Sequence[Item], gold: set[Item]) -> dict[str, float]:
    """The figures of one ranking of distinct items; `gold` is not empty."""
    return {
        "hit@1": hit(ranked, gold, k=1),
        "hit@5": hit(ranked, gold, k=5),
        "hit@10": hit(ranked, gold, k=10),
        "mrr@10": reciprocal_rank(ranked, gold, k=CUT),
        "ndcg@10": ndcg(ranked, gold, k=CUT),
    }


def hit(ranked: Sequence[Item], gold: set[Item], *, k: int) -> float:
    """1 if a gold item is among the first `k`, else 0."""
    return float(any(item in gold for item in ranked[:k]))


def reciprocal_rank(ranked: Sequence[Item], gold: set[Item], *, k: int) -> float:
    """1 / rank of the first gold item, 0 if it is not among the first `k`."""
    return next((1 / rank for rank, item in enumerate(ranked[:k], start=1) if item in gold), 0.0)


def ndcg(ranked: Sequence[Item], gold: set[Item], *, k: int) -> float:
    """Discounted gain of the gold items among the first `k`, as a share of the best order's.

    Source: Järvelin and Kekäläinen 2002, with gains of 0 and 1 and log2(rank + 1).
    """
    gain = sum(1 / log2(rank + 1) for rank, item in enumerate(ranked[:k], start=1) if item in gold)
    best = sum(1 / log2(rank + 1) for rank in range(1, min(k, len(gold)) + 1))
    return gain / best


def bootstrap(values: Sequence[float], *, seed: int) -> Estimate:
    """Mean, and the 2.5th and 97.5th percentile of the means of resamples. Raises ValueError without values."""
    if not values:
        raise ValueError("a mean needs at least one value")
    drawn = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    means = np.asarray(values, np.float64)[drawn].mean(axis=1)  # (RESAMPLES,)
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(value=float(np.mean(values)), low=float(low), high=float(high))


def _distinct(ranked: Sequence[Item]) -> list[Item]:
    return list(dict.fromkeys(ranked))


def _estimates(scores: Sequence[dict[str, float]], *, seed: int) -> dict[str, Estimate]:
    names = scores[0] if scores else ()
    return {name: bootstrap([score[name] for score in scores], seed=seed) for name in names}
