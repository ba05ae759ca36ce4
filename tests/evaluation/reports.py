"""A small run as the flow gives it: two tasks, artifacts and all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import (
    Counts,
    Dataset,
    Estimate,
    EvalReport,
    Item,
    ModelFacts,
    Reply,
    Response,
    RunFacts,
    Sample,
    TaskResult,
    Usage,
)
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.results.results_file import write_files

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = "c" * 64
"""Of the first answer in the response store."""

SAMPLES = (
    Sample(item="1", score=1.0, extracted="4", gold="4", reason="number", group="easy", keys=(KEY, "d" * 64)),
    Sample(item="1", repeat=1, score=0.0, gold="4", group="easy", missing=True, truncated=True),
    Sample(item="2", status="unscored", reason="the grader died", values={"Turn 1": 7.5}, detail={"judgment": "[[7]]"}),
    Sample(item="2", repeat=1, score=0.5, extracted="5\x00", gold="6"),
)


def run_facts(id: str = "a1b2c3d4e5f60718", **changed: Any) -> RunFacts:
    plain: dict[str, Any] = {
        "id": id,
        "model": ModelFacts(name="org/tiny", backend="hf", revision="abc", args={"pretrained": "org/tiny"}),
        "started_at": NOON,
        "ended_at": NOON + timedelta(seconds=90),
        "status": "completed",
        "version": "0.1.0",
        "git_commit": "f" * 40,
        "environment": {"python": "3.11"},
        "config": {"tasks": ["Sums"], "seed": [0, 1234, 1234, 1234]},
    }
    return RunFacts.model_validate(plain | changed)


def task_result(task: str = "Sums", **changed: Any) -> TaskResult:
    plain: dict[str, Any] = {
        "task": task,
        "version": "1-abcdef",
        "family": "math",
        "data": Dataset(name=task, source="own/sums", checksum="b" * 64, count=2),
        "settings": {"version": "1-abcdef", "repeats": 2, "limit": None, "sampling": {"temperature": 0.7}},
        "metrics": {"accuracy_avg": 0.5, "accuracy_std_err": 0.25, "num_total": 2, "run_stats": [{"accuracy": 0.5}]},
        "estimates": (
            Estimate(metric="accuracy_avg", value=0.5, std_err=0.25, low=0.1, high=0.9, n=2, headline=True),
            Estimate(metric="accuracy_avg", part="group=easy", value=0.5, n=1),
        ),
        "counts": Counts(items=2, samples=4, scored=3, unscored=1, truncated=1, missing=1),
        "usage": Usage(calls=4, recalled=1, prompt_tokens=40, completion_tokens=80, latency_s=2.5, cost=0.01),
        "judge": "openai:grader",
        "judge_usage": Usage(calls=2),
        "notes": ("1 of 4 are unscored",),
    }
    return TaskResult.model_validate(plain | changed)


def report(*results: TaskResult, **changed: Any) -> EvalReport:
    return EvalReport(
        run=run_facts(**changed), results=results or (task_result(),), skipped={"Old": "0" * 16}, notes=("a note",)
    )


def with_artifacts(result: TaskResult, artifacts: Artifacts, samples: Iterable[Sample] = SAMPLES) -> TaskResult:
    """The result with items, responses and samples in the store, the samples in two shards."""
    kept = list(samples)
    items = [Item(id=id, prompts=(f"What is {id} + 3?",), system="Be short.") for id in ("1", "2")]
    responses = [
        Response(item=one.item, repeat=one.repeat, turns=(Reply(text=f"It is {one.extracted}.", key=_key(one)),))
        for one in kept
    ]
    return result.model_copy(
        update={
            "items": write_lines(artifacts, "items", items),
            "responses": (write_lines(artifacts, "responses", responses),),
            "samples": tuple(write_lines(artifacts, "samples", half) for half in (kept[:2], kept[2:])),
        }
    )


def write_report(made: EvalReport, samples: Sequence[Sample] = SAMPLES, *, output_path: Path) -> Path:
    """The results file of a report whose tasks have these samples each, without prompts and replies."""
    with TemporaryDirectory() as folder:
        artifacts = Artifacts(Path(folder))
        shards = (write_lines(artifacts, "samples", samples),)
        results = tuple(result.model_copy(update={"samples": shards}) for result in made.results)
        return write_files(made.model_copy(update={"results": results}), artifacts, output_path=output_path)


def _key(sample: Sample) -> str | None:
    return sample.keys[0] if sample.keys else None
