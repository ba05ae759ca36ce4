"""`trivet up`, `down`, `status`, `env` and `deploy`: Prefect's server and the workers of the pools, kept running."""

from __future__ import annotations

import os
import shlex
import signal
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.commands import Json
from flows.cli.engine import TERMINATED, handling
from flows.cli.output import DONE_WITH_FAILURES, FAILED, INTERRUPTED, emit, fail, harmless, plain_errors
from flows.running.settings import settings
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from flows.service.asked_service import Wanted
    from flows.service.place import Place
    from flows.service.service_start import Up
    from flows.service.service_status import Status


def up(
    pools: str = typer.Option(
        "cpu,gpu", metavar="POOL,…", help="Pools that get a worker on this machine; without gpu, GPU steps run inline."
    ),
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port of the server on this machine. Unset: the one used last, or 4200."
    ),
    workers_only: bool = typer.Option(
        False, "--workers-only", help="Only start workers, for the server of PREFECT_API_URL."
    ),
    index: list[str] | None = typer.Option(
        None, metavar="[NAME=]DIR", help="Folder of an index that the pages show; may be repeated. Unset: as last time."
    ),
    documents: list[str] | None = typer.Option(
        None, metavar="[NAME=]DIR", help="Folder that an index is made of, and kept up to date with by the pages."
    ),
    as_json: Json = False,
) -> None:
    """Start the Prefect server and workers, keep them running and deploy the flows; repeating it is harmless."""
    from flows.service.api import Refused
    from flows.service.asked_service import Wanted, pools_in
    from flows.service.served_collections import absolute, folders_of, require_indexes

    with plain_errors(Refused, StorageError):
        collections = absolute(folders_of(index or [], documents or []))
        require_indexes(collections)
        wanted = Wanted(pools=pools_in(pools), port=port, workers_only=workers_only, collections=collections)
    done = _started(wanted, quiet=as_json)
    emit(done, as_json, lambda: _show_up(done))
    if done.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def _started(wanted: Wanted, *, quiet: bool) -> Up:
    """The service, up; a signal stops what had started."""
    from flows.service.api import Refused, ServiceError
    from flows.service.service_start import end, up

    def say(text: str) -> None:
        if not quiet:
            typer.secho(harmless(text), dim=True, err=True)

    place = _place()
    with _ended_by_signals() as came, plain_errors(Refused, failed=(ServiceError, StorageError, FileNotFoundError)):
        done = up(place, wanted, os.environ.copy(), say=say)
        if came and done.state != "unchanged":
            with place.alone():
                end(place)
        if came:
            raise _Terminated
    return done


class _Terminated(SystemExit):
    """SIGTERM was received; a SystemExit, since event loops swallow other exceptions."""


@contextmanager
def _ended_by_signals() -> Generator[list[int]]:
    """End with a message after Ctrl-C or SIGTERM.

    Yields a list of the signals received: a library may swallow the exception that the handler raises.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would interrupt the stopping
        came.append(number)
        raise _Terminated

    with handling(signal.SIGTERM, end):
        try:
            yield came
        except KeyboardInterrupt:
            fail("interrupted; what had started was stopped", INTERRUPTED)
        except _Terminated:
            fail("terminated; what had started was stopped", TERMINATED)


def down(as_json: Json = False) -> None:
    """Stop the service and the embedded database; runs under way continue after the next `trivet up`."""
    from flows.running.command_server import end_shared_api
    from flows.service.service_start import end
    from storage.embedded import Cluster

    place = _place()
    with plain_errors(failed=(StorageError,)):
        stopped: list[str] = []
        if place.home.exists():
            with place.alone():
                stopped = end(place)
            stopped += ["the Prefect API of commands"] if end_shared_api(place.home) else []
            stopped += ["the embedded database"] if Cluster(place.home).stop() else []
    emit({"stopped": stopped}, as_json, lambda: typer.echo(f"Stopped: {', '.join(stopped) or 'nothing was running'}."))


def status(as_json: Json = False) -> None:
    """Show the state of server, workers and pools, and the disk they use; exit 1 unless all is healthy."""
    from flows.service.service_status import status as looked

    store = settings().store
    folder = None if store and "://" in store else Path(store) if store else settings().home / "store"
    with plain_errors(failed=(StorageError,)):
        found = looked(_place(), store=folder)
    emit(found, as_json, lambda: _show_status(found))
    if found.state != "healthy":
        raise typer.Exit(FAILED)


def env(as_json: Json = False) -> None:
    """Print what a shell needs to run `prefect` and `trivet` with the server of this home: eval "$(trivet env)"."""
    from flows.service.api import address_of, auth_of

    home = settings().home
    address = address_of(home)
    if address is None:
        fail("no service runs here; start one with `trivet up`")
    variables = {
        "PREFECT_API_URL": address.api_url,
        "PREFECT_API_AUTH_STRING": auth_of(home) or "",
        "PREFECT_HOME": os.environ.get("PREFECT_HOME") or str(home / "prefect"),
        "TRIVET_HOME": str(home),
    }
    told = {name: value for name, value in variables.items() if value}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in told.items()]
    emit(told, as_json, lambda: typer.echo("\n".join([*exports, on_path(sysconfig.get_path("scripts"))])))


def on_path(folder: str) -> str:
    """The shell command that puts `folder` first on PATH, unless it is on it already."""
    quoted = shlex.quote(folder)
    return f'case ":$PATH:" in *:{quoted}:*) ;; *) export PATH={quoted}"${{PATH:+:$PATH}}" ;; esac'


def _place() -> Place:
    from flows.service.place import Place

    return Place(settings().home)


def _show_up(done: Up) -> None:
    typer.secho(f"{done.ui_url}  ({done.state})", bold=True)
    if done.pages_url:
        typer.echo(f"  pages to ask, to see documents, evaluations and nights: {done.pages_url}")
    typer.echo(f"  user and password, as the UI asks for them (the pages for both as one): {done.auth_file}")
    if done.database:
        typer.echo(f"  database: {done.database.kind}, because {done.database.why}")
    typer.echo(f"  workers for the pools: {', '.join(done.pools)}")
    typer.echo(f"  relative paths of parameters begin in {done.folder}")
    if done.deployments:
        typer.echo(f"  deployments: {', '.join(done.deployments)}")
    if done.failed:
        typer.secho(f"  {done.failed}", fg="red", err=True)
    typer.echo('  for the prefect command: eval "$(trivet env)"; to stop: trivet down')


def _show_status(found: Status) -> None:
    colours = {"healthy": "green", "unhealthy": "red", "down": "yellow"}
    typer.secho(found.state, fg=colours[found.state], nl=False)
    typer.echo(f"  {found.ui_url or ''}")
    if found.pages_url:
        typer.echo(f"  pages: {found.pages_url}")
    for problem in found.problems:
        typer.secho(f"  {problem}", fg="red")
    for part in found.parts:
        since = f"pid {part.pid}, for {part.running_s} s" if part.running_s is not None else ""
        typer.echo(f"  {part.name:<10} {part.state:<9} {since}")
    for pool in found.pools:
        typer.echo(f"  pool {pool.name}: {pool.running} running, {pool.waiting} waiting")
    if found.database:
        typer.echo(f"  Prefect's database: {found.database.kind}, because {found.database.why}")
    if found.parts:
        typer.echo(f"  memory: {found.memory_bytes / 1e6:.0f} MB")
    used = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in found.disk_bytes.items())
    typer.echo(f"  disk: {used}")


def deploy(
    folder: Path | None = typer.Option(
        None, "--folder", metavar="DIR", help="Folder with prefect.yaml. Unset: the one that came with trivet."
    ),
    as_json: Json = False,
) -> None:
    """Create pools, limits and automations, and run `prefect deploy --all`; a second time is harmless."""
    from flows.running.environment import prepare_environment
    from flows.service.api import Api, ApiFailed, NotConnected, connect
    from flows.service.deploy import DeployFailed, NoFolder
    from flows.service.deploy import deploy as put

    with plain_errors(NoFolder, DeployFailed, failed=(NotConnected, ApiFailed)):
        connect(settings().home)
        prepare_environment()
        done = put(Api(os.environ["PREFECT_API_URL"], os.environ.get("PREFECT_API_AUTH_STRING")), folder)
    emit(done, as_json, lambda: typer.echo(f"Ready: {', '.join(done.deployments)}"))


COMMANDS = (up, down, status, env, deploy)
