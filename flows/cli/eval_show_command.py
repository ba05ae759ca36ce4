"""`trivet eval show`, one run or one item with everything behind its score; `compare`, two runs item by item."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from flows.cli.commands import Json
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail, make_table
from tasks.evaluation.evaluation_errors import ResultsUnusable

if TYPE_CHECKING:
    from tasks.evaluation.evaluation_records import EvalReport, Sample, TaskResult, Usage
    from tasks.evaluation.results.finding_runs import SampleDetails
    from tasks.evaluation.results.run_comparison import TaskComparison

RUN = "A results file or its folder, a run ID or its first 6 characters, or a model for its last run."
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=RUN)]
TasksOption = Annotated[
    list[str] | None, typer.Option("--task", "--tasks", help="Only this benchmark; may be repeated, or A,B.")
]


def split_tasks(options: Sequence[str] | None) -> list[str] | None:
    """Return the tasks of `--tasks A,B --tasks C`; None if none are named."""
    return [name for names in options or () for name in names.split(",") if name] or None


def show(
    run: RunArgument,
    task: Annotated[str | None, typer.Option(help="Only this benchmark, with all its groups.")] = None,
    item: Annotated[str | None, typer.Option(metavar="ID", help="Show this item: prompt, answer and verdict.")] = None,
    as_json: Json = False,
) -> None:
    """Show a run and its figures, or what was asked, answered and decided about one item."""
    from tasks.evaluation.results.finding_runs import find_run, look_up
    from tasks.resources import artifacts, evaluations, responses

    stored_run = find_run(run, evaluations())
    if task is not None:
        stored_run.require(task)
    if item is None:
        report = stored_run.report
        if task is not None:
            results_of_task = tuple(result for result in report.results if result.task == task)
            report = report.model_copy(update={"results": results_of_task})
        emit(report, as_json, lambda: _show_run(report, path=stored_run.path, every=task is not None))
        return
    tasks = [task] if task else [result.task for result in stored_run.report.results]
    by_task = {name: samples for name in tasks if (samples := stored_run.item(name, item))}
    if len(by_task) > 1:
        fail(f"{', '.join(by_task)} each have an item {item}; say which with --task {'|'.join(by_task)}", REFUSED)
    task_name, samples = next(iter(by_task.items()), (" or ".join(tasks), []))
    if not samples:
        first = list(dict.fromkeys(sample.item for name in tasks for sample in islice(stored_run.samples(name), 100)))
        examples = ", ".join([*first[:5], *(["…"] if len(first) > 5 else [])]) or "none: no samples were kept with it"
        fail(f"{task_name} of run {stored_run.report.run.id} has no item {item}; its items are {examples}", REFUSED)
    looked_up = [look_up(stored_run, task_name, sample, artifacts(), responses().many) for sample in samples]
    output = {
        "run": stored_run.report.run.id,
        "task": task_name,
        "item": item,
        "samples": [sample.model_dump(mode="python") for sample in looked_up],
    }
    emit(output, as_json, lambda: _show_item(stored_run.report, task_name, looked_up))


console = Screen()

MOST_CHARS = 20_000
"""Most characters that are shown of one text; --json has all of it."""


def _show_item(report: EvalReport, task: str, repeats: Sequence[SampleDetails]) -> None:
    """Print one item with all its repeats: what was asked, answered and decided."""
    first = repeats[0]
    group = f"  {escape(first.sample.group)}" if first.sample.group else ""
    console.print(
        f"[bold]{escape(task)} {escape(first.sample.item)}[/bold]{group}  [dim]run {escape(report.run.id)}[/dim]"
    )
    if first.system:
        _print_text("system", first.system)
    for repeat in repeats:
        if len(repeats) > 1:
            console.rule(f"repeat {repeat.sample.repeat}")
        turns = max(len(repeat.prompts), len(repeat.replies))
        for number, (prompt, reply) in enumerate(zip_longest(repeat.prompts, repeat.replies), start=1):
            turn = f", turn {number}" if turns > 1 else ""
            if prompt is not None and (repeat is first or repeat.prompts != first.prompts or turns > 1):
                _print_text(f"prompt{turn}", prompt)
            if reply is not None:
                _print_text(f"answer{turn}", reply or "(empty)")
        if repeat.missed:
            console.print(f"[yellow]no answer[/yellow]  {escape(repeat.missed)}")
        _show_verdict(repeat.sample)
        for call in repeat.calls:
            counts = (call.prompt_tokens, call.completion_tokens)
            prompted, answered = ("?" if count is None else count for count in counts)
            used = f"{prompted} + {answered} tokens, {call.latency_s:.2f} s, key {call.key}"
            sent = json.dumps(call.sent or call.parameters, ensure_ascii=False)
            console.print(f"[dim]{call.by:<10} {escape(call.model)}, {escape(call.finish_reason)}, {used}[/dim]")
            console.print(f"[dim]sent       {escape(sent)}[/dim]")
            if call.by == "judge":
                _print_text("judge says", call.answer)
        if not repeat.calls and repeat.sample.keys:
            console.print(f"[dim]keys       {' '.join(map(escape, repeat.sample.keys))}[/dim]")
        console.print_notes(repeat.notes)


def _show_verdict(sample: Sample) -> None:
    """Print score, extracted and gold answer, reason and details of one sample."""
    from tasks.grading.reading import READINGS, readings_of

    score = sample.outcome.replace("_", " ") if sample.score is None else f"{sample.score:g}"
    marks = "".join(f", {name}" for name in ("truncated", "missing") if getattr(sample, name))
    colour = "yellow" if sample.status == "unscored" else "green" if sample.score else "red"
    console.print(f"[bold]score[/bold]      [{colour}]{score}[/{colour}]{marks}")
    if sample.missing or sample.extracted is not None:
        _print_field("extracted", "(no answer was found)" if sample.extracted is None else sample.extracted)
    if sample.gold is not None:
        _print_field("gold", sample.gold)
    if sample.reason:
        _print_field("why", sample.reason)
    for name, value in sample.values.items():
        _print_field(name, f"{value:g}")
    for policy, reading in readings_of(sample).items():
        answer = "(no answer)" if reading["extracted"] is None else reading["extracted"]
        _print_field(policy, f"{answer}, score {reading['score'] if reading['score'] is not None else '—'}")
    for name, value in sample.detail.items():
        if name != READINGS:
            _print_field(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _print_field(name: str, value: str) -> None:
    """Print a name with its value, on the same line unless the value has several."""
    if "\n" in value:
        _print_text(name, value)
    else:
        console.print(f"[bold]{escape(f'{name:<10}')}[/bold] {escape(_shorten(value))}")


def _print_text(name: str, text: str) -> None:
    console.print(f"[bold]{escape(name)}[/bold]")
    console.print(Padding(Text(_shorten(text)), (0, 0, 0, 3)))


def _shorten(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]}\n… {len(text) - MOST_CHARS:,} characters more, see --json …\n{text[-half:]}"


GROUPS_SHOWN = 12
"""Most groups whose scores are shown of one task, unless the task was asked for by name."""
STATUS_COLOURS = {"completed": "green", "running": "cyan", "failed": "red"}


def _show_run(report: EvalReport, *, path: Path | None, every: bool) -> None:
    """Print a run with the scores of its tasks. path: its results file. every: show the scores of all groups."""
    run, model = report.run, report.run.model
    colour = STATUS_COLOURS[run.status]
    took = f", took {(run.ended_at - run.started_at).total_seconds():.1f} s" if run.ended_at else ""
    console.print(f"[bold]{escape(model.label)}[/bold]  {escape(model.backend)}  {_as_json(model.args)}")
    console.print(f"  run        {escape(run.id)}  [{colour}]{run.status}[/{colour}]")
    console.print(f"  started    {run.started_at:%Y-%m-%d %H:%M:%S %Z}{took}")
    commit = f", commit {escape(run.git_commit[:12])}" if run.git_commit else ""
    console.print(f"  version    {escape(run.version)}{commit}")
    if path:
        console.print(f"  file       {escape(str(path))}")
    for result in report.results:
        console.print()
        _show_task(result, every=every)
    for name, earlier in report.skipped.items():
        console.print(f"[dim]{escape(name)} was evaluated before, by run {escape(earlier)}[/dim]")
    console.print_notes(report.notes)


def _show_task(result: TaskResult, *, every: bool) -> None:
    """Print the scores of a task, then its data, settings, calls and judge. every: all groups, not GROUPS_SHOWN."""
    data, counts = result.data, result.counts
    console.print(f"[bold]{escape(result.name)}[/bold]  {result.family}, version {escape(result.version)}")
    overall = [estimate for estimate in result.estimates if not estimate.part]
    groups = [estimate for estimate in result.estimates if estimate.part]
    listed_groups = groups if every else groups[:GROUPS_SHOWN]
    rows: list[list[Text]] = []
    for estimate in (*overall, *listed_groups):
        name = f"{estimate.metric}  {estimate.part}" if estimate.part else estimate.metric
        interval = "" if estimate.low is None or estimate.high is None else f"{estimate.low:.4g} … {estimate.high:.4g}"
        error = "" if estimate.std_err is None else f"{estimate.std_err:.3g}"
        style = "bold" if estimate.headline else ""
        rows.append(
            [Text(cell, style=style) for cell in (name, f"{estimate.value:.4g}", error, interval, str(estimate.n))]
        )
    console.print(make_table("metric", "value", "std. error", "95 %", "n", rows=rows))
    if hidden := len(groups) - len(listed_groups):
        console.print(f"[dim]and {hidden} figures of groups; --task {escape(result.task)} shows them[/dim]")
    parts = [f"{counts.samples} from {counts.items} items, {counts.scored} scored"]
    for name, count in counts.model_dump(exclude={"items", "samples", "scored"}).items():
        plain = name.replace("_", " ")
        parts.append(f"[yellow]{count} {plain}[/yellow]" if count else f"0 {plain}")
    console.print(f"  samples    {', '.join(parts)}")
    console.print(f"  data       {escape(data.source)}, {data.count} items, sha256 {data.checksum[:12]}")
    console.print(f"  settings   {_as_json(result.settings)}")
    console.print(f"  calls      {_format_usage(result.usage)}")
    if result.judge or result.judge_usage:
        used = f": {_format_usage(result.judge_usage)}" if result.judge_usage else ""
        console.print(f"  judge      {escape(result.judge or 'unnamed')}{used}")
    items = (result.items,) if result.items else ()
    for name, refs in (("items", items), ("responses", result.responses), ("graded", result.samples)):
        if refs:
            console.print(f"  {name:<10} {', '.join(f'{ref.kind}/{ref.digest[:12]}' for ref in refs)}")
    console.print_notes(result.notes)


def _format_usage(usage: Usage) -> str:
    cost = "" if usage.cost is None else f", cost {usage.cost:.4g}"
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    return f"{usage.calls} ({usage.recalled} recalled), {tokens}, {usage.latency_s:.1f} s{cost}"


def _as_json(values: object) -> str:
    return escape(json.dumps(values, ensure_ascii=False)) if values else ""


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
    from tasks.evaluation.results.run_comparison import compare_task
    from tasks.resources import evaluations

    before, after = find_run(a, evaluations()), find_run(b, evaluations())
    requested = split_tasks(task)
    for name in requested or ():
        before.require(name)
        after.require(name)
    results_a, results_b = ({result.task: result for result in run.report.results} for run in (before, after))
    shared = requested or [name for name in results_a if name in results_b]
    if not shared:
        first, second = (", ".join(tasks) or "none" for tasks in (results_a, results_b))
        fail(f"the two runs have no task in common: {first}, and {second}", REFUSED)

    compared: list[TaskComparison] = []
    refused: list[ResultsUnusable] = []
    for name in shared:
        try:
            compared.append(compare_task(results_a[name], before.graded(name), results_b[name], after.graded(name)))
        except ResultsUnusable as error:
            refused.append(ResultsUnusable(f"{name}: {error}"))
    if not compared:
        raise refused[0]
    notes = [str(error) for error in refused]
    if missing := (results_a.keys() | results_b.keys()) - set(shared):
        notes.append(f"in one run only, or not asked for: {', '.join(sorted(missing))}")
    output = {
        "a": before.report.run.model_dump(mode="json", include={"id", "model", "ended_at"}),
        "b": after.report.run.model_dump(mode="json", include={"id", "model", "ended_at"}),
        "tasks": [comparison.model_dump(mode="json") for comparison in compared],
        "notes": notes,
    }

    def show() -> None:
        for letter, run in (("A", before.report.run), ("B", after.report.run)):
            ended = f"{run.ended_at:%Y-%m-%d %H:%M}" if run.ended_at else run.status
            about = f"[dim]{ended}, run {escape(run.id[:8])}[/dim]"
            console.print(f"[bold]{letter}[/bold]  {escape(run.model.label)}  {about}")
        for comparison in compared:
            console.print()
            _show_comparison(comparison, flips=flips)
        console.print_notes(notes)

    emit(output, as_json, show)
    if fail_on_regression and any(comparison.regressed for comparison in compared):
        raise typer.Exit(FAILED)


ANSWER_CHARS = 40


def _show_comparison(compared: TaskComparison, *, flips: int) -> None:
    """Print the paired comparison of one task. flips: most items that are listed of each kind of change."""
    paired = compared.comparison
    verdict = "[bold green]B is better[/bold green]" if paired.significant else "[dim]no difference beyond chance[/dim]"
    verdict = "[bold red]B is worse[/bold red]" if compared.regressed else verdict
    console.print(f"[bold]{escape(compared.task)}[/bold]  {verdict}")
    for difference in paired.differs:
        console.print(f"  [bold yellow]not the same[/bold yellow] {escape(difference)}", soft_wrap=True)
    interval = "" if paired.low is None else f"   95 % {paired.low:+.3f} … {paired.high:+.3f}"
    console.print(f"  {paired.before:.3f} → {paired.after:.3f}   B - A {paired.difference:+.3f}{interval}")
    p = "p < 0.001" if paired.p < 0.001 else f"p = {paired.p:.3f}"
    console.print(
        f"  {p} ({paired.method})   {paired.wins} better, {paired.ties} equal, {paired.losses} worse "
        f"of {paired.n} items"
    )
    for items, words in (
        (paired.unscored, "without a score in A or B, not compared"),
        (paired.only_before, "only in A"),
        (paired.only_after, "only in B"),
    ):
        if items:
            examples = f"{', '.join(items[:5])}{' …' if len(items) > 5 else ''}"
            console.print(f"  [yellow]{escape(f'{len(items)} {words}: {examples}')}[/yellow]", soft_wrap=True)
    right = paired.method == "McNemar, exact"
    for name, changes in (
        ("became wrong" if right else "worse", paired.worse),
        ("became right" if right else "better", paired.better),
    ):
        if changes and flips:
            title = f"{name} ({min(flips, len(changes))} of {len(changes)})" if len(changes) > flips else name
            rows: list[tuple[object, ...]] = []
            for change in changes[:flips]:
                answers = (
                    _format_answer(change.before, change.answer_before),
                    _format_answer(change.after, change.answer_after),
                )
                rows.append((change.item, *answers, _first_chars(change.gold)))
            console.print(Padding(make_table(title, "A", "B", "gold", rows=rows), (0, 2)))


def _format_answer(score: float, answer: str | None) -> Text:
    if answer == "":
        return Text({0.0: "wrong", 1.0: "right"}.get(score) or f"{score:.2f}")
    text = Text("no answer", style="dim") if answer is None else Text(_first_chars(answer))
    return text if score in (0, 1) else Text(f"{score:.2f}  ") + text


def _first_chars(text: str | None) -> str:
    plain = " ".join((text or "").split())
    return plain if len(plain) <= ANSWER_CHARS else f"{plain[:ANSWER_CHARS]}…"
