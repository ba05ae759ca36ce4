"""Writes runs to the evaluation tables and the results file, reads them back, and imports results files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from models.backends import kinds
from storage.artifacts import Artifacts
from storage.evaluated import EvalSettings, Evaluated, Model, Run, Task
from storage.records import Record
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, ModelFacts, RunFacts, Sample, TaskResult, masked
from tasks.evaluation.record_lines import Asked, read_shards
from tasks.evaluation.results.results_file import read_results, samples_beside, write_results

if TYPE_CHECKING:
    from storage.evaluations import Evaluations


def keep(report: EvalReport, artifacts: Artifacts, evaluations: Evaluations) -> int:
    """Write a run; returns the number of changed rows. Raises DatabaseUnavailable, MissingArtifact, DamagedArtifact."""
    return keep_with(report, lambda result: read_shards(artifacts, result.samples, Sample), evaluations)


def keep_with(report: EvalReport, samples: Callable[[TaskResult], Iterable[Sample]], evaluations: Evaluations) -> int:
    """As `keep`, with samples from any source."""
    changed = evaluations.write_run(run_row(report))
    for result in report.results:
        changed += evaluations.write([rows_of(report, result, partial(samples, result))])
    return changed


def write_files(report: EvalReport, artifacts: Artifacts, *, output_path: Path) -> Path:
    """Write the results file and the samples beside it; returns its path. Raises StoreUnreachable."""
    return write_results(
        report,
        lambda result: read_shards(artifacts, result.samples, Sample),
        output_path=output_path,
        asked=lambda result: Asked(result, artifacts),
    )


def rows_of(report: EvalReport, result: TaskResult, samples: Callable[[], Iterable[Sample]]) -> Evaluated:
    """A task of a run as the tables hold it.

    samples: makes them anew at each call, since a database that goes away is written to again.
    """
    return Evaluated(
        run=run_row(report),
        dataset=result.data,
        settings=EvalSettings(name=result.task, parameters=result.settings),
        results=result.estimates,
        task=_task(result),
        more_samples=samples,
    )


def run_row(report: EvalReport) -> Run:
    """The run as the tables hold it."""
    run = report.run
    return Run(
        id=run.id,
        kind="benchmark",
        started_at=run.started_at,
        ended_at=run.ended_at,
        status=run.status,
        version=run.version,
        git_commit=run.git_commit,
        environment=run.environment,
        model=_model(run.model),
        model_args=masked(run.model.args),
        config=masked(run.config),
        skipped=report.skipped,
        notes=report.notes,
        calls=run.calls,
        cost=run.cost,
    )


def report_from_rows(run: Run, tasks: Sequence[Evaluated]) -> EvalReport:
    """The run that rows of `Evaluations.task_results` describe. Raises ValueError if it measured an index."""
    if run.model is None:
        raise ValueError(f"run {run.id} measured an index, not a model")
    facts = run.model_dump(include={"id", "started_at", "ended_at", "status", "version", "git_commit", "environment"})
    model = ModelFacts(name=run.model.name, backend=run.model.backend, revision=run.model.revision, args=run.model_args)
    return EvalReport(
        run=RunFacts(**facts, model=model, config=run.config, calls=run.calls or 0, cost=run.cost),
        results=tuple(_result(one, one.task) for one in tasks if one.task),
        skipped=run.skipped,
        notes=run.notes,
    )


def _model(model: ModelFacts) -> Model:
    weights, adapter = model.args.get("pretrained"), model.args.get("peft")
    weights = weights if isinstance(weights, str) and model.backend in kinds("process") else None
    adapter = adapter if isinstance(adapter, str) else None
    return Model(
        name=model.name,
        revision=model.revision,
        backend=model.backend,
        is_external=model.backend in kinds("endpoint"),
        weights_location=adapter or weights,
        base_model=weights if adapter else None,
    )


def _task(result: TaskResult) -> Task:
    artifacts: dict[str, JsonValue] = {
        "samples": [ref.model_dump() for ref in result.samples],
        "items": result.items.model_dump() if result.items else None,
        "responses": [ref.model_dump() for ref in result.responses],
    }
    plain = {name: value for name, value in result.model_dump().items() if name in Task.model_fields}
    return Task(**plain, artifacts=artifacts)


def _result(one: Evaluated, task: Task) -> TaskResult:
    return TaskResult.model_validate(
        {
            **task.model_dump(exclude={"artifacts"}),
            **task.artifacts,
            "data": one.dataset,
            "settings": one.settings.parameters,
            "estimates": one.results,
        }
    )


class Imported(Record):
    """An imported run."""

    file: str
    run: str
    model: str
    tasks: tuple[str, ...]
    samples: int
    changed: int
    """New or changed rows; 0: it had been imported before."""
    notes: tuple[str, ...]


def import_all(path: Path, evaluations: Evaluations) -> tuple[list[Imported], dict[str, str]]:
    """Imported files, and why others below the folder cannot be used. Raises ResultsUnusable, DatabaseUnavailable.

    Of a folder: results files at any depth, and all JSON files of the folder itself; a transaction per task.
    """
    if not path.is_dir():
        return [_import(path, evaluations)], {}
    if not (files := sorted({*path.glob("*.json"), *path.rglob("results_*.json")})):
        raise ResultsUnusable(f"{path} has no results file; name results_TIME.json or the folder it is in")
    done: list[Imported] = []
    unusable: dict[str, str] = {}
    for file in files:
        try:
            done.append(_import(file, evaluations))
        except ResultsUnusable as error:
            unusable[str(file)] = str(error)
    return done, unusable


def _import(path: Path, evaluations: Evaluations) -> Imported:
    report = read_results(path)
    seen: Counter[str] = Counter()

    def samples(result: TaskResult) -> Iterator[Sample]:
        seen[result.task] = 0  # a database that came back is written to anew
        for sample in samples_beside(path, result.task):
            seen[result.task] += 1
            yield sample

    changed = keep_with(report, samples, evaluations)
    notes = (
        f"{result.task}: {seen[result.task]} of its {result.counts.samples} samples stand beside the file"
        for result in report.results
        if seen[result.task] != result.counts.samples
    )
    return Imported(
        file=str(path),
        run=report.run.id,
        model=report.run.model.name,
        tasks=tuple(result.task for result in report.results),
        samples=seen.total(),
        changed=changed,
        notes=tuple(notes),
    )
