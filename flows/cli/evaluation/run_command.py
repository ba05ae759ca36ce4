"""`trivet eval run`: measure a model on benchmarks, with the options of `python -m eval.eval`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import ConfigCommand, Given, Json
from flows.cli.engine import expected_errors, prefect_for_a_command, progress_bars, run_flow
from flows.cli.evaluation import other_harnesses
from flows.cli.evaluation.run_options import OPTIONS
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail, sentences
from flows.cli.shared_options import ClusterOption, TaskRunnerOption, refuse_unusable_spec
from flows.running.task_runners import placed
from tasks.evaluation import evaluation_errors as errors
from tasks.grading.reading import POLICIES

if TYPE_CHECKING:
    from flows.running.evaluation_config import EvaluateConfig
    from tasks.evaluation.evaluation_records import Estimate, EvalReport, TaskResult
    from tasks.evaluation.running.rescoring import Rescored
    from tasks.evaluation.running.task_choice import RunEstimate


def run(
    given: Given,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of the same options; its values override the command line.")
    ] = None,
    task_runner: TaskRunnerOption = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost.")] = False,
    as_json: Json = False,
) -> None:
    """Measure a model on benchmarks; an interrupted run, started again, makes only the calls that are missing."""
    flags = OPTIONS.named(given)
    try:
        if dry_run:
            estimate = _estimated(flags, config, quiet=as_json)
            emit(estimate, as_json, lambda: show_estimate(estimate))
            return
        with prefect_for_a_command(quiet=as_json):
            from flows.evaluate import evaluate

            chosen = _config(flags, config)
            outcome = run_flow(
                placed(evaluate, task_runner, cluster), chosen, errors.TasksFailed, errors.Unfinished, errors.NotKept
            )
    except ValidationError as error:
        fail(sentences(error), REFUSED)
    kept = not flags["debug"] and flags["save"] != "file"
    emit(outcome.report, as_json, lambda: show_report(outcome.report, kept=kept))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)


def _estimated(flags: Mapping[str, Any], file: Path | None, *, quiet: bool) -> RunEstimate:
    """Calls, tokens and cost of a run; calls no model."""
    with expected_errors(), progress_bars(quiet):
        from flows.running.evaluation_config import planned_of
        from tasks.evaluation.running.task_choice import estimate_run
        from tasks.resources import artifacts, responses

        config = _config(flags, file, usable=False)
        planned = planned_of(config)
        return estimate_run(planned, config.model, artifacts(), responses(), prices=config.spending.prices)


def _config(flags: Mapping[str, Any], file: Path | None, *, usable: bool = True) -> EvaluateConfig:
    """The configuration; usable: exits if it is certain that the model, or the named judge, cannot be used."""
    from flows.cli.evaluation.eval_config import config_of

    config = config_of(flags, file)
    if not usable:
        return config
    refuse_unusable_spec(config.model, "model")
    if config.judge and not config.auto_judge:
        refuse_unusable_spec(config.judge, "annotator_model")
    return config


class RunCommand(ConfigCommand):
    """Reads `--apply_chat_template` without a value as True, and ignores flags without effect with a note."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, after those of `python -m eval.eval` and `lm_eval` were brought into click's form."""
        return super().parse_args(ctx, other_harnesses.arguments(args))


def show_report(found: EvalReport, *, kept: bool = True) -> None:
    """Print scores with their intervals, and notes. kept: the run is in the database."""
    screen = Screen()
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
    """Further figures: where policies read answers otherwise, and at each requested k; of code every pass@k, and those
    of each language or difficulty if several."""
    from tasks.grading.sample_statistics import AT_K

    asked = result.settings.get("k")
    at_k = {f"{name}@{k}" for k in asked for name in AT_K} if isinstance(asked, list) else set[str]()
    read = {f"accuracy_{policy}" for policy in POLICIES} if result.counts.differing else set[str]()
    yield from (one for one in result.estimates if one.metric in at_k | read and result.family != "code")
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


def show_estimate(found: RunEstimate) -> None:
    """Print the estimate of --dry-run."""
    screen = Screen()
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
    for note in found.notes:
        screen.print(escape(note))


def show_rescored(found: Rescored) -> None:
    """Print old figures beside new ones, and the items that changed."""
    screen = Screen()
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
