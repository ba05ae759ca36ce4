"""How a run of the evaluation is told in a terminal, once it has ended or before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from flows.cli.output import Screen

if TYPE_CHECKING:
    from tasks.evaluation.evaluation_records import Estimate, EvalReport, TaskResult
    from tasks.evaluation.running.rescoring import Rescored
    from tasks.evaluation.running.task_choice import RunEstimate


def report(found: EvalReport, *, kept: bool = True) -> None:
    """Scores with their intervals, and what a reader must know beside them. kept: `eval show` finds the run."""
    screen = Screen(highlight=False)
    if found.results:
        screen.print(_scores(found))
    for result in found.results:
        for note in result.notes:
            screen.print(f"[yellow]{escape(result.task)}[/]: {escape(note)}")
    for task, run in found.skipped.items():
        screen.print(f"{escape(task)}: evaluated before, by run {run[:8]}; --overwrite evaluates again")
    for note in found.notes:
        screen.print(escape(note))
    if found.results and kept:
        screen.print(f"[dim]trivet eval show {found.run.id[:8]}[/]")


def _scores(found: EvalReport) -> Table:
    table = _table(escape(found.run.model.name), "task", "metric")
    for name in ("score", "95 % interval", "items", "samples", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in found.results:
        table.add_row(*_row(result, result.headline))
        for further in _further(result):
            name = f"{further.part.removeprefix('group=')} {further.metric}".lstrip()
            table.add_row("", escape(name), _figure(further.value), _interval(further), f"{further.n:,}", "", "")
    return table


def _row(result: TaskResult, headline: Estimate | None) -> list[str]:
    counts = result.counts
    score, interval = ("—", "—") if headline is None else (_figure(headline.value), _interval(headline))
    tokens = result.usage.prompt_tokens + result.usage.completion_tokens
    metric = headline.metric if headline else "none scored"
    counted = [f"{count:,}" if count else "·" for count in (counts.items, counts.samples, tokens)]
    return [escape(result.task), escape(metric), score, interval, *counted]


def _further(result: TaskResult) -> Iterator[Estimate]:
    """For code, every pass@k, and those of each language or difficulty if there are several."""
    if result.family == "code":
        language = result.headline.metric.partition("pass@")[0] if result.headline else ""  # `python_`, or nothing
        several = len({one.part for one in result.estimates if one.part}) + bool(language) > 1
        shown = (one for one in result.estimates if not one.headline and (several or not one.part))
        yield from sorted(shown, key=lambda one: not one.metric.startswith(language))


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "—"
    return f"{_figure(estimate.low)} – {_figure(estimate.high)}"


def estimate(found: RunEstimate) -> None:
    """Calls, tokens and cost of a run that was not started."""
    screen = Screen(highlight=False)
    table = _table("nothing was asked", "task")
    for name in ("items", "repeats", "calls", "stored", "prompt tokens", "answer tokens, at most", "cost, at most"):
        table.add_column(name, justify="right")
    for task in found.tasks:
        counted = (task.items, task.repeats, task.calls, task.stored, task.prompt_tokens, task.completion_tokens)
        cost = "—" if task.cost is None else f"{task.cost:.2f}"
        table.add_row(escape(task.task), *(f"{count:,}" for count in counted), cost)
    if found.tasks:
        screen.print(table)
    if found.harness:
        screen.print(f"not counted, tasks of the harness: {escape(', '.join(found.harness))}")
    for task, run in found.skipped.items():
        screen.print(f"{escape(task)}: evaluated before, by run {run[:8]}")


def rescored(found: Rescored) -> None:
    """Old figures beside those of today's grader, and the items that changed."""
    screen = Screen(highlight=False)
    table = _table(f"run {found.run[:8]}, graded again", "task", "metric")
    for name in ("then", "now", "items changed"):
        table.add_column(name, justify="right")
    for again in found.tasks:
        old, new = again.old.headline, again.new.headline
        figures = [_figure(one.value) if one else "—" for one in (old, new)]
        metric = new.metric if new else "none scored"
        table.add_row(escape(again.old.task), escape(metric), *figures, str(len(again.changes)))
    screen.print(table)
    for again in found.tasks:
        for change in again.changes:
            screen.print(escape(f"{again.old.task} {change.item}: {change.before:g} → {change.after:g}"))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name)
    return table
