"""`trivet diff`: why two runs, indexes or artifacts differ, and what that did to the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.commands import Json
from flows.cli.output import Screen, emit, fail, plain_errors
from flows.cli.why_command import SHORT, root_of
from storage.storage_errors import StorageError
from tasks.evaluation.evaluation_errors import EvaluationError, ResultsUnusable

if TYPE_CHECKING:
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.origins.differing import Cause

console = Screen()
DUE_TO = {
    "replies": "other replies",
    "grading": "other grading of the same replies",
}
THING = "A run of `eval run` or `lever run`, the folder of an index, or a digest."


def diff(
    one: Annotated[str, typer.Argument(metavar="ONE", help=THING)],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another one of the same kind.")],
    as_json: Json = False,
) -> None:
    """Show why two runs differ: inputs, parameters, versions of steps, code; of evaluations, what moved the figures."""
    from tasks.origins.differing import causes, inside
    from tasks.resources import lineage

    with plain_errors(EvaluationError, failed=(StorageError,)):
        roots = [root_of(thing) for thing in (one, other)]
        ours, theirs = (inside(root.digest, lineage()) for root in roots)
        for thing, found in ((one, ours), (other, theirs)):
            if not found.steps:
                fail(f"{thing} was made in another home, or before origins were recorded: nothing is known of it")
        names = {**roots[0].names, **roots[1].names}
        asked, figures = _evaluated(*(root.run for root in roots))
        found = [*asked, *causes(ours, theirs, names=names)]
    told = {"one": one, "other": other, "causes": [each.model_dump(mode="json") for each in found], "figures": figures}
    emit(told, as_json, lambda: _show(found, figures))


def _evaluated(one: str, other: str) -> tuple[list[Cause], list[dict[str, Any]]]:
    """What differs in the settings of the tasks that both runs have, and their headlines with what moved them."""
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.origins.differing import Cause, settings
    from tasks.resources import evaluations

    if not (one and other):
        return [], []
    runs = [find_run(run, evaluations()) for run in (one, other)]
    ours, theirs = ({each.task: each for each in run.report.results} for run in runs)
    found, figures = list[Cause](), list[dict[str, Any]]()
    for task in [task for task in ours if task in theirs]:
        mine, yours = ours[task], theirs[task]
        versions = {"version": mine.version}, {"version": yours.version}
        found += settings(mine.settings | versions[0], yours.settings | versions[1], where=task)
        if mine.headline and yours.headline:
            values = {"one": mine.headline.value, "other": yours.headline.value}
            told = _moved_by(*runs, task=task)
            figures.append({"task": task, "metric": mine.headline.metric, **values, **told})
    return found, figures


def _moved_by(one: FoundRun, other: FoundRun, *, task: str) -> dict[str, Any]:
    """The shares of the difference, or why there are none, or which may be too large."""
    from tasks.evaluation.results.difference_shares import shares
    from tasks.evaluation.results.regrading import graded_alike, regrader
    from tasks.resources import artifacts

    mine, yours = (next(each for each in run.report.results if each.task == task) for run in (one, other))
    regrade, unsure = None, {}
    if not graded_alike(mine, yours):
        try:
            regrade = regrader(mine, yours, artifacts())
        except ResultsUnusable as error:
            unsure = {"note": f"other replies count as such even if they were graded otherwise too: {error}"}
    try:
        found = shares(one.told(mine, artifacts()), other.told(yours, artifacts()), regrade)
    except ResultsUnusable as error:
        return {"due_to": [], "note": f"what moved it is not known: {error}"}
    return {"due_to": [share.model_dump(mode="json") for share in found], **unsure}


def _show(causes: list[Cause], figures: list[dict[str, Any]]) -> None:
    for cause in causes:
        name = f" {escape(_shown(cause.name))}" if cause.name else ""
        change = f"{escape(_shown(cause.one))} → {escape(_shown(cause.other))}"
        console.print_line(f"[bold]{cause.what}[/bold] {escape(cause.where)}{name}: {change}")
    if not causes:
        console.print_line(
            "nothing differs in what went in: inputs, parameters, versions of steps and code are the same"
        )
    for one in figures:
        console.print_line(
            f"[cyan]{escape(one['task'])} {escape(one['metric'])}[/cyan] {one['one']:.4g} → {one['other']:.4g} "
            f"({one['other'] - one['one']:+.4g})"
        )
        for share in one["due_to"]:
            if share["changed"]:
                interval = "" if share["low"] is None else f", 95 % {share['low']:+.3f} … {share['high']:+.3f}"
                console.print_line(
                    f"  {DUE_TO[share['due_to']]} {share['value']:+.4g}{interval} ({share['changed']} items)"
                )
        if note := one.get("note"):
            console.print_line(f"  {escape(note)}")


def _shown(value: object) -> str:
    """A digest by its first digits; what one of the two has not as `none`."""
    text = "none" if value is None else str(value)
    return text[:SHORT] if len(text) == 64 and " " not in text else text
