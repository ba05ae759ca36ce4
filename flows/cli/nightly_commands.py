"""`trivet nightly`: measure a suite of models, an index and a selector night after night."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from flows.cli.commands import App, Json
from flows.cli.engine import prefect_for_command, progress_bars, run_flow
from flows.cli.eval_run_command import estimate_calls, show_estimate
from flows.cli.index_command import plan_figures, show_plan
from flows.cli.lever_commands import show_calls
from flows.cli.output import DONE_WITH_FAILURES, FAILED, REFUSED, Screen, emit, fail, harmless, make_table
from flows.cli.shared_options import require_file
from storage.files import write

if TYPE_CHECKING:
    from tasks.nightly.night_records import NightReport

app = App(help="Measure a suite of models night after night, and tell regressions from noise.")
screen = Screen(soft_wrap=True)
FORMATS = (".md", ".html")


@app.command()
def run(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE.yaml", help="YAML file of models, benchmarks, index and selector.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what a night would ask its models.")] = False,
    as_json: Json = False,
) -> None:
    """Run a suite now; an interrupted run, started again, does only what is missing."""
    from flows.running.nightly_plan import plan_of
    from tasks.nightly.suite import read_suite

    require_file(suite, "the YAML file of a suite")
    planned = plan_of(read_suite(suite))
    if dry_run:  # what each part would ask, by the functions of the other commands
        from flows.running.judge_calls import count_calls

        with progress_bars(as_json):
            models = {label: estimate_calls(config) for label, config in planned.models.items()}
            figures = plan_figures(planned.index) if planned.index else None
            calls = count_calls(planned.selector) if planned.selector else None

        def show() -> None:
            for label, calls_of_model in models.items():
                show_estimate(calls_of_model, title=label)
            if figures:
                show_plan(figures)
            if calls:
                show_calls(calls)

        counts = {"models": {label: each.model_dump(mode="json") for label, each in models.items()}}
        further = {"index": figures, "selector": calls}
        emit(counts | {name: each and each.model_dump(mode="json") for name, each in further.items()}, as_json, show)
        return
    with prefect_for_command(quiet=as_json):
        from flows.nightly import NightlyConfig, nightly
        from tasks.nightly.night_records import NightFailed, NightRegressed, NightUnfinished

        config = NightlyConfig(suite=suite.absolute())
        outcome = run_flow(nightly, config, NightRegressed, NightUnfinished, NightFailed)
    night: NightReport = outcome.report
    emit(night, as_json, lambda: _show(night))
    if outcome.unfinished:
        fail(f"{night.state}: {outcome.unfinished}", FAILED)
    if night.state == "CompletedWithFailures":
        raise typer.Exit(DONE_WITH_FAILURES)


Which = Annotated[Path | None, typer.Argument(metavar="SUITE.yaml", help="The suite. Unset: the suite that ran last.")]


@app.command()
def report(
    suite: Which = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report to this .md or .html file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recreate the report of the last night from the database, with every incident that is open."""
    from tasks.nightly.night_history import build_report, read_nights
    from tasks.nightly.night_records import NoNight
    from tasks.nightly.suite import read_suite
    from tasks.resources import artifacts, evaluations, incidents

    if out and out.suffix not in FORMATS:
        fail(f"--out {out}: name a file that ends in {' or '.join(FORMATS)}", REFUSED)
    file = _suite_file(suite)
    nights = read_nights(Path(file), artifacts())
    if not nights:
        raise NoNight(f"{file} never ran here; begin with `trivet nightly run {file}`")
    *earlier, last = nights
    read = read_suite(Path(last.file))
    night = build_report(last, earlier, evaluations(), incidents(), nights=read.nights, rules=read.regression)
    if out:
        from tasks.nightly.night_report import render_markdown, render_page

        written = render_page(night) if out.suffix == ".html" else render_markdown(night)
        write(out.absolute(), written.encode("utf-8", "replace"))
    emit(night, as_json, lambda: typer.echo(f"wrote {out}", err=True) if out else _show(night))


@app.command()
def accept(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="ID of an open incident, or its beginning.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why the lower figure is right from now on.")],
    suite: Which = None,
    as_json: Json = False,
) -> None:
    """Accept a figure that got worse: its last value is the baseline of later nights."""
    from tasks.nightly import night_comparison, night_report
    from tasks.resources import incidents

    open_incidents = incidents().of_suite(_suite_file(suite))
    accepted = night_comparison.accept_incident(open_incidents, incident, word=why, at=datetime.now(UTC))
    incidents().put(accepted)
    emit(accepted, as_json, lambda: screen.print(Text(harmless(night_report.describe_incident(accepted)))))


def _suite_file(suite: Path | None) -> str:
    """Return the path of the suite file. Raises NoNight where no suite is named and none has run."""
    from tasks.nightly.night_history import find_last_suite
    from tasks.resources import artifacts

    return str(suite.absolute() if suite else find_last_suite(artifacts()))


def _show(report: NightReport) -> None:
    """Print the state of a night, its scores and changes, the open incidents and what failed."""
    from tasks.nightly import night_report

    ended = {"Completed": "green", "CompletedWithFailures": "yellow"}.get(report.state, "red")
    title = Text(f"{report.night.suite}: {report.state}", style=f"bold {ended}")
    screen.print(title, Text(f"– {night_report.WORDS[report.state]}"))
    changes = {(change.of, change.task): change for change in report.changes}
    measured = [(score.model, score.task, score.measure, score.run) for score in report.scores]
    measured += [
        (change.of, change.task, change.now, change.now.run)
        for change in report.changes
        if change.of in ("index", "selector")
    ]
    rows: list[tuple[str, ...]] = []
    for subject, task, measure, run in measured:
        score_text, interval, moved, verdict = "none scored", "", night_report.NONE, ""
        if measure:
            score_text, interval = night_report.format_value(measure.value), night_report.format_interval(measure)
        if change := changes.get((subject, task)):
            moved = night_report.format_difference(change.difference, like=change.now.value)
            verdict = night_report.VERDICTS[change.verdict]
        rows.append((subject, task, score_text, interval, moved, verdict, run[:8]))
    if rows:
        columns = ("model", "benchmark", ">score", "95 %", ">change", "", "run")
        screen.print(make_table(*columns, rows=rows))
    for change in report.changes:
        if change.why:
            screen.print(Text(harmless(f"{change.of}, {change.task}: {'; '.join(change.why)}"), style="yellow"))
    for incident in report.open_incidents:
        screen.print(Text(harmless(night_report.describe_incident(incident)), style="red"))
    for failure in report.failures:
        screen.print(Text(f"{failure.what}: {failure.why}", style="yellow"))
    screen.print(Text(f"run {report.night.run}"))
