"""Asks the judge of a suite the judgments that people labelled, as a run of the judge on a benchmark of these.

A judge behind an endpoint may change under its name. The response store would recall what it said in the first night,
so each night asks anew, under a number of its own: a retry of that night recalls, the next night does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from models.model_errors import ModelError
from storage.files import sha256_of
from tasks.calls import Answer
from tasks.evaluation.evaluation_records import Counts, Dataset, EvalReport, RunFacts, Sample, TaskResult
from tasks.evaluation.running.model_spec import ModelSpec
from tasks.evaluation.running.open_models import Asking
from tasks.grading.judge_questions import JudgeQuestion, agreement, read_questions, verdict_in
from tasks.measure.estimates import estimates
from tasks.nightly.night_measuring import Program

TASK = "JudgeLabels"
METRIC = "agreement"
MAX_TOKENS = 2048
VERSION = "1"
"""Raised when the figure would change with equal replies."""


class Checked(NamedTuple):
    """The run of a judge."""

    report: EvalReport
    samples: tuple[Sample, ...]
    away: tuple[str, ...]
    """Messages of calls that failed and may succeed on a retry."""


def check_judge(labels: Path, judge: ModelSpec, *, run: str, night: datetime, program: Program) -> Checked:
    """The judge's agreement with people on a file of labels. Raises LabelsUnusable, ModelUnavailable, RequestRefused.

    night: its start, by which the judge is asked anew.
    """
    started, questions = datetime.now(UTC), read_questions(labels)
    asking = Asking(judge)
    draw = int(night.timestamp() * 1e6)
    requests = ((one, one.request(draw=draw, max_tokens=MAX_TOKENS)) for one in questions)
    samples = tuple(sorted((_sample(*answered) for answered in asking.ask_all(requests)), key=lambda one: one.item))
    usage, away = asking.usage, tuple(asking.away)
    result = TaskResult(
        task=TASK,
        version=VERSION,
        family="judge",
        data=Dataset(name=labels.stem, source=str(labels), checksum=sha256_of(labels), count=len(questions)),
        settings={"version": VERSION, "max_tokens": MAX_TOKENS, "model_args": judge.shapes_answers},
        metrics={"num_total": len(questions)},
        estimates=estimates(METRIC, _scores(samples), headline=True),
        counts=_counts(samples),
        usage=usage,
    )
    facts = RunFacts(
        id=run,
        model=judge.facts(asking.chat),
        started_at=started,
        ended_at=datetime.now(UTC),
        status="failed" if away else "completed",
        version=program.version,
        git_commit=program.git_commit,
        calls=usage.calls - usage.recalled,
    )
    return Checked(EvalReport(run=facts, results=(result,)), samples, away)


def _sample(question: JudgeQuestion, answer: Answer | ModelError) -> Sample:
    """The judge's verdict beside the person's; a reply without a verdict agrees with nobody."""
    gold = _words(question.human)
    if isinstance(answer, ModelError):
        why = f"the judge did not answer: {answer}"
        return Sample(item=question.name, status="unscored", gold=gold, reason=why)
    said = verdict_in(answer.response.text, question.human)
    return Sample(
        item=question.name,
        score=agreement(question.human, said),
        extracted=None if said is None else _words(said),
        gold=gold,
        reason="agreement" if said is not None else "the reply holds no verdict",
        truncated=answer.response.finish_reason == "length",
        missing=said is None,
        keys=(answer.key,),
    )


def _words(verdict: str | float) -> str:
    return verdict if isinstance(verdict, str) else f"{verdict:g}"


def _scores(samples: Sequence[Sample]) -> dict[str, list[float]]:
    return {one.item: [one.score] for one in samples if one.score is not None}


def _counts(samples: Sequence[Sample]) -> Counts:
    scored = sum(one.status == "scored" for one in samples)
    return Counts(
        items=len(samples),
        samples=len(samples),
        scored=scored,
        unscored=len(samples) - scored,
        truncated=sum(one.truncated for one in samples),
        missing=sum(one.missing for one in samples),
    )
