"""Finds a run by what a person calls it: a results file, a folder of one, an id, or a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, Sample

if TYPE_CHECKING:
    from storage.evaluations import Evaluations, Run

LOOKED_AT = 20
"""Latest runs of a model of which one has to have ended."""


class FoundRun:
    """A run, out of a results file or out of the database."""

    def __init__(self, report: EvalReport, *, path: Path | None = None, evaluations: Evaluations | None = None) -> None:
        self.report = report
        self.path = path
        """Its results file; None where it came out of the database."""
        self._evaluations = evaluations

    def samples(self, task: str) -> Iterator[Sample]:
        """The samples of a task, one at a time. Raises ResultsUnusable, DatabaseUnavailable."""
        from tasks.evaluation.results.result_rows import sample_from_row
        from tasks.evaluation.results.results_file import samples_beside

        self.require(task)
        if self.path:
            return samples_beside(self.path, task)
        assert self._evaluations
        return map(sample_from_row, self._evaluations.samples(self.report.run.id, task))

    def item(self, task: str, item: str) -> list[Sample]:
        """The samples of one item, by repeat; none where it is not there. Raises as `samples` does."""
        from tasks.evaluation.results.result_rows import sample_from_row

        self.require(task)
        if self._evaluations and not self.path:
            rows = self._evaluations.sample(self.report.run.id, task, item)
            return [sample_from_row(row) for row in rows]
        return sorted((one for one in self.samples(task) if one.item == item), key=lambda one: one.repeat)

    def texts(self, task: str, sample: Sample) -> tuple[list[str], list[str]]:
        """Prompts and replies of a sample, where the results file has them beside it. Raises ResultsUnusable."""
        from tasks.evaluation.results.results_file import lines_beside

        for one, texts in lines_beside(self.path, task) if self.path else ():
            if (one.item, one.repeat) == (sample.item, sample.repeat):
                return texts["prompt"], texts["response"]
        return [], []

    def require(self, task: str) -> None:
        """Raises ResultsUnusable naming the tasks of the run."""
        tasks = [result.task for result in self.report.results]
        if task not in tasks:
            raise ResultsUnusable(f"run {self.report.run.id} has no task {task}; it has {', '.join(tasks) or 'none'}")


def find_run(which: str, evaluations: Evaluations | None) -> FoundRun:
    """The run called `which`: a results file, a folder of one, an id or how it begins, or a model, whose last it is.

    evaluations: None to look at files only. Raises ResultsUnusable, DatabaseUnavailable.
    """
    from tasks.evaluation.results.results_file import read_results

    path = Path(which)
    if which.endswith(".json") or path.is_file():
        return FoundRun(read_results(path), path=path)
    if path.is_dir():
        newest = newest_results(path)
        return FoundRun(read_results(newest), path=newest)
    if evaluations is None:
        raise ResultsUnusable(f"{which} is no results file and no folder of one; name one")
    return _in_database(which, evaluations)


def newest_results(folder: Path) -> Path:
    """The newest results file in a folder or the folders in it. Raises ResultsUnusable."""
    found = [*folder.glob("results_*.json"), *folder.glob("*/results_*.json")]
    if not found and len(named := [*folder.glob("*.json")]) == 1:
        return named[0]
    if not found:
        raise ResultsUnusable(f"{folder} has no results_TIME.json; name a results file or its folder")
    return max(found, key=lambda file: (file.name, file.parent.name))  # the name ends with the time


def _in_database(which: str, evaluations: Evaluations) -> FoundRun:
    from storage.storage_errors import UnknownRun
    from tasks.evaluation.results.result_rows import report_from_rows

    try:
        run = evaluations.run(which)
    except UnknownRun as unknown:
        latest = _latest_of(which, evaluations)
        if latest is None:
            raise ResultsUnusable(
                f"{which} is no results file, no run and no model that was evaluated: {unknown}"
            ) from unknown
        run = latest
    try:
        report = report_from_rows(run, evaluations.task_results(run.id))
    except ValueError as error:
        raise ResultsUnusable(f"{error}; name a run of `trivet eval run`") from error
    return FoundRun(report, evaluations=evaluations)


def _latest_of(model: str, evaluations: Evaluations) -> Run | None:
    """The last run of a model, one that has ended before one that goes on."""
    runs = evaluations.runs(kind="benchmark", model=model, limit=LOOKED_AT)
    return next((run for run in runs if run.status != "running"), runs[0] if runs else None)
