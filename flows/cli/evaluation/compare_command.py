"""`trivet eval compare`: two runs item by item, with interval, p value and the items that made the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import Json
from flows.cli.evaluation.show_command import RUN, TasksOption, named_tasks
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail, plain_errors
from storage.storage_errors import StorageError
from tasks.evaluation.evaluation_errors import EvaluationError, ResultsUnusable

if TYPE_CHECKING:
    from tasks.evaluation.evaluation_records import RunFacts
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.evaluation.results.run_comparison import Change, TaskComparison


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=f"The baseline. {RUN}")],
    b: Annotated[str, typer.Argument(metavar="B", help="The run to compare with it, named like A.")],
    task: TasksOption = None,
    flips: Annotated[
        int, typer.Option(min=0, help="Number of changed items to show of each kind; --json lists all.")
    ] = 5,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit 1 if B is significantly worse.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare run B with run A, paired by item: difference, 95 % interval, p, and the items that flipped."""
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.resources import evaluations

    with plain_errors(EvaluationError, failed=(StorageError,)):
        before, after = find_run(a, evaluations()), find_run(b, evaluations())
        compared, notes = _compare(before, after, _shared(before, after, named_tasks(task)))
    told = {
        "a": before.report.run.model_dump(mode="json", include={"id", "model", "ended_at"}),
        "b": after.report.run.model_dump(mode="json", include={"id", "model", "ended_at"}),
        "tasks": [one.model_dump(mode="json") for one in compared],
        "notes": notes,
    }
    emit(told, as_json, lambda: _show(before.report.run, after.report.run, compared, notes, flips=flips))
    if fail_on_regression and any(one.regressed for one in compared):
        raise typer.Exit(FAILED)


def _shared(before: FoundRun, after: FoundRun, wanted: list[str] | None) -> list[str]:
    """The named tasks, or those that both runs have."""
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
    """The comparison of each task, and notes about tasks that cannot be compared; raises if none can."""
    from tasks.evaluation.results.run_comparison import compare_task

    compared: list[TaskComparison] = []
    refused: list[ResultsUnusable] = []
    for task in tasks:
        first, second = (next(one for one in run.report.results if one.task == task) for run in (before, after))
        try:
            compared.append(compare_task(first, before.graded(task), second, after.graded(task)))
        except ResultsUnusable as error:
            refused.append(ResultsUnusable(f"{task}: {error}"))
    if not compared:
        raise refused[0]
    missing = {one.task for run in (before, after) for one in run.report.results} - set(tasks)
    notes = [str(error) for error in refused]
    if missing:
        notes.append(f"in one run only, or not asked for: {', '.join(sorted(missing))}")
    return compared, notes


ANSWER_CHARS = 40


def _show(
    before: RunFacts, after: RunFacts, compared: Sequence[TaskComparison], notes: Sequence[str], *, flips: int
) -> None:
    console = Screen()
    for letter, run in (("A", before), ("B", after)):
        ended = f"{run.ended_at:%Y-%m-%d %H:%M}" if run.ended_at else run.status
        console.print(f"[bold]{letter}[/bold]  {escape(run.model.name)}  [dim]{ended}, run {escape(run.id[:8])}[/dim]")
    for one in compared:
        console.print()
        _task(console, one, flips=flips)
    console.print_notes(notes)


def _task(console: Screen, one: TaskComparison, *, flips: int) -> None:
    found = one.comparison
    verdict = "[bold green]B is better[/bold green]" if found.significant else "[dim]no difference beyond chance[/dim]"
    verdict = "[bold red]B is worse[/bold red]" if one.regressed else verdict
    console.print(f"[bold]{escape(one.task)}[/bold]  {verdict}")
    for difference in found.differs:
        console.print(f"  [bold yellow]not the same[/bold yellow] {escape(difference)}", soft_wrap=True)
    interval = "" if found.low is None else f"   95 % {found.low:+.3f} … {found.high:+.3f}"
    console.print(f"  {found.before:.3f} → {found.after:.3f}   B - A {found.difference:+.3f}{interval}")
    p = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}"
    console.print(
        f"  {p} ({found.method})   {found.wins} better, {found.ties} equal, {found.losses} worse of {found.n} items"
    )
    for items, said in (
        (found.unscored, "unscored in one of the runs, not compared"),
        (found.only_before, "only in A"),
        (found.only_after, "only in B"),
    ):
        if items:
            named = f"{', '.join(items[:5])}{' …' if len(items) > 5 else ''}"
            console.print(f"  [yellow]{escape(f'{len(items)} {said}: {named}')}[/yellow]", soft_wrap=True)
    right = found.method == "McNemar, exact"
    for name, changes in (
        ("became wrong" if right else "worse", found.worse),
        ("became right" if right else "better", found.better),
    ):
        if changes and flips:
            console.print(_changes(name, changes, flips=flips))


def _changes(name: str, changes: Sequence[Change], *, flips: int) -> Table:
    shown = f"{name} ({min(flips, len(changes))} of {len(changes)})" if len(changes) > flips else name
    table = Table(escape(shown), "A", "B", "gold", box=None, header_style="bold", padding=(0, 2))
    for change in changes[:flips]:
        before = _answer(change.before, change.answer_before)
        table.add_row(escape(change.item), before, _answer(change.after, change.answer_after), _text(change.gold))
    return table


def _answer(score: float, answer: str | None) -> str:
    if answer == "":
        return {0.0: "wrong", 1.0: "right"}.get(score) or f"{score:.2f}"
    said = "[dim]no answer[/dim]" if answer is None else _text(answer)
    return said if score in (0, 1) else f"{score:.2f}  {said}"


def _text(text: str | None) -> str:
    plain = " ".join((text or "").split())
    return escape(plain if len(plain) <= ANSWER_CHARS else f"{plain[:ANSWER_CHARS]}…")
