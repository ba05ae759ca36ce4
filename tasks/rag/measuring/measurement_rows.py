"""Measurements as the evaluation tables hold them, so that figures of an index stand beside those of models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from storage.evaluations import Dataset, EvalSettings, Evaluated, Run, Sample
from tasks.rag.measuring.answer_checks import AnswerCheck
from tasks.rag.measuring.measured_figures import Measured, figures
from tasks.rag.measuring.ranking_metrics import Question, Ranked


class Measurement(NamedTuple):
    """What was measured, item by item and in all."""

    measured: Measured
    ranked: tuple[Ranked, ...]
    checks: tuple[AnswerCheck, ...] = ()
    """Empty where answers were not checked."""


class Made(NamedTuple):
    """By which program, and when."""

    version: str
    git_commit: str | None
    started_at: datetime
    ended_at: datetime


class Subject(NamedTuple):
    """The index that was measured."""

    generation: str
    digest: str
    environment: dict[str, JsonValue]


def questions_digest(questions: Sequence[Question]) -> str:
    """SHA-256 of what is asked and expected; the order of the questions is part of it."""
    digest = hashlib.sha256()
    for question in questions:
        digest.update(question.model_dump_json().encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def record(
    measurement: Measurement,
    questions: Sequence[Question],
    *,
    run: str,
    made: Made,
    subject: Subject,
    file: Path,
    split: str | None,
    settings: dict[str, JsonValue],
) -> Evaluated:
    """The rows of one run on one file of questions."""
    return Evaluated(
        run=Run(
            id=run,
            kind="rag",
            started_at=made.started_at,
            ended_at=made.ended_at,
            status="completed",
            version=made.version,
            git_commit=made.git_commit,
            index_generation=subject.generation,
            index_digest=subject.digest,
            environment=subject.environment,
        ),
        dataset=Dataset(
            name=f"{file.stem}/{split}" if split else file.stem,
            source=str(file),
            checksum=questions_digest(questions),
            count=len(questions),
        ),
        settings=EvalSettings(name="rag", parameters=settings),
        results=tuple(figures(measurement.measured)),
        samples=tuple(samples_of(questions, measurement)),
    )


def samples_of(questions: Sequence[Question], measurement: Measurement) -> Iterator[Sample]:
    """What became of each question, as people look it up."""
    ranks = {one.id: one for one in measurement.ranked}
    checks = {check.id: check for check in measurement.checks}
    for question in questions:
        detail: dict[str, JsonValue] = {"question": question.question, "labels": dict(question.labels)}
        if ranked := ranks.get(question.id):
            detail |= {"page": dict(ranked.page), "document": dict(ranked.document)}
        if check := checks.get(question.id):
            detail |= {"gold": question.answer, "checks": check.model_dump(mode="json", exclude={"id"})}
        yield Sample(item=question.id, detail=detail)
