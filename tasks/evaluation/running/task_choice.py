"""Turns the tasks that a user named into a plan: whose items, which settings, and what was done before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from storage.artifacts import Artifacts
from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, PreflightFailed, UnknownTask
from tasks.evaluation.evaluation_records import ModelFacts
from tasks.evaluation.running.model_spec import ModelSpec
from tasks.evaluation.running.open_models import open_model
from tasks.evaluation.running.planning import Plan, PlannedTask, RunSettings, TaskChoice, plan_task, settings_digest
from tasks.evaluation.running.replaying import recorded_of, repeats_in

if TYPE_CHECKING:
    from storage.evaluations import Evaluations


def choose(
    tasks: Sequence[TaskChoice],
    artifacts: Artifacts,
    *,
    model: ModelSpec,
    judge: ModelSpec | None,
    auto_judge: bool,
    data_dir: Path | None,
    include_path: Path | None,
    settings: RunSettings,
    known: Evaluations | None,
) -> Plan:
    """The plan of a run. Raises UnknownTask, DataMissing, DataUnusable, BenchmarkUnusable, ModelUnavailable.

    judge: grades where a benchmark wants a judge; auto_judge: the benchmark's own choice does.
    known: where earlier results are; None to look nowhere. A database that is away knows nothing.
    """
    from tasks.evaluation.benchmarks.benchmark_registry import definition_digest
    from tasks.evaluation.running.benchmark_data import Data

    found = [(chosen, find(chosen.task, include_path)) for chosen in tasks]  # before a model is loaded for a typo
    facts = model.facts(open_model(model))
    data = Data(data_dir)
    planned: list[PlannedTask] = []
    harness: list[TaskChoice] = []
    skipped: dict[str, str] = {}
    for chosen, benchmark in found:
        if benchmark is None:
            harness.append(chosen)
            continue
        task = plan_task(
            benchmark,
            data,
            artifacts,
            named=_name_of(chosen.task, benchmark),
            definition=definition_digest(benchmark),
            settings=_as_recorded(settings, model, benchmark),
            model=model,
            judge=judge_of(benchmark, judge, auto=auto_judge),
            batch_size=chosen.batch_size,
        )
        _refuse_to_generate(task, model)
        if known and (run := done_before(task, facts, known)):
            skipped[task.task] = run
        else:
            planned.append(task)
    return Plan(model=facts, tasks=tuple(planned), harness=tuple(harness), skipped=skipped)


def find(name: str, include_path: Path | None) -> BaseBenchmark | None:
    """The benchmark of that name; None where it is a task of the harness. Raises UnknownTask listing what exists."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark, plainly_named
    from tasks.evaluation.harness.harness_task import is_harness_task

    try:
        return find_benchmark(name)
    except (UnknownTask, BenchmarkUnusable):  # a YAML file of the harness is none of ours
        if is_harness_task(name, include_path):
            return None
        if benchmark := plainly_named(name):
            return benchmark
        if is_harness_task(name.lower(), include_path):
            raise UnknownTask(f"there is no benchmark {name}; the harness has the task {name.lower()}") from None
        raise


def _name_of(named: str, benchmark: BaseBenchmark) -> str:
    """By what the steps find it again: a file or a class as it was named, else its own name."""
    return named if any(sign in named for sign in "./:") else benchmark.name


def judge_of(benchmark: BaseBenchmark, judge: ModelSpec | None, *, auto: bool) -> ModelSpec | None:
    """Who grades this benchmark; None where its grader needs no model."""
    if benchmark.judge is None:
        return None
    if not auto:
        return judge
    backend, _, name = benchmark.judge.partition(":")
    named = {"backend": backend, "name": name}
    return judge.model_copy(update=named) if judge else ModelSpec(backend=backend, name=name)


def done_before(task: PlannedTask, model: ModelFacts, known: Evaluations) -> str | None:
    """The run that evaluated the same revision on the same data under the same settings, if there is one."""
    from storage.storage_errors import DatabaseUnavailable

    try:
        return known.evaluated_before(
            model_name=model.name,
            model_revision=model.revision,
            backend=model.backend,
            dataset_name=task.data.name,
            dataset_checksum=task.data.checksum,
            settings_digest=settings_digest(task),
        )
    except DatabaseUnavailable:
        return None


def _as_recorded(settings: RunSettings, model: ModelSpec, benchmark: BaseBenchmark) -> RunSettings:
    """Recorded answers have the repeats that they have."""
    if model.backend != "replay" or settings.n_repeat:
        return settings
    return settings.model_copy(update={"n_repeat": repeats_in(recorded_of(model, benchmark.name))})


def _refuse_to_generate(task: PlannedTask, model: ModelSpec) -> None:
    if task.score_only and model.backend != "replay":
        raise PreflightFailed(
            f"{task.task} grades recorded answers and asks no model; give them with --model replay "
            f"--model_args path=FOLDER, or `trivet eval score FILE --task {task.task}`"
        )
