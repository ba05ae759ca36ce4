"""`trivet deploy`: deployments, schedules, pools, limits and automations on the Prefect server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.output import DONE_WITH_FAILURES, emit, fail, plain_errors

if TYPE_CHECKING:
    from flows.deploying import Deployed

JSON = typer.Option(False, "--json", help="One JSON object on stdout.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command()(deploy)


def deploy(
    folder: Path | None = typer.Option(
        None, "--folder", metavar="DIR", help="Folder with prefect.yaml; unset: the one that came with trivet."
    ),
    as_json: bool = JSON,
) -> None:
    """Put deployments, schedules, pools, limits and automations on the Prefect server; again changes nothing."""
    from flows.connecting import NotConnected, connect
    from flows.settings import prepare_environment, settings

    prepare_environment()
    with plain_errors(failed=(NotConnected,)):
        connect(settings().home)
    import httpx
    from prefect.settings import get_current_settings

    from flows.deploying import NoFolder
    from flows.deploying import deploy as deployed
    from flows.deploying.folder import FolderUnusable

    try:
        with plain_errors(NoFolder, FolderUnusable):
            done = deployed(folder)
    except httpx.HTTPError as error:
        fail(f"the Prefect server at {get_current_settings().api.url}: {error}; `trivet status` says whether it is up")
    emit(done, as_json, lambda: _show(done))
    if done.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def _show(done: Deployed) -> None:
    for line in done.changed:
        typer.echo(line)
    if not done.changed:
        typer.echo("unchanged")
    for line in done.kept:
        typer.echo(f"{line} stays as it was set in the UI")
    for name, why in done.failed.items():
        typer.secho(f"{name}: {why}", fg="red", err=True)
    typer.echo(f"Ready: {', '.join(done.deployments)}")
