"""Benchmarks with evalchemy's two methods: generated and graded in one piece, their model calls kept as all are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import JsonValue

from storage.artifacts import Artifacts
from tasks.evaluation.benchmarks.as_lm import AsLM
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Counts, Estimate, TaskResult
from tasks.evaluation.running.open_models import Asking
from tasks.evaluation.running.planning import PlannedTask

HEADLINES = ("accuracy_avg", "accuracy", "score", "Average", "pass@1", "win_rate")
ERRORS = ("{}_std_err", "{}_stderr", "{}_std_error")
"""What evalchemy's benchmarks call the standard error of a metric; of `accuracy_avg` it is `accuracy_std_err`."""
USUAL_MISTAKES = (
    *(TypeError, AttributeError, LookupError, ValueError, ArithmeticError),
    *(AssertionError, NotImplementedError, OSError),
)
"""What code of others raises; errors of a model or of the storage are none of these and go on."""


def run(task: PlannedTask, asking: Asking, artifacts: Artifacts) -> TaskResult:
    """What the benchmark's own two methods find. Raises BenchmarkUnusable naming the method that failed."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    benchmark = find_benchmark(task.benchmark)
    model = AsLM(
        asking.ask_all, name=asking.chat.id, template=task.template, system=task.system, overrides=task.overrides
    )
    generated = _call(task, "generate_responses", lambda: benchmark.generate_responses(model))
    kept = artifacts.put("responses", json.dumps(generated, ensure_ascii=False, default=str).encode("utf-8", "replace"))
    found = _call(task, "evaluate_responses", lambda: benchmark.evaluate_responses(generated))
    metrics = cast("dict[str, JsonValue]", json.loads(json.dumps(found, default=_plain), parse_constant=_no_number))
    examples = generated.get("examples")
    count = len(cast("list[Any]", examples)) if isinstance(examples, list) else 0
    return TaskResult(
        task=task.task,
        version=task.version,
        family=task.family,
        data=task.data.model_copy(update={"count": count}),
        settings=task.settings,
        metrics=metrics,
        estimates=tuple(_estimates(metrics, count)),
        counts=Counts(items=count, samples=count, scored=count),
        usage=asking.usage,
        responses=(kept,),
        notes=("graded by the benchmark's own code, which keeps no single samples",),
    )


def _call(task: PlannedTask, method: str, call: Any) -> dict[str, Any]:
    try:
        found: object = call()
    except USUAL_MISTAKES as error:
        raise BenchmarkUnusable(f"{task.benchmark}: {method} failed with {type(error).__name__}: {error}") from error
    if not isinstance(found, dict):
        raise BenchmarkUnusable(f"{task.benchmark}: {method} gave {type(found).__name__}, expected a dict")
    return cast("dict[str, Any]", found)


def _estimates(metrics: Mapping[str, JsonValue], count: int) -> Iterator[Estimate]:
    """Every number among the metrics; its standard error where the benchmark gives one."""
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    numbers = {name: value for name, value in numbers.items() if not isinstance(metrics[name], bool)}
    errors = {name: _error_of(name, numbers) for name in numbers}
    figures = [name for name in numbers if name not in errors.values()]
    headline = next((name for name in HEADLINES if name in figures), next(iter(figures), None))
    for name in figures:
        error = errors[name]
        std_err = None if error is None else numbers[error]
        yield Estimate(metric=name, value=numbers[name], std_err=std_err, n=count, headline=name == headline)


def _error_of(name: str, numbers: Mapping[str, float]) -> str | None:
    """Under which name the standard error of a metric stands."""
    stems = (name, name.removesuffix("_avg"))
    return next((found for stem in stems for pattern in ERRORS if (found := pattern.format(stem)) in numbers), None)


def _plain(value: Any) -> Any:
    """A number or a list of numpy's as a plain one, anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _no_number(constant: str) -> None:
    """NaN and infinity, which JSON and the database do not hold, are figures that are not there."""
    del constant
