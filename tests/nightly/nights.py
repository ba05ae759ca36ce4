"""Nights as tests need them: a report with everything in it, and names that a page must not act on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from storage.incidents import Incident, IncidentEvent
from tasks.evaluation.evaluation_records import Counts
from tasks.evaluation.results.run_comparison import Change as Flip
from tasks.nightly.night_records import (
    Change,
    Failure,
    IndexRun,
    Measure,
    ModelFactsOfNight,
    ModelRun,
    Night,
    NightReport,
    Point,
    Score,
    Series,
    Trend,
)

TWO = datetime(2026, 3, 1, 2, tzinfo=UTC)
HOSTILE = "</td><script>alert(1)</script>|`x`"


def run(number: int) -> str:
    """An id of a run."""
    return f"{number:032x}"[::-1]


def measure(value: float, number: int, *, metric: str = "accuracy", **changed: Any) -> Measure:
    plain: dict[str, Any] = {"low": max(0.0, value - 0.1), "high": min(1.0, value + 0.1), "n": 40}
    return Measure(metric=metric, value=value, run=run(number), **(plain | changed))


def night(number: int = 0, **changed: Any) -> Night:
    plain: dict[str, Any] = {
        "run": run(900 + number),
        "suite": "models",
        "file": "/suites/models.yaml",
        "started_at": TWO + timedelta(days=number),
        "ended_at": TWO + timedelta(days=number, minutes=4),
        "version": "0.1.0",
        "models": (ModelRun(label="small", run=run(number), tasks={"Sums": run(number)}, calls=40, seconds=75.0),),
    }
    return Night.model_validate(plain | changed)


def worse(of: str = "small", **changed: Any) -> Change:
    plain: dict[str, Any] = {
        "of": of,
        "task": "Sums",
        "verdict": "worse",
        "now": measure(0.5, 2),
        "before": measure(0.9, 1),
        "night": TWO,
        "difference": -0.4,
        "low": -0.55,
        "high": -0.25,
        "p": 0.0004,
        "n": 40,
        "wins": 1,
        "losses": 17,
        "paired": True,
        "worse": (Flip(item="sum/3", before=1.0, after=0.0, answer_after="41", gold="42"),),
    }
    return Change.model_validate(plain | changed)


def incident(**changed: Any) -> Incident:
    plain: dict[str, Any] = {
        "id": run(700),
        "suite": "/suites/models.yaml",
        "of": "small",
        "task": "Sums",
        "metric": "accuracy",
        "kind": "drop",
        "baseline_run": run(1),
        "baseline_value": 0.9,
        "baseline_at": TWO,
        "events": (IncidentEvent(night=run(902), at=TWO, run=run(2), value=0.5, p=0.0004, found="worse"),),
    }
    return Incident.model_validate(plain | changed)


def report(**changed: Any) -> NightReport:
    """A night in which one model got worse, one is new, and one could not be asked."""
    points = tuple(
        Point(night=TWO + timedelta(days=at), measure=measure(value, at)) for at, value in enumerate((0.88, 0.9, 0.5))
    )
    plain: dict[str, Any] = {
        "night": night(2, index=IndexRun(run=run(902), generation="g1", documents=9, failed=1, chunks=99)),
        "state": "Regressed",
        "models": (
            ModelFactsOfNight(
                label="small",
                name="org/small",
                backend="openai",
                revision="abc",
                run=run(2),
                tasks={"Sums": run(2)},
                status="completed",
                answers=40,
                calls=40,
                tokens=12_345,
                cost=0.0123,
                seconds=75.0,
            ),
        ),
        "scores": (
            Score(
                model="small",
                task="Sums",
                measure=measure(0.5, 2),
                counts=Counts(items=40, samples=40, scored=40),
                run=run(2),
                earlier=False,
            ),
        ),
        "changes": (
            worse(),
            Change(of="index", task="page.mrr@10", verdict="first", now=measure(0.8, 902, metric="page.mrr@10")),
        ),
        "trends": (Trend(task="Sums", metric="accuracy", series=(Series(label="small", points=points),)),),
        "index": (measure(0.8, 902, metric="page.mrr@10"),),
        "incidents": (incident(),),
        "failures": (Failure(what="model large", why="it answered 503; start it", may_pass=True),),
        "nights": 3,
        "fails_on_regression": True,
    }
    return NightReport.model_validate(plain | changed)
