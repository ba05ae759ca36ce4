"""`trivet eval compare`: two runs item by item, with interval, p value and the items that made the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.evaluation import show_comparison
from flows.cli.output import FAILED, REFUSED, emit, fail, plain_errors

if TYPE_CHECKING:
    from storage.evaluations import Evaluations
    from tasks.evaluation.comparing import TaskComparison
    from tasks.evaluation.finding_runs import FoundRun

RUN = "Results file, folder of one, id of a run or its first 6 characters, or a model: its last run."


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet eval`."""
    app.command()(compare)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=f"What is compared with. {RUN}")],
    b: Annotated[str, typer.Argument(metavar="B", help="What is new; named as A is.")],
    task: Annotated[
        list[str] | None, typer.Option("--task", "--tasks", help="Only this benchmark; may be given again, or A,B.")
    ] = None,
    flips: Annotated[int, typer.Option(min=0, help="Changed items shown, of each kind; --json gives all.")] = 5,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit 1 where B is worse beyond chance."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare run B with run A, paired by item: difference, 95 % interval, p, and the items that flipped."""
    from storage.errors import StorageError
    from tasks.evaluation.errors import EvaluationError
    from tasks.evaluation.finding_runs import find_run

    tasks = [name for given in task or () for name in given.split(",") if name] or None
    with plain_errors(EvaluationError, failed=(StorageError,)):
        evaluations = _evaluations()
        before, after = find_run(a, evaluations), find_run(b, evaluations)
        compared, notes = _compare(before, after, _shared(before, after, tasks))
    told = {
        "a": before.report.run.model_dump(mode="json", include={"id", "model", "ended_at"}),
        "b": after.report.run.model_dump(mode="json", include={"id", "model", "ended_at"}),
        "tasks": [one.model_dump(mode="json") for one in compared],
        "notes": notes,
    }
    emit(told, as_json, lambda: show_comparison.runs(before.report.run, after.report.run, compared, notes, flips=flips))
    if fail_on_regression and any(one.regressed for one in compared):
        raise typer.Exit(FAILED)


def _evaluations() -> Evaluations:
    from flows.settings import configure_steps
    from tasks.resources import evaluations

    configure_steps()
    return evaluations()


def _shared(before: FoundRun, after: FoundRun, wanted: list[str] | None) -> list[str]:
    """Tasks that both runs have, or those named; a named one that a run lacks is refused by `require`."""
    for task in wanted or ():
        before.require(task)
        after.require(task)
    of_both = [[result.task for result in run.report.results] for run in (before, after)]
    shared = wanted or [task for task in of_both[0] if task in of_both[1]]
    if not shared:
        first, second = (", ".join(tasks) or "none" for tasks in of_both)
        fail(f"the two runs have no task in common: {first}, and {second}", REFUSED)
    return shared


def _compare(before: FoundRun, after: FoundRun, tasks: list[str]) -> tuple[list[TaskComparison], list[str]]:
    """Each task compared, and a note for each that cannot be; raises if none can."""
    from tasks.evaluation.comparing import compare_task
    from tasks.evaluation.errors import ResultsUnusable

    compared: list[TaskComparison] = []
    refused: list[ResultsUnusable] = []
    for task in tasks:
        first, second = (next(one for one in run.report.results if one.task == task) for run in (before, after))
        try:
            compared.append(compare_task(first, before.samples(task), second, after.samples(task)))
        except ResultsUnusable as error:
            refused.append(ResultsUnusable(f"{task}: {error}"))
    if not compared:
        raise refused[0]
    missing = {one.task for run in (before, after) for one in run.report.results} - set(tasks)
    notes = [str(error) for error in refused]
    return compared, [
        *notes,
        *([f"in one run only, or not asked for: {', '.join(sorted(missing))}"] if missing else []),
    ]
