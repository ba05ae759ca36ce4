"""`trivet eval show`: a run with its figures, or one of its items with everything behind its score."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flows.cli.commands import Json
from flows.cli.output import REFUSED, Screen, emit, fail, plain_errors

if TYPE_CHECKING:
    from tasks.evaluation.evaluation_records import Counts, Estimate, EvalReport, Sample, TaskResult, Usage
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.evaluation.results.sample_lookup import Call, Looked

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A results file or its folder, a run ID or its first 6 characters, or a model for its last run.",
    ),
]


def show(
    run: RunArgument,
    task: Annotated[str | None, typer.Option(help="Only this benchmark, with its groups.")] = None,
    item: Annotated[str | None, typer.Option(metavar="ID", help="An item: prompt, answer, verdict and why.")] = None,
    repeat: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this repeat of the item, from 0.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a run and its figures, or what was asked, answered and decided about one item."""
    from storage.storage_errors import StorageError
    from tasks.evaluation.evaluation_errors import EvaluationError
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.resources import evaluations

    with plain_errors(EvaluationError, failed=(StorageError,)):
        found = find_run(run, evaluations())
        if task is not None:
            found.require(task)
        if item is None:
            if repeat is not None:
                fail("--repeat names a repeat of an item; give --item too", REFUSED)
            _report(found, task, as_json=as_json)
            return
        chosen = task or _only_task(found)
        looked = [_look_up(found, chosen, sample) for sample in _samples(found, chosen, item, repeat)]
    told = {
        "run": found.report.run.id,
        "task": chosen,
        "item": item,
        "samples": [one.model_dump(mode="python") for one in looked],
    }
    emit(told, as_json, lambda: _show_item(found.report, chosen, looked))


def _report(found: FoundRun, task: str | None, *, as_json: bool) -> None:
    report = found.report
    if task is not None:
        report = report.model_copy(update={"results": tuple(one for one in report.results if one.task == task)})
    emit(report, as_json, lambda: _show_run(report, path=found.path, every=task is not None))


def _only_task(found: FoundRun) -> str:
    tasks = [result.task for result in found.report.results]
    if len(tasks) != 1:
        fail(f"run {found.report.run.id} has {len(tasks)} tasks; say which with --task {'|'.join(tasks)}", REFUSED)
    return tasks[0]


def _samples(found: FoundRun, task: str, item: str, repeat: int | None) -> list[Sample]:
    samples = found.item(task, item)
    if not samples:
        known = ", ".join(_first_items(found, task)) or "none: no samples were kept with it"
        fail(f"{task} of run {found.report.run.id} has no item {item}; its items are {known}", REFUSED)
    chosen = [sample for sample in samples if repeat is None or sample.repeat == repeat]
    if not chosen:
        fail(f"item {item} has {len(samples)} repeats, from 0 to {len(samples) - 1}; there is no {repeat}", REFUSED)
    return chosen


def _first_items(found: FoundRun, task: str) -> list[str]:
    from itertools import islice

    named = list(dict.fromkeys(sample.item for sample in islice(found.samples(task), 100)))
    return [*named[:5], "…"] if len(named) > 5 else named


def _look_up(found: FoundRun, task: str, sample: Sample) -> Looked:
    from tasks.evaluation.results.sample_lookup import look_up
    from tasks.resources import artifacts, responses

    return look_up(found, task, sample, artifacts(), responses())


console = Screen(highlight=False)

MOST_CHARS = 20_000
"""Characters shown of one text; --json has all of it."""


def _show_item(report: EvalReport, task: str, looked: Sequence[Looked]) -> None:
    """An item of a task, its prompt once and every repeat's answer and verdict."""
    first = looked[0]
    group = f"  {escape(first.sample.group)}" if first.sample.group else ""
    _line(f"[bold]{escape(task)} {escape(first.sample.item)}[/bold]{group}  [dim]run {escape(report.run.id)}[/dim]")
    if first.system:
        _text("system", first.system)
    for one in looked:
        _repeat(one, numbered=len(looked) > 1, prompts=one is first or one.prompts != first.prompts)


def _repeat(one: Looked, *, numbered: bool, prompts: bool) -> None:
    if numbered:
        console.rule(f"repeat {one.sample.repeat}")
    turns = max(len(one.prompts), len(one.replies))
    for number, (prompt, reply) in enumerate(zip_longest(one.prompts, one.replies), start=1):
        turn = f", turn {number}" if turns > 1 else ""
        if prompt is not None and (prompts or turns > 1):
            _text(f"prompt{turn}", prompt)
        if reply is not None:
            _text(f"answer{turn}", reply or "(empty)")
    if one.missed:
        _line(f"[yellow]no answer[/yellow]  {escape(one.missed)}")
    _verdict(one.sample)
    for call in one.calls:
        _call(call)
    if not one.calls and one.sample.keys:
        _line(f"[dim]keys       {' '.join(map(escape, one.sample.keys))}[/dim]")
    for note in one.notes:
        _line(f"[yellow]note[/yellow] {escape(note)}")


def _verdict(sample: Sample) -> None:
    score = "unscored" if sample.score is None else f"{sample.score:g}"
    marks = [name for name in ("truncated", "missing") if getattr(sample, name)]
    colour = "yellow" if sample.status == "unscored" else "green" if sample.score else "red"
    _line(f"[bold]score[/bold]      [{colour}]{score}[/{colour}]{''.join(f', {mark}' for mark in marks)}")
    if sample.missing or sample.extracted is not None:
        _field("extracted", "(no answer was found)" if sample.extracted is None else sample.extracted)
    if sample.gold is not None:
        _field("gold", sample.gold)
    if sample.reason:
        _field("why", sample.reason)
    for name, value in sample.values.items():
        _field(name, f"{value:g}")
    for name, value in sample.detail.items():
        _field(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _call(call: Call) -> None:
    tokens = f"{_number(call.prompt_tokens)} + {_number(call.completion_tokens)} tokens, {call.latency_s:.2f} s"
    _line(f"[dim]{call.by:<10} {escape(call.model)}, {escape(call.finish_reason)}, {tokens}, key {call.key}[/dim]")
    _line(f"[dim]sent       {escape(json.dumps(call.sent or call.parameters, ensure_ascii=False))}[/dim]")
    if call.by == "judge":
        _text("judge says", call.answer)


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)


def _field(name: str, value: str) -> None:
    """A short value stays on the line of its name."""
    if "\n" in value:
        _text(name, value)
    else:
        _line(f"[bold]{escape(f'{name:<10}')}[/bold] {escape(_short(value))}")


def _text(name: str, text: str) -> None:
    _line(f"[bold]{escape(name)}[/bold]")
    console.print(Padding(Text(_short(text)), (0, 0, 0, 3)))


def _short(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]}\n… {len(text) - MOST_CHARS:,} characters more, see --json …\n{text[-half:]}"


def _line(markup: str) -> None:
    console.print(markup, soft_wrap=True)


GROUPS_SHOWN = 12
"""Figures of groups of one task, unless it was asked for by name."""
STATUS_COLOURS = {"completed": "green", "running": "cyan", "failed": "red"}


def _show_run(report: EvalReport, *, path: Path | None, every: bool) -> None:
    """A run with the figures of its tasks. path: its results file; every: all figures of groups."""
    run, model = report.run, report.run.model
    revision = f"@{model.revision}" if model.revision else ""
    colour = STATUS_COLOURS[run.status]
    _line(f"[bold]{escape(model.name)}{escape(revision)}[/bold]  {escape(model.backend)}  {_words(model.args)}")
    _line(f"  run        {escape(run.id)}  [{colour}]{run.status}[/{colour}]")
    _line(f"  started    {run.started_at:%Y-%m-%d %H:%M:%S %Z}{_took(report)}")
    commit = f", commit {escape(run.git_commit[:12])}" if run.git_commit else ""
    _line(f"  version    {escape(run.version)}{commit}")
    if path:
        _line(f"  file       {escape(str(path))}")
    for result in report.results:
        console.print()
        _task(result, every=every)
    for name, earlier in report.skipped.items():
        _line(f"[dim]{escape(name)} was evaluated before, by run {escape(earlier)}[/dim]")
    for note in report.notes:
        _line(f"[yellow]note[/yellow] {escape(note)}")


def _task(result: TaskResult, *, every: bool) -> None:
    data = result.data
    _line(f"[bold]{escape(result.task)}[/bold]  {result.family}, version {escape(result.version)}")
    figures = [estimate for estimate in result.estimates if not estimate.part]
    groups = [estimate for estimate in result.estimates if estimate.part]
    hidden = 0 if every else max(0, len(groups) - GROUPS_SHOWN)
    table = Table("metric", "value", "std. error", "95 %", "n", box=None, header_style="bold", pad_edge=False)
    for estimate in (*figures, *groups[: len(groups) - hidden]):
        table.add_row(*_figure(estimate))
    console.print(table)
    if hidden:
        _line(f"[dim]and {hidden} figures of groups; --task {escape(result.task)} shows them[/dim]")
    _line(f"  samples    {_counts(result.counts)}")
    _line(f"  data       {escape(data.source)}, {data.count} items, sha256 {data.checksum[:12]}")
    _line(f"  settings   {_words(result.settings)}")
    _line(f"  calls      {_usage(result.usage)}")
    if result.judge or result.judge_usage:
        used = f": {_usage(result.judge_usage)}" if result.judge_usage else ""
        _line(f"  judge      {escape(result.judge or 'unnamed')}{used}")
    for name, digests in _artifacts(result):
        _line(f"  {name:<10} {digests}")
    for note in result.notes:
        _line(f"[yellow]note[/yellow] {escape(note)}")


def _figure(estimate: Estimate) -> tuple[str, ...]:
    name = f"{estimate.metric}  {estimate.part}" if estimate.part else estimate.metric
    interval = "" if estimate.low is None or estimate.high is None else f"{estimate.low:.4g} … {estimate.high:.4g}"
    error = "" if estimate.std_err is None else f"{estimate.std_err:.3g}"
    cells = (escape(name), f"{estimate.value:.4g}", error, interval, str(estimate.n))
    return tuple(f"[bold]{cell}[/bold]" if cell else "" for cell in cells) if estimate.headline else cells


def _counts(counts: Counts) -> str:
    """What is not as it should be is coloured."""
    parts = [f"{counts.samples} answers to {counts.items} items, {counts.scored} scored"]
    for name, count in counts.model_dump(exclude={"items", "samples", "scored"}).items():
        parts.append(f"[yellow]{count} {name}[/yellow]" if count else f"0 {name}")
    return ", ".join(parts)


def _usage(usage: Usage) -> str:
    cost = "" if usage.cost is None else f", cost {usage.cost:.4g}"
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    return f"{usage.calls} ({usage.recalled} recalled), {tokens}, {usage.latency_s:.1f} s{cost}"


def _artifacts(result: TaskResult) -> Iterator[tuple[str, str]]:
    for name, refs in (
        ("items", (result.items,) if result.items else ()),
        ("responses", result.responses),
        ("graded", result.samples),
    ):
        if refs:
            yield name, ", ".join(f"{ref.kind}/{ref.digest[:12]}" for ref in refs)


def _took(report: EvalReport) -> str:
    run = report.run
    return f", took {(run.ended_at - run.started_at).total_seconds():.1f} s" if run.ended_at else ""


def _words(values: object) -> str:
    """Arguments and settings on one line."""
    return escape(json.dumps(values, ensure_ascii=False)) if values else ""
