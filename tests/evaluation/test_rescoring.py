"""Answers that are there are graded, and graded again by today's grader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, TaskResult
from tasks.evaluation.results.finding_runs import FoundRun
from tasks.evaluation.results.results_file import read_results, write_files
from tasks.evaluation.running.open_models import ModelSpec, release_models
from tasks.evaluation.running.planning import EvaluationRequest, RunSettings, TaskChoice
from tasks.evaluation.running.rescoring import RegradedRun, score_again, score_file
from tests.evaluation.reports import report, task_result
from tests.evaluation.sums import write_benchmark

SAMPLES = Path(__file__).parents[1] / "samples"
RIGHT = r"It is \boxed{%d}."

pytestmark = pytest.mark.usefixtures("here")


def judge_of(folder: Path, rating: int) -> ModelSpec:
    """Gives every answer the same rating."""
    rules = folder / f"judge-{rating}.json"
    rules.write_text(json.dumps([{"answer": f"Rating: [[{rating}]]"}]))
    return ModelSpec(backend="scripted", name=f"judge-{rating}", args={"rules": str(rules)})


def scored(
    responses: Path, task: str | Path, artifacts: Artifacts, *, judge: ModelSpec | None = None, limit: int | None = None
) -> TaskResult:
    release_models()
    request = EvaluationRequest(
        model=ModelSpec(backend="replay", name="recorded", args={"path": str(responses)}),
        tasks=(TaskChoice(task=str(task)),),
        data_dir=SAMPLES / "benchmarks",
        settings=RunSettings(limit=limit),
        judge=judge,
        auto_judge=judge is None,
    )
    _, result = score_file(request, artifacts)
    return result


def found(folder: Path, artifacts: Artifacts, *results: TaskResult, **config: Any) -> FoundRun:
    """A run of these results, written to a file and read from it."""
    made: EvalReport = report(*results, config=config)
    path = write_files(made, artifacts, output_path=folder / "out" / "r.json")
    return FoundRun(read_results(path), path=path)


def answers(folder: Path, *texts: str) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps({"id": n, "response": text}) + "\n" for n, text in enumerate(texts)))
    return path


@pytest.fixture
def sums(tmp_path: Path, artifacts: Artifacts) -> tuple[Path, TaskResult]:
    """Three sums, of which the first two were answered rightly."""
    path = write_benchmark(tmp_path / "own")
    return path, scored(answers(tmp_path, RIGHT % 0, RIGHT % 2, RIGHT % 5), path, artifacts)


def test_a_judge_grades_and_what_it_took_is_told(tmp_path: Path, artifacts: Artifacts) -> None:
    result = scored(
        SAMPLES / "recorded/model-a/MTBench.jsonl", "MTBench", artifacts, judge=judge_of(tmp_path, 7), limit=2
    )
    assert result.metrics["Average"] == 7
    assert result.judge
    assert result.judge_usage
    assert result.judge_usage.calls == 4, "two questions of two turns"


def again(
    run: FoundRun, artifacts: Artifacts, *, task: str | None = None, judge: ModelSpec | None = None
) -> RegradedRun:
    release_models()
    return score_again(run, artifacts, task=task, judge=judge, settings=RunSettings())


def test_who_judged_the_run_judges_again(tmp_path: Path, artifacts: Artifacts) -> None:
    judge = judge_of(tmp_path, 7)
    before = scored(SAMPLES / "recorded/model-a/MTBench.jsonl", "MTBench", artifacts, judge=judge, limit=1)
    run = found(tmp_path, artifacts, before, judge=judge.model_dump(mode="json"), auto_judge=False)
    [one] = again(run, artifacts).tasks
    assert (one.new.judge, one.changes) == (before.judge, ())


def test_tasks_whose_answers_are_not_kept_one_by_one_are_left_out(
    tmp_path: Path, artifacts: Artifacts, sums: tuple[Path, TaskResult]
) -> None:
    path, result = sums
    blob = artifacts.put("responses", b"{}")
    whole = task_result("Whole", items=None, responses=(blob,), samples=())
    run = found(tmp_path, artifacts, result, whole, tasks=[{"task": str(path)}])
    assert [one.old.task for one in again(run, artifacts).tasks] == ["Sums"]
    with pytest.raises(ResultsUnusable, match="no stored answers to grade again"):
        again(run, artifacts, task="Whole")
