"""`trivet nightly`: measure a suite of models, an index and a selector night after night."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from flows.cli.commands import App, Json
from flows.cli.engine import expected_errors, prefect_for_a_command, run_flow
from flows.cli.output import DONE_WITH_FAILURES, FAILED, REFUSED, Screen, emit, fail, harmless, plain_errors
from storage.files import write

if TYPE_CHECKING:
    from storage.incidents import Pin
    from tasks.nightly.night_records import Change, Night, NightReport

app = App(help="Measure a suite of models night after night, and tell regressions from noise.")
FORMATS = (".md", ".html")


@app.command()
def run(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE.yaml", help="YAML file of models, benchmarks, index and selector.")
    ],
    as_json: Json = False,
) -> None:
    """Run a suite now; an interrupted run, started again, does only what is missing."""
    with _expected_errors(), prefect_for_a_command(quiet=as_json):
        from flows.nightly import NightlyConfig, nightly
        from tasks.nightly.night_records import NightFailed, NightRegressed, NightUnfinished

        config = NightlyConfig(suite=suite.absolute())
        outcome = run_flow(nightly, config, NightRegressed, NightUnfinished, NightFailed)
    found: NightReport = outcome.report
    emit(found, as_json, lambda: _show(found))
    if outcome.unfinished:
        fail(f"{found.state}: {outcome.unfinished}", FAILED)
    if found.state == "CompletedWithFailures":
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
    """Recreate the report of the last night from the database."""
    from tasks.nightly.night_history import collect
    from tasks.nightly.suite import read_suite
    from tasks.resources import evaluations, incidents

    if out and out.suffix not in FORMATS:
        fail(f"--out {out}: name a file that ends in {' or '.join(FORMATS)}", REFUSED)
    with _expected_errors():
        *earlier, last = _nights(suite)
        read = read_suite(Path(last.file))
        found = collect(last, earlier, evaluations(), incidents(), nights=read.nights, rules=read.regression)
        if out:
            from tasks.nightly.night_report import markdown_of, render_page

            written = render_page(found) if out.suffix == ".html" else markdown_of(found)
            write(out.absolute(), written.encode("utf-8", "replace"))
    emit(found, as_json, lambda: typer.echo(f"wrote {out}", err=True) if out else _show(found))


@app.command("incidents")
def list_incidents(suite: Which = None, as_json: Json = False) -> None:
    """List what got worse: open incidents, and those that are back or accepted, with their figure in each night."""
    from tasks.nightly.night_report import incident
    from tasks.resources import incidents

    with _expected_errors():
        found = incidents().of(_file(suite))
    screen = Screen(soft_wrap=True)

    def show() -> None:
        for one in found:
            screen.print(Text(harmless(incident(one)), style="red" if one.open else ""))
        if not found:
            screen.print("no incident")

    emit({"incidents": [one.model_dump(mode="json") for one in found]}, as_json, show)


@app.command()
def accept(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="ID of an open incident, or its beginning.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why the lower figure is right from now on.")],
    suite: Which = None,
    as_json: Json = False,
) -> None:
    """Accept a figure that got worse: its last value is the baseline of later nights."""
    from datetime import UTC, datetime

    from tasks.nightly import night_comparison, night_report
    from tasks.resources import incidents

    with _expected_errors():
        file = _file(suite)
        accepted = night_comparison.accept_incident(incidents().of(file), incident, word=why, at=datetime.now(UTC))
        incidents().put(accepted)
    said = Text(harmless(night_report.incident(accepted)))
    emit(accepted, as_json, lambda: Screen(soft_wrap=True).print(said))


@app.command()
def pin(
    run: Annotated[str, typer.Argument(metavar="RUN", help="ID of a night, or of a run of one; or its beginning.")],
    suite: Which = None,
    as_json: Json = False,
) -> None:
    """Compare later nights with the figures of this one, instead of with the last good one of each."""
    from tasks.nightly.night_history import pins_of
    from tasks.resources import evaluations, incidents

    with _expected_errors():
        nights = _nights(suite)
        pins = pins_of(run, nights, evaluations())
        incidents().pin(nights[-1].file, pins)
    _show_pins(pins, as_json)


@app.command()
def unpin(suite: Which = None, as_json: Json = False) -> None:
    """Compare later nights with the last good figure again, and print what was pinned."""
    from tasks.resources import incidents

    with _expected_errors():
        file = _file(suite)
        pinned = incidents().pins(file)
        incidents().pin(file, [])
    _show_pins(pinned, as_json)


def _show_pins(pins: Sequence[Pin], as_json: bool) -> None:
    screen = Screen(soft_wrap=True)

    def show() -> None:
        for one in pins:
            screen.print(Text(harmless(f"{one.of} on {one.task}: run {one.run[:8]} of {one.at:%Y-%m-%d}")))

    emit({"pins": [one.model_dump(mode="json") for one in pins]}, as_json, show)


def _nights(suite: Path | None) -> tuple[Night, ...]:
    """The nights of a suite, oldest first. Raises NoNight where there is none."""
    from tasks.nightly.night_history import nights_of
    from tasks.nightly.night_records import NoNight
    from tasks.resources import artifacts

    file = _file(suite)
    if nights := nights_of(Path(file), artifacts()):
        return nights
    raise NoNight(f"{file} never ran here; begin with `trivet nightly run {file}`")


def _file(suite: Path | None) -> str:
    """Path of the suite file. Raises NoNight where no suite is named and none ran."""
    from tasks.nightly.night_history import last_suite
    from tasks.resources import artifacts

    return str(suite.absolute() if suite else last_suite(artifacts()))


def _show(found: NightReport) -> None:
    from tasks.nightly import night_report

    screen = Screen(soft_wrap=True)
    ended = {"Completed": "green", "CompletedWithFailures": "yellow"}.get(found.state, "red")
    screen.print(
        Text(f"{found.night.suite}: {found.state}", style=f"bold {ended}"), Text(f"– {night_report.WORDS[found.state]}")
    )
    changes = {(one.of, one.task): one for one in found.changes}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "benchmark", "score", "95 %", "change", "", "run"):
        table.add_column(column, justify="right" if column in ("score", "change") else "left")
    for one in found.scores:
        value = night_report.figure(one.measure.value) if one.measure else "none scored"
        around = night_report.interval(one.measure) if one.measure else ""
        cells = (one.model, one.task, value, around, *_moved(changes.get((one.model, one.task))), one.run[:8])
        table.add_row(*(Text(harmless(cell)) for cell in cells))
    for change in found.changes:
        if change.of in ("index", "selector"):
            value, around = night_report.figure(change.now.value), night_report.interval(change.now)
            cells = (change.of, change.task, value, around, *_moved(change), change.now.run[:8])
            table.add_row(*(Text(harmless(cell)) for cell in cells))
    if table.row_count:
        screen.print(table)
    for one in found.open_incidents:
        screen.print(Text(harmless(night_report.incident(one)), style="red"))
    for failure in found.failures:
        screen.print(Text(f"{failure.what}: {failure.why}", style="yellow"))
    screen.print(Text(f"run {found.night.run}"))


def _moved(change: Change | None) -> tuple[str, str]:
    from tasks.nightly import night_report

    if change is None:
        return night_report.NONE, ""
    return night_report.signed(change.difference, like=change.now.value), night_report.VERDICTS[change.verdict]


@contextmanager
def _expected_errors() -> Generator[None]:
    from tasks.nightly.night_records import NightlyError, NoIncident, NoNight, SuiteUnusable

    with expected_errors(), plain_errors(SuiteUnusable, NoNight, NoIncident, failed=(NightlyError,)):
        yield
