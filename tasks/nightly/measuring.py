"""Measures a refreshed index with a file of questions, as `trivet rag eval` does, for the evaluation tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from storage.evaluated import Evaluated
from storage.index import Index, open_index
from storage.records import Record
from tasks import resources
from tasks.nightly.suite import SuiteIndex
from tasks.rag.answering.assistant import open_assistant
from tasks.rag.answering.graph import AnswerSettings
from tasks.rag.answering.wiring import Models
from tasks.rag.answers import Filters
from tasks.rag.measuring.answer_checks import AnswerCheck, check_answers
from tasks.rag.measuring.figures import choose, labels_of, measure, unknown_documents
from tasks.rag.measuring.metrics import Place, Question, Ranked, rank_questions, read_questions
from tasks.rag.measuring.recording import Made, Measurement, Subject, record
from tasks.rag.planning.routing import Router
from tasks.rag.retrieval.search import search

CHUNKS = 50
"""Chunks asked for, so that ten different pages are among them."""


class Program(Record):
    """What measures, for those who want a figure again."""

    version: str
    git_commit: str | None


class Measured(NamedTuple):
    """The rows of a measurement, and what a reader must know."""

    rows: Evaluated
    notes: tuple[str, ...]
    away: int
    """Questions for which the model was away: their answers are made of the documents' own sentences."""


def measure_index(
    asked: SuiteIndex, index: Path, *, run: str, started: datetime, models: Models, program: Program
) -> Measured:
    """The figures of an index. Raises ValueError for questions that cannot be read, IndexUnusable, ModelError."""
    assert asked.questions
    questions = choose(read_questions(asked.questions), asked.split)
    with open_index(index) as opened:
        first = _names(opened)
        ranked = _rank(opened, questions, asked, first)
        checks = _check(index, questions, asked, models, first) if asked.answers else None
        measured = measure(questions, ranked, checks, by=labels_of(questions, None))
        rows = record(
            Measurement(measured, ranked, checks or ()),
            questions,
            run=run,
            made=Made(program.version, program.git_commit, started, datetime.now(started.tzinfo)),
            subject=_subject(opened, index),
            file=asked.questions,
            split=asked.split,
            settings=_settings(asked, models),
        )
    unknown = unknown_documents(questions, set(first))
    return Measured(rows, (unknown,) if unknown else (), sum(check.model_away for check in checks or ()))


def _names(opened: Index) -> dict[str, str]:
    """Every name of a document → the one that hits carry."""
    return {
        unicodedata.normalize("NFC", name): entry.name
        for entry in opened.catalogue
        for name in (*entry.aliases, entry.name)
    }


def _rank(opened: Index, questions: Sequence[Question], asked: SuiteIndex, names: dict[str, str]) -> tuple[Ranked, ...]:
    router = Router(opened.catalogue)
    reranker = resources.reranker(asked.rerank) if asked.rerank else None

    def places(question: Question) -> list[Place]:
        found = search(
            opened,
            question.question,
            strategy=asked.strategy,
            top_k=CHUNKS,
            embedder=lambda: resources.embedder(str(opened.manifest.settings["embedder"])),
            bm25_weight=asked.bm25_weight,
            filters=router.route(question.question) if asked.route else Filters(),
            reranker=reranker,
        )
        return [Place(hit.document_name, hit.chunk.page) for hit in found.hits]

    return rank_questions(questions, places, name_of=lambda name: names.get(name, name))


def _check(
    index: Path, questions: Sequence[Question], asked: SuiteIndex, models: Models, names: dict[str, str]
) -> tuple[AnswerCheck, ...]:
    settings = AnswerSettings(strategy=asked.strategy)
    with open_assistant(index, models=models, patient=True, reranker=asked.rerank, answers=settings) as assistant:
        return check_answers(questions, assistant, name_of=lambda name: names.get(name, name))


def _subject(opened: Index, index: Path) -> Subject:
    manifest = opened.manifest
    return Subject(
        generation=opened.generation,
        digest=opened.digest,
        environment={
            "index": str(index),
            "embedder": manifest.embedder,
            "tokenizer": manifest.tokenizer,
            "documents": manifest.documents,
            "chunks": manifest.chunks,
            "settings": manifest.settings,
        },
    )


def _settings(asked: SuiteIndex, models: Models) -> dict[str, JsonValue]:
    """Everything besides index and questions that can change a figure; named as `trivet rag eval` names it."""
    chosen = asked.model_dump(mode="json", include={"strategy", "bm25_weight", "route", "rerank", "answers"})
    return chosen | {"llm": models.wiring, "model": models.large}
