"""`trivet rerun`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from flows.cli.output import DONE_WITH_FAILURES, FAILED, emit, harmless, plain_errors

if TYPE_CHECKING:
    from flows.rerunning import Rerun

JSON = typer.Option(False, "--json", help="One JSON object on stdout.")
WITH_FAILURES = "CompletedWithFailures"


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command()(rerun)


def rerun(
    run: str = typer.Argument(help="Id of a flow run, the beginning of that, or its name."),
    wait: bool = typer.Option(False, "--wait", help="Wait until it has ended; exit 1 if it failed."),
    as_json: bool = JSON,
) -> None:
    """Do a deployed run again, like Retry in the UI: only what failed or never ran is done."""
    from flows.connecting import NotConnected, connect
    from flows.settings import prepare_environment, settings

    prepare_environment()
    with plain_errors(failed=(NotConnected,)):
        connect(settings().home)

    from flows import rerunning

    with plain_errors(rerunning.CannotRerun, failed=(rerunning.ServerAway,)):
        again = rerunning.rerun(run)
        if wait:
            if not as_json:
                _show(again)
            again = rerunning.wait_for(again)
    emit(again, as_json, lambda: _show(again))
    if again.ended and not again.completed:
        raise typer.Exit(FAILED)
    if again.state == WITH_FAILURES:
        raise typer.Exit(DONE_WITH_FAILURES)


def _show(again: Rerun) -> None:
    said = f": {again.message}" if again.ended and again.message else ""
    typer.echo(harmless(f"{again.deployment}  {again.name}  {again.state}{said}"))
    if again.note:
        typer.secho(again.note, fg="yellow", err=True)
    if again.url and not again.ended:
        typer.echo(again.url)
