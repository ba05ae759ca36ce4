"""Measures an index with a file of questions, as `trivet rag eval` does, for the evaluation tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from storage.evaluated import Evaluated
from storage.index import open_index
from storage.records import Record
from tasks import progress
from tasks.nightly.suite import SuiteIndex
from tasks.rag.answering.assistant import open_assistant
from tasks.rag.answering.wiring import Models
from tasks.rag.answers import AnswerSettings
from tasks.rag.measuring.answer_checks import AnswerCheck, check_answers
from tasks.rag.measuring.measured_figures import (
    Gold,
    Made,
    Measurement,
    choose,
    gold_in,
    labels_of,
    measure,
    places_in,
    record,
    subject_of,
)
from tasks.rag.measuring.ranking_metrics import Question, rank_questions, read_questions


class Program(Record):
    """Version of the program that measured."""

    version: str
    git_commit: str | None


class Measured(NamedTuple):
    """The rows of a measurement."""

    rows: Evaluated
    away: int
    """Number of questions answered with sentences of the documents, because the model was unavailable."""


def measure_index(
    asked: SuiteIndex, index: Path, *, run: str, started: datetime, models: Models, program: Program
) -> Measured:
    """The figures of an index. Raises ValueError for questions that cannot be read, IndexUnusable, ModelError."""
    assert asked.questions
    chosen = asked.model_dump(mode="json", include={"strategy", "bm25_weight", "route", "rerank", "answers"})
    questions = choose(read_questions(asked.questions), asked.split)
    with open_index(index) as opened:
        gold = gold_in(opened, questions)
        places = places_in(
            opened, strategy=asked.strategy, bm25_weight=asked.bm25_weight, route=asked.route, rerank=asked.rerank
        )
        ranked = rank_questions(progress.counted("search", questions), places, name_of=gold.name_of)
        checks = _check(index, questions, asked, models, gold) if asked.answers else None
        measured = measure(questions, ranked, checks, by=labels_of(questions, None))
        rows = record(
            Measurement(measured, ranked, checks or ()),
            questions,
            run=run,
            made=Made(program.version, program.git_commit, started, datetime.now(started.tzinfo)),
            subject=subject_of(opened, index),
            file=asked.questions,
            split=asked.split,
            settings={**chosen, "llm": models.wiring, "model": models.large},
        )
    return Measured(rows, sum(check.model_away for check in checks or ()))


def _check(
    index: Path, questions: Sequence[Question], asked: SuiteIndex, models: Models, gold: Gold
) -> tuple[AnswerCheck, ...]:
    settings = AnswerSettings(strategy=asked.strategy)
    with open_assistant(index, models=models, patient=True, reranker=asked.rerank, answers=settings) as assistant:
        return check_answers(progress.counted("answer", questions), assistant, name_of=gold.name_of)
