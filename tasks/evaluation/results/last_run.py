"""A run against the last one of the same model, data and settings: is it worse, and not by chance?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, TaskResult
from tasks.evaluation.results.run_comparison import Comparison, compare, regression

if TYPE_CHECKING:
    from storage.evaluations import Evaluations


class AgainstLast(NamedTuple):
    """What is said of each task, and which of them are worse."""

    lines: list[str]
    regressions: list[str]


def against_last(report: EvalReport, artifacts: Artifacts, evaluations: Evaluations) -> AgainstLast:
    """Every task that was evaluated before under the same settings, against that time. Raises DatabaseUnavailable."""
    said = AgainstLast([], [])
    for result in report.results:
        if (last := _last(report, result, evaluations)) is None:
            continue
        for line, regressed in _told(result, last, artifacts, evaluations):
            said.lines.append(line)
            if regressed:
                said.regressions.append(result.task)
    return said


class _Last(NamedTuple):
    run: str
    result: TaskResult


def _last(report: EvalReport, result: TaskResult, evaluations: Evaluations) -> _Last | None:
    from storage.evaluations import EvalSettings
    from tasks.evaluation.results.result_rows import report_from_rows

    run = evaluations.previous(
        model_name=report.run.model.name,
        task=result.task,
        dataset_checksum=result.data.checksum,
        settings_digest=EvalSettings(name=result.task, parameters=result.settings).digest,
        before=report.run.started_at,
    )
    if run is None:
        return None
    found = report_from_rows(evaluations.run(run), evaluations.task_results(run))
    return next((_Last(run, one) for one in found.results if one.task == result.task), None)


def _told(
    result: TaskResult, last: _Last, artifacts: Artifacts, evaluations: Evaluations
) -> Iterator[tuple[str, bool]]:
    new, old = result.headline, last.result.headline
    if new is None or old is None:
        return
    compared = _compared(result, last, artifacts, evaluations)
    found = regression(new, old, compared=compared)
    p = "" if found.p is None else f", p = {found.p:.3f}"
    word = "REGRESSION, " if found.regressed else ""
    line = (
        f"{result.task}: {word}{old.value:.3f} → {new.value:.3f} ({found.difference:+.3f}{p}) since run {last.run[:8]}"
    )
    yield line, found.regressed


def _compared(result: TaskResult, last: _Last, artifacts: Artifacts, evaluations: Evaluations) -> Comparison | None:
    from tasks.evaluation.results.result_rows import sample_from_row, samples_in

    before = map(sample_from_row, evaluations.samples(last.run, result.task))
    try:
        return compare(before, samples_in(artifacts, result.samples))
    except ResultsUnusable:  # nothing that both could score
        return None
