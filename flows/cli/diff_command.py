"""`trivet diff`: why two runs, indexes or artifacts differ, and what that did to the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.commands import Json
from flows.cli.output import REFUSED, Screen, emit, fail, plain_errors
from flows.cli.shared_options import require_file
from flows.cli.why_command import SHORT, root_of
from storage.storage_errors import StorageError
from tasks.evaluation.evaluation_errors import EvaluationError, ResultsUnusable
from tasks.rag import STRATEGY

if TYPE_CHECKING:
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.origins.differing import Cause

console = Screen()
DUE_TO = {
    "replies": "other replies",
    "grading": "other grading of the same replies",
}
CHANGED = {"added": "added", "removed": "removed", "changed": "changed", "recut": "cut otherwise"}
SHOWN_DOCUMENTS = 20
THING = "A run of `eval run` or `lever run`, the folder of an index, or a digest."


def diff(
    one: Annotated[str, typer.Argument(metavar="ONE", help=THING)],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another one of the same kind.")],
    questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of two indexes: show which of these questions (JSONL) find other pages."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show why two runs or indexes differ: inputs, parameters, versions, code; and what that changed in the results."""
    from tasks.origins.differing import causes, inside, made
    from tasks.resources import lineage

    with plain_errors(EvaluationError, ValueError, failed=(StorageError,)):
        roots = [root_of(thing) for thing in (one, other)]
        ours, theirs = (inside(root.digest, lineage()) for root in roots)
        for thing, found in ((one, ours), (other, theirs)):
            if not found.steps:
                fail(f"{thing} was made in another home, or before origins were recorded: nothing is known of it")
        first, second = (root.folder for root in roots)
        indexes = _of_indexes(first, second, questions) if first and second else {}
        if questions and not indexes:
            fail(f"--questions {questions}: runs are not asked; leave it, or name the folders of two indexes", REFUSED)
        names = {**roots[0].names, **roots[1].names}
        asked, figures = _measured(*(root.run for root in roots))
        found = [*asked, *causes(ours, theirs, names=names)]
    results = {"figures": figures, "made": [each.model_dump(mode="json") for each in made(ours, theirs)], **indexes}
    told = {"one": one, "other": other, "causes": [each.model_dump(mode="json") for each in found], **results}
    emit(told, as_json, lambda: _show(found, results))


def _of_indexes(one: Path, other: Path, questions: Path | None) -> dict[str, Any]:
    """How two indexes differ in documents and counts, and in the pages that each question finds."""
    from storage.index import open_index
    from tasks.rag.measuring.index_differences import asked, difference
    from tasks.rag.measuring.measured_figures import places_in
    from tasks.rag.measuring.ranking_metrics import read_questions

    how: dict[str, Any] = {"strategy": STRATEGY, "bm25_weight": 1.0, "route": True, "rerank": None}
    with open_index(one) as mine, open_index(other) as yours:
        told: dict[str, Any] = {"index": difference(mine, yours).model_dump(mode="json")}
        if questions:
            require_file(questions, "a JSONL file of questions")
            found = asked(read_questions(questions), places_in(mine, **how), places_in(yours, **how))
            told["questions"] = found.model_dump(mode="json")
    return told


def _measured(one: str, other: str) -> tuple[list[Cause], list[dict[str, Any]]]:
    """What differs in the settings of two runs of one leg, and their figures."""
    from tasks.resources import evaluations

    if not (one and other):
        return [], []
    kinds = {evaluations().run(run).kind for run in (one, other)}
    if kinds == {"benchmark"}:
        return _evaluated(one, other)
    return [], _of_selectors(one, other) if kinds == {"lever"} else []


def _of_selectors(one: str, other: str) -> list[dict[str, Any]]:
    """The figures that both runs have and that differ."""
    from tasks.resources import evaluations

    held = [
        {(found.dataset.name, f"{each.metric} {each.part}".rstrip()): each.value for each in found.results}
        for run in (one, other)
        for found in evaluations().task_results(run)
    ]
    ours, theirs = held if len(held) == 2 else ({}, {})
    return [
        {"task": data, "metric": metric, "one": value, "other": theirs[data, metric], "due_to": []}
        for (data, metric), value in ours.items()
        if (data, metric) in theirs and theirs[data, metric] != value
    ]


def _evaluated(one: str, other: str) -> tuple[list[Cause], list[dict[str, Any]]]:
    """What differs in the settings of the tasks that both runs have, and their headlines with what moved them."""
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.origins.differing import Cause, settings
    from tasks.resources import evaluations

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


def _show(causes: list[Cause], results: dict[str, Any]) -> None:
    for cause in causes:
        name = f" {escape(_shown(cause.name))}" if cause.name else ""
        change = f"{escape(_shown(cause.one))} → {escape(_shown(cause.other))}"
        console.print_line(f"[bold]{cause.what}[/bold] {escape(cause.where)}{name}: {change}")
    if not causes:
        console.print_line(
            "nothing differs in what went in: inputs, parameters, versions of steps and code are the same"
        )
    if "index" in results:
        _show_indexes(results["index"], results.get("questions"))
    for one in results["figures"]:
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
    for one in results["made"]:
        others = f", {one['one']:,} → {one['other']:,} others" if one["one"] or one["other"] else ""
        console.print_line(f"[dim]{escape(one['kind'])}: {one['same']:,} the same{others}[/dim]")


def _show_indexes(index: dict[str, Any], asked: dict[str, Any] | None) -> None:
    for name, before in index["one"].items():
        if before != (after := index["other"][name]):
            told = " → ".join("unknown" if count is None else f"{count:,}" for count in (before, after))
            console.print_line(f"[cyan]{name}[/cyan] {told}")
    for what, said in CHANGED.items():
        for document in index[what][:SHOWN_DOCUMENTS]:
            console.print_line(f"  {said} {escape(document)}")
        if (more := len(index[what]) - SHOWN_DOCUMENTS) > 0:
            console.print_line(f"  {said} {more:,} more")
    if not asked:
        return
    mean = asked["difference"]
    hits = f"; {asked['metric']} {mean['value']:+.3f} ({mean['low']:+.3f} … {mean['high']:+.3f})" if mean else ""
    console.print_line(f"{len(asked['moved'])} of {asked['questions']} questions find other pages{hits}")
    for one in asked["moved"]:
        pages = [*(f"+ {page}" for page in one["gained"]), *(f"− {page}" for page in one["lost"])]
        console.print_line(f"  [bold]{escape(one['id'])}[/bold] {escape(one['question'])}: {escape(', '.join(pages))}")


def _shown(value: object) -> str:
    """A digest by its first digits; what one of the two has not as `none`."""
    text = "none" if value is None else str(value)
    return text[:SHORT] if len(text) == 64 and " " not in text else text
