"""`trivet up`, `down`, `status`, `logs` and `env`: Prefect's server and the workers of the pools, kept running."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import sysconfig
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.commands import Json
from flows.cli.engine import TERMINATED, handling
from flows.cli.output import DONE_WITH_FAILURES, FAILED, INTERRUPTED, REFUSED, emit, fail, harmless, plain_errors
from flows.running.settings import settings
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from flows.running.reruns import Rerun
    from flows.service.asked_service import Wanted
    from flows.service.deploying import Deployed
    from flows.service.place import Place
    from flows.service.service_start import Up
    from flows.service.service_status import Status


def up(
    no_gpu: bool = typer.Option(False, "--no-gpu", help="Start no worker for the pool gpu; GPU steps run inline."),
    pools: str = typer.Option("cpu,gpu", metavar="POOL,…", help="Pools that get a worker on this machine."),
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port of the server on this machine. Unset: the one used last, or 4200."
    ),
    listen: str | None = typer.Option(
        None,
        metavar="ADDRESS[:PORT]",
        help="Address of this machine at which others reach the server, by TLS; prints the line for `trivet join`.",
    ),
    certificate: Path | None = typer.Option(
        None, metavar="FILE", help="PEM file with the certificate for --listen. Unset: one of its own making."
    ),
    key: Path | None = typer.Option(None, metavar="FILE", help="PEM file with the key of --certificate."),
    server: str | None = typer.Option(
        None, metavar="URL", help="Join this server instead of starting one, with PREFECT_API_AUTH_STRING."
    ),
    workers_only: bool = typer.Option(
        False, "--workers-only", help="Only start workers, for --server or PREFECT_API_URL; deploy nothing."
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
    from flows.service.asked_service import Wanted, address_in, pools_in
    from flows.service.served_collections import absolute, folders_of, require_indexes

    with plain_errors(Refused, StorageError):
        host, port = address_in(listen, port)
        collections = absolute(folders_of(index or [], documents or []))
        require_indexes(collections)
        wanted = Wanted(
            pools=pools_in(pools, no_gpu=no_gpu),
            port=port,
            listen=host,
            certificate=certificate,
            key=key,
            server=server,
            workers_only=workers_only,
            collections=collections,
        )
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
    from flows.running.shared_api import end_shared_api
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


def join(
    token: str = typer.Argument("", help="The line of `trivet up --listen`; - reads it from stdin."),
    store: str | None = typer.Option(
        None, metavar="DIR|URL", help="The shared store as this machine reaches it. Unset: as the server names it."
    ),
    leave: bool = typer.Option(False, "--leave", help="Forget the server that was joined."),
    as_json: Json = False,
) -> None:
    """Make this home work for the server of another machine: take its settings, check each, and keep them."""
    from flows.service.api import Refused
    from flows.service.joining.joined import joined_of, leave_server
    from flows.service.joining.joining import JoinReport
    from flows.service.joining.joining import join as joined
    from flows.service.joining.tokens import read_token

    place = _place()
    if leave:
        left = joined_of(place)
        leave_server(place)
        told = {"left": left.api_url if left else None}
        emit(told, as_json, lambda: typer.echo(f"Left: {told['left'] or 'nothing'}. `trivet down` stops its workers."))
        return
    checks: dict[str, str] = {}

    def say(name: str, found: str) -> None:
        checks[name] = found
        if not as_json:
            typer.echo(harmless(f"  {name:<12} {found}"))

    with plain_errors(Refused):
        found = joined(place, read_token(sys.stdin.read() if token == "-" else token), store=store, say=say)
    report = JoinReport(api_url=found.api_url, store=found.store, checks=checks)
    emit(report, as_json, lambda: typer.echo("Joined. Start its workers here: trivet up --pools gpu"))


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


def logs(
    part: str | None = typer.Argument(
        None, help="server, pages, cpu, gpu, database or supervisor. Unset: all of them."
    ),
    follow: bool = typer.Option(False, "--follow", "-f", help="Keep printing new lines."),
    lines: int = typer.Option(30, "--lines", "-n", min=0, help="Number of past lines to show of each log."),
    as_json: Json = False,
) -> None:
    """Show the logs of the service."""
    from flows.service.place import PARTS
    from flows.service.service_status import follow as followed
    from flows.service.service_status import last_lines, logs_of

    if part and part not in PARTS:
        fail(f"{part!r} is no part; there are {', '.join(PARTS)}", REFUSED)
    if follow and as_json:
        fail("--json is one object, and --follow has no end; say one of them", REFUSED)
    files = logs_of(_place(), part)
    told = {each: {"file": str(log), "lines": last_lines(log, lines)} for each, log in files.items()}

    def show(lines: Iterable[tuple[str, str]]) -> None:
        for name, line in lines:
            typer.echo(harmless(line if part else f"{name:<10} {line}"))

    emit(told, as_json, lambda: show((name, line) for name in told for line in told[name]["lines"]))
    if not follow:
        return
    try:
        show(followed(files))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def env(as_json: Json = False) -> None:
    """Print what a shell needs to run `prefect` and `trivet` with the server of this home: eval "$(trivet env)"."""
    from flows.service.api import address_of, auth_of
    from flows.service.joining.joined import joined_of

    home = settings().home
    address = address_of(home)
    if address is None:
        fail("no service runs here; start one with `trivet up`")
    joined = joined_of(_place())
    variables = {
        **(joined.variables() if joined and joined.api_url == address.api_url else {}),
        "PREFECT_API_URL": address.api_url,
        "PREFECT_API_AUTH_STRING": auth_of(home) or "",
        "PREFECT_API_SSL_CERT_FILE": address.authority or "",
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
        typer.echo(f"  pages to ask, to see documents, evaluations and runs: {done.pages_url}")
    typer.echo(f"  user and password, as the UI asks for them (the pages for both as one): {done.auth_file}")
    if done.database:
        typer.echo("  for those who only read, operate or work: auth-viewer, auth-operator, auth-worker beside it")
    if done.database:
        typer.echo(f"  database: {done.database.kind}, because {done.database.why}")
    typer.echo(f"  workers for the pools: {', '.join(done.pools)}")
    typer.echo(f"  relative paths of parameters begin in {done.folder}")
    if done.deployments:
        typer.echo(f"  deployments: {', '.join(done.deployments)}")
    for name, why in done.failed.items():
        typer.secho(f"  {name} cannot be run: {why}", fg="red", err=True)
    if done.token:
        typer.echo("  on another machine, within an hour:")
        typer.echo(f"trivet join {done.token}")
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
    """Create deployments, schedules, pools, limits and automations on the server; repeating it changes nothing."""
    from flows.service.api import NotConnected, connect

    with plain_errors(failed=(NotConnected,)):
        connect(settings().home)
    import httpx
    from prefect.settings import get_current_settings

    from flows.service.deploying import NoFolder
    from flows.service.deploying import deploy as deployed
    from flows.service.deploying.deployments_folder import FolderUnusable

    try:
        with plain_errors(NoFolder, FolderUnusable):
            done = deployed(folder)
    except httpx.HTTPError as error:
        fail(f"the Prefect server at {get_current_settings().api.url}: {error}; `trivet status` says whether it is up")
    emit(done, as_json, lambda: _show_deployed(done))
    if done.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def _show_deployed(done: Deployed) -> None:
    for line in done.changed:
        typer.echo(line)
    if not done.changed:
        typer.echo("unchanged")
    for line in done.kept:
        typer.echo(f"{line} stays as it was set in the UI")
    for name, why in done.failed.items():
        typer.secho(f"{name}: {why}", fg="red", err=True)
    typer.echo(f"Ready: {', '.join(done.deployments)}")


WITH_FAILURES = "CompletedWithFailures"


def rerun(
    run: str = typer.Argument(help="ID of a flow run, the beginning of the ID, or the name of the run."),
    wait: bool = typer.Option(False, "--wait", help="Wait until it has ended; exit 1 if it failed."),
    as_json: Json = False,
) -> None:
    """Run a deployed run again, like Retry in the UI: only what failed or never ran is done."""
    from flows.service.api import NotConnected, connect

    with plain_errors(failed=(NotConnected,)):
        connect(settings().home)

    from flows.running import reruns

    with plain_errors(reruns.CannotRerun, failed=(reruns.ServerAway,)):
        again = reruns.rerun(run)
        if wait:
            if not as_json:
                _show_rerun(again)
            again = reruns.wait_for(again)
    emit(again, as_json, lambda: _show_rerun(again))
    if again.ended and not again.completed:
        raise typer.Exit(FAILED)
    if again.state == WITH_FAILURES:
        raise typer.Exit(DONE_WITH_FAILURES)


def _show_rerun(again: Rerun) -> None:
    said = f": {again.message}" if again.ended and again.message else ""
    typer.echo(harmless(f"{again.deployment}  {again.name}  {again.state}{said}"))
    if again.note:
        typer.secho(again.note, fg="yellow", err=True)
    if again.url and not again.ended:
        typer.echo(again.url)


COMMANDS = (up, down, join, status, logs, env, deploy, rerun)
