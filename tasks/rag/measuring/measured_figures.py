"""Metrics of an index over a file of questions, and the rows that the database keeps of them."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from storage.engines import index_name
from storage.evaluations import Dataset, EvalSettings, Evaluated, Run, Sample
from storage.index import Index
from storage.storage_errors import list_some
from tasks import resources
from tasks.measure.estimates import Estimate
from tasks.rag.answers import Filters
from tasks.rag.measuring.answer_checks import AnswerCheck, AnswerScores, Share, summarise_answers
from tasks.rag.measuring.ranking_metrics import Evaluation, Place, Question, Ranked, summarise
from tasks.rag.planning.routing import open_router
from tasks.rag.retrieval.search import search

NAMES_SHOWN = 3


class Measured(Evaluation):
    """Metrics of retrieval, with those of the answers where they were asked for."""

    answers: AnswerScores | None = None


def measure(ranked: Sequence[Ranked], checks: Sequence[AnswerCheck] | None = None) -> Measured:
    """Return the metrics over all questions; checks: those of the answers, None where none were asked for."""
    # questions may all be unanswerable: then there is nothing to find, and abstention alone is measured
    retrieval = summarise(ranked) if ranked else Evaluation(n=0, page={}, document={}, paged=0)
    return Measured(**dict(retrieval), answers=summarise_answers(checks) if checks is not None else None)


def unknown_documents(questions: Sequence[Question], names: set[str]) -> str | None:
    """Return a warning about gold documents that the index does not hold; None if it holds all."""
    affected = [question for question in questions if question.document and question.document not in names]
    if not affected:
        return None
    documents = list(dict.fromkeys(str(question.document) for question in affected))
    return (
        f"the index has no document {list_some(documents, NAMES_SHOWN)}, which is the gold of {len(affected)} "
        f"of {len(questions)} questions; they count as misses"
    )


def list_estimates(measured: Measured) -> Iterator[Estimate]:
    """Yield each metric that has a value, by full name: `page.mrr@10`, `answers.abstention.false_answer_rate`."""
    means = [(f"page.{name}", mean, measured.paged) for name, mean in measured.page.items()]
    means += [(f"document.{name}", mean, measured.n) for name, mean in measured.document.items()]
    if measured.answers:
        abstention = {f"abstention.{name}": share for name, share in dict(measured.answers.abstention).items()}
        shares = dict(measured.answers) | abstention
        means += [(f"answers.{name}", share, share.n) for name, share in shares.items() if isinstance(share, Share)]
    for metric, mean, n in means:
        yield Estimate(metric=metric, value=mean.value, low=mean.low, high=mean.high, n=n)


class Measurement(NamedTuple):
    """The metrics of an evaluation, and the ranks and checks of each question."""

    measured: Measured
    ranked: tuple[Ranked, ...]
    checks: tuple[AnswerCheck, ...] = ()


class Provenance(NamedTuple):
    """The version of the program that measured, and when it did."""

    version: str
    git_commit: str | None
    started_at: datetime
    ended_at: datetime


class Subject(NamedTuple):
    """The index that was measured, as a run is recorded with it."""

    generation: str
    digest: str
    environment: dict[str, JsonValue]


def questions_digest(questions: Sequence[Question]) -> str:
    """Return the SHA-256 of the questions and their gold answers, in their order, as hexadecimal digits."""
    digest = hashlib.sha256()
    for question in questions:
        digest.update(question.model_dump_json().encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def record(
    measurement: Measurement,
    questions: Sequence[Question],
    *,
    run: str,
    provenance: Provenance,
    subject: Subject,
    file: Path,
    settings: dict[str, JsonValue],
) -> Evaluated:
    """Return the database rows of one evaluation of one file of questions."""
    return Evaluated(
        run=Run(
            id=run,
            kind="rag",
            status="completed",
            **provenance._asdict(),
            index_generation=subject.generation,
            index_digest=subject.digest,
            environment=subject.environment,
        ),
        dataset=Dataset(
            name=file.stem,
            source=str(file),
            checksum=questions_digest(questions),
            count=len(questions),
        ),
        settings=EvalSettings(name="rag", parameters=settings),
        results=tuple(list_estimates(measurement.measured)),
        samples=tuple(samples_of(questions, measurement)),
    )


def samples_of(questions: Sequence[Question], measurement: Measurement) -> Iterator[Sample]:
    """Yield a database row for each question, in their order, with its ranks and checks."""
    ranks = {ranked.id: ranked for ranked in measurement.ranked}
    checks = {check.id: check for check in measurement.checks}
    for question in questions:
        detail: dict[str, JsonValue] = {"question": question.question, "labels": dict(question.labels)}
        if ranked := ranks.get(question.id):
            detail |= {"page": dict(ranked.page), "document": dict(ranked.document)}
        if check := checks.get(question.id):
            detail |= {"gold": question.answer, "checks": check.model_dump(mode="json", exclude={"id"})}
        yield Sample(item=question.id, detail=detail)


CHUNKS = 50
"""Chunks searched for per question, so that ten different pages are among them."""


class Gold(NamedTuple):
    """The gold documents of questions, in one index."""

    name_of: Callable[[str], str]
    """Gold document → its name in the catalogue, where a file with the same content may come first."""
    notes: tuple[str, ...]


def gold_in(opened: Index, questions: Sequence[Question]) -> Gold:
    """Return a function from gold document to name in the catalogue, and notes about those that it lacks, if any."""
    first = {
        unicodedata.normalize("NFC", name): entry.name
        for entry in opened.catalogue
        for name in (*entry.aliases, entry.name)
    }
    unknown = unknown_documents(questions, set(first))
    return Gold(lambda name: first.get(name, name), (unknown,) if unknown else ())


def places_in(
    opened: Index, *, strategy: str, bm25_weight: float, route: bool, rerank: str | None
) -> Callable[[Question], list[Place]]:
    """Return a function that searches for a question and returns the places of its best CHUNKS hits, best first."""
    router = open_router(opened) if route else None
    reranker = resources.reranker(rerank) if rerank else None

    def find_places(question: Question) -> list[Place]:
        """Return the document and page of each of the best chunks for a question, best first."""
        result = search(
            opened,
            question.question,
            strategy=strategy,
            top_k=CHUNKS,
            embedder=lambda: resources.embedder(str(opened.manifest.settings["embedder"])),
            bm25_weight=bm25_weight,
            filters=router.route(question.question) if router else Filters(),
            reranker=reranker,
        )
        return [Place(hit.document_name, hit.chunk.page) for hit in result.hits]

    return find_places


def subject_of(opened: Index, folder: Path) -> Subject:
    """Return an index as it is recorded with a run: version, digest, embedder, settings and counts."""
    manifest = opened.manifest
    return Subject(
        generation=opened.generation,
        digest=opened.digest,
        environment={
            "index": index_name(folder.absolute()),
            "embedder": manifest.embedder,
            "tokenizer": manifest.tokenizer,
            "documents": manifest.documents,
            "chunks": manifest.chunks,
            "settings": manifest.settings,
        },
    )
