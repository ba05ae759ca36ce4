"""A run against the last one of the same model, data and settings, as the database has it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage import connections
from storage.artifacts import Artifacts
from storage.evaluations import Evaluations
from tasks.evaluation.evaluation_records import AgainstLast, EvalReport, ModelFacts, Sample, TaskResult
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.results.results_file import store_run
from tasks.evaluation.results.run_comparison import compare_with_last_run
from tasks.grading.sample_statistics import summarise_single
from tests.evaluation.reports import NOON, report, task_result
from tests.storage.conftest import running as running  # a fixture

ITEMS = 10


@pytest.fixture
def evaluations(running: Path) -> Iterator[Evaluations]:
    address = connections.locate(None, home=running)
    yield Evaluations(lambda: address)
    connections.engine(address).dispose()


def result(artifacts: Artifacts, right: int, task: str = "Sums", **changed: Any) -> TaskResult:
    """The first `right` of ten items are right."""
    samples = [Sample(item=str(n), score=float(n < right)) for n in range(ITEMS)]
    summary = summarise_single(samples)
    figures = {"metrics": summary.metrics, "estimates": summary.estimates, "counts": summary.counts}
    return task_result(task, **figures, samples=(write_lines(artifacts, "samples", samples),), **changed)


def run(number: int, *results: TaskResult, model: str) -> EvalReport:
    """The run of an hour."""
    start = NOON + timedelta(hours=number)
    facts = ModelFacts(name=model, backend="openai")
    times: dict[str, Any] = {"started_at": start, "ended_at": start + timedelta(minutes=1)}
    return report(*results, id=f"{number}0000000{abs(hash(model)):016x}"[:24], model=facts, **times)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("before", "after", "line", "regressed"),
    [
        # six lost, none won: McNemar 2 · 1/64; five: 2 · 1/32
        (9, 3, "Sums: REGRESSION, 0.900 → 0.300 (-0.600, p = 0.031)", ["Sums"]),
        (9, 4, "Sums: 0.900 → 0.400 (-0.500, p = 0.062)", []),
        (3, 9, "Sums: 0.300 → 0.900 (+0.600, p = 0.031)", []),
    ],
)
def test_a_run_is_compared_with_the_last_one(
    artifacts: Artifacts, evaluations: Evaluations, before: int, after: int, line: str, regressed: list[str]
) -> None:
    model = f"from-{before}-to-{after}"
    last = run(1, result(artifacts, before), model=model)
    store_run(last, artifacts, evaluations)
    new = run(2, result(artifacts, after), model=model)
    store_run(new, artifacts, evaluations)
    said = compare_with_last_run(new, artifacts, evaluations)
    assert said.lines == (f"{line} since run {last.run.id[:8]}",)
    assert said.regressions == tuple(regressed)


@pytest.mark.postgres
def test_the_last_one_is_the_latest_before_it(artifacts: Artifacts, evaluations: Evaluations) -> None:
    runs = [run(number, result(artifacts, number), model="in-turn") for number in (1, 2, 3)]
    for one in runs:
        store_run(one, artifacts, evaluations)
    [line] = compare_with_last_run(runs[2], artifacts, evaluations).lines
    assert "0.200 → 0.300" in line
    assert compare_with_last_run(runs[0], artifacts, evaluations) == AgainstLast()


@pytest.mark.postgres
@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {"repeats": 1}},
        {"data": task_result().data.model_copy(update={"checksum": "e" * 64})},
        {"task": "Terms"},
    ],
    ids=["settings", "data", "task"],
)
def test_a_run_of_something_else_is_no_measure(
    artifacts: Artifacts, evaluations: Evaluations, changed: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    model = request.node.name
    store_run(run(1, result(artifacts, 9), model=model), artifacts, evaluations)
    new = run(2, result(artifacts, 1).model_copy(update=changed), model=model)
    assert compare_with_last_run(new, artifacts, evaluations) == AgainstLast()


@pytest.mark.postgres
def test_without_samples_in_common_the_intervals_are_laid_side_by_side(
    artifacts: Artifacts, evaluations: Evaluations
) -> None:
    store_run(run(1, result(artifacts, 9), model="other-items"), artifacts, evaluations)
    samples = write_lines(artifacts, "samples", [Sample(item="elsewhere", score=0.0)])
    new = run(2, result(artifacts, 0).model_copy(update={"samples": (samples,)}), model="other-items")
    said = compare_with_last_run(new, artifacts, evaluations)
    assert said.lines[0].startswith("Sums: REGRESSION, 0.900 → 0.000 (-0.900, p = 0.000)")
