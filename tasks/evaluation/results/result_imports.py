"""Brings results files into the evaluation tables: runs that ended while the database was away, runs of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from storage.records import Record
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Sample, TaskResult
from tasks.evaluation.results.result_rows import keep_with
from tasks.evaluation.results.results_file import read_results, samples_beside

if TYPE_CHECKING:
    from storage.evaluations import Evaluations


class Imported(Record):
    """A results file that is in the database now."""

    file: str
    run: str
    tasks: tuple[str, ...]
    samples: int
    """That stand beside the file."""
    changed: int
    """Rows that were not there, or said something else; 0: it had been imported before."""
    notes: tuple[str, ...]


def import_all(path: Path, evaluations: Evaluations) -> tuple[list[Imported], dict[str, str]]:
    """Import a results file, or all below a folder; also gives what is wrong with files that cannot be used.

    Raises ResultsUnusable when `path` itself cannot be used, DatabaseUnavailable.
    """
    if not path.is_dir():
        return [import_file(path, evaluations)], {}
    done: list[Imported] = []
    unusable: dict[str, str] = {}
    for file in _results_files(path):
        try:
            done.append(import_file(file, evaluations))
        except ResultsUnusable as error:
            unusable[str(file)] = str(error)
    return done, unusable


def import_file(path: Path, evaluations: Evaluations) -> Imported:
    """Write a results file and the samples beside it, a transaction per task.

    Raises ResultsUnusable, DatabaseUnavailable.
    """
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
        tasks=tuple(result.task for result in report.results),
        samples=seen.total(),
        changed=changed,
        notes=tuple(notes),
    )


def _results_files(folder: Path) -> list[Path]:
    """Those with a name that we give, at any depth, and all JSON files of the folder itself."""
    found = {*folder.rglob("results_*.json"), *folder.glob("*.json")}
    if not found:
        raise ResultsUnusable(f"{folder} has no results file; name results_TIME.json or the folder it is in")
    return sorted(found)
