"""`trivet up`, `down`, `status`, `logs` and `env`: Prefect's server and the workers of the pools, kept running."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.output import DONE_WITH_FAILURES, FAILED, INTERRUPTED, REFUSED, emit, fail, harmless, plain_errors

if TYPE_CHECKING:
    from flows.service.place import Place
    from flows.service.starting import Up
    from flows.service.status import Status

JSON = typer.Option(False, "--json", help="One JSON object on stdout.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    for command in (up, down, status, logs, env):
        app.command()(command)


def up(
    no_gpu: bool = typer.Option(False, "--no-gpu", help="No worker for the pool gpu; GPU steps run inline."),
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port of the server on this machine; unset: that of the last time, or 4200."
    ),
    server: str | None = typer.Option(
        None, metavar="URL", help="Join this server in place of one of our own; PREFECT_API_AUTH_STRING lets us in."
    ),
    workers_only: bool = typer.Option(
        False, "--workers-only", help="Deploy nothing: only workers, for --server or PREFECT_API_URL."
    ),
    as_json: bool = JSON,
) -> None:
    """Start server and workers, keep them running, deploy everything, wait until all is healthy; again is harmless."""
    from flows.service.asked import Wanted
    from flows.service.errors import Refused, ServiceError
    from flows.service.starting import up as started
    from flows.service.stopping import end
    from storage.errors import StorageError

    def say(text: str) -> None:
        if not as_json:
            typer.secho(harmless(text), dim=True, err=True)

    wanted = Wanted(gpu=not no_gpu, port=port, server=server, workers_only=workers_only)
    place = _place()
    with _ended_by_signals() as came, plain_errors(Refused, failed=(ServiceError, StorageError, FileNotFoundError)):
        done = started(place, wanted, os.environ.copy(), say=say)
        if came and done.state != "unchanged":
            with place.alone():
                end(place)
        if came:
            raise _Terminated
    emit(done, as_json, lambda: _show_up(done))
    if done.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


class _Terminated(SystemExit):
    """SIGTERM came; of this class, since event loops keep any other to themselves."""


@contextmanager
def _ended_by_signals() -> Generator[list[int]]:
    """After Ctrl-C or SIGTERM, and once what had started was stopped, end with a sentence.

    Gives a list that SIGTERM is put into: code of others may swallow what is raised in the middle of it.
    """
    from flows.cli.engine import TERMINATED

    came: list[int] = []

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another would leave what is being stopped
        came.append(number)
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield came
    except KeyboardInterrupt:
        fail("interrupted; what had started was stopped", INTERRUPTED)
    except _Terminated:
        fail("terminated; what had started was stopped", TERMINATED)
    finally:
        signal.signal(signal.SIGTERM, before)


def down(as_json: bool = JSON) -> None:
    """Stop everything, the embedded database too; runs under way are handed back, and go on after `trivet up`."""
    from flows.service.stopping import end
    from storage.embedded import Cluster
    from storage.errors import StorageError

    place = _place()
    with plain_errors(failed=(StorageError,)):
        stopped: list[str] = []
        if place.home.exists():
            with place.alone():
                stopped = end(place)
            stopped += ["the embedded database"] if Cluster(place.home).stop() else []
    emit({"stopped": stopped}, as_json, lambda: typer.echo(f"Stopped: {', '.join(stopped) or 'nothing was running'}."))


def status(as_json: bool = JSON) -> None:
    """Show how the parts and pools are, and what they take; exit 1 unless all is healthy."""
    from flows.service.status import status as looked
    from flows.settings import settings
    from storage.errors import StorageError

    store = settings().store
    folder = None if store and "://" in store else Path(store) if store else settings().home / "store"
    with plain_errors(failed=(StorageError,)):
        found = looked(_place(), store=folder)
    emit(found, as_json, lambda: _show_status(found))
    if found.state != "healthy":
        raise typer.Exit(FAILED)


def logs(
    part: str | None = typer.Argument(None, help="server, cpu, gpu, database or supervisor; unset: all."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on with what is written from now on."),
    lines: int = typer.Option(30, "--lines", "-n", min=0, help="Lines of each part to begin with."),
    as_json: bool = JSON,
) -> None:
    """Show what the parts say."""
    from flows.service.logs import follow as followed
    from flows.service.logs import last_lines, logs_of
    from flows.service.place import PARTS

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


def env(as_json: bool = JSON) -> None:
    """Print what the `prefect` command needs to talk to the server: eval "$(trivet env)"."""
    from flows.connecting import address_of, auth_of
    from flows.settings import settings

    home = settings().home
    address = address_of(home)
    if address is None:
        fail("no service runs here; start one with `trivet up`")
    variables = {
        "PREFECT_API_URL": address.api_url,
        "PREFECT_API_AUTH_STRING": auth_of(home) or "",
        "PREFECT_HOME": os.environ.get("PREFECT_HOME", str(home / "prefect")),
        "TRIVET_HOME": str(home),
    }
    told = {name: value for name, value in variables.items() if value}
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in told.items())
    emit(told, as_json, lambda: typer.echo(exports))


def _place() -> Place:
    from flows.service.place import Place
    from flows.settings import settings

    return Place(settings().home)


def _show_up(done: Up) -> None:
    typer.secho(f"{done.ui_url}  ({done.state})", bold=True)
    typer.echo(f"  user and password, as the UI asks for them: {done.auth_file}")
    if done.database:
        typer.echo(f"  database: {done.database.kind}, because {done.database.why}")
    typer.echo(f"  workers for the pools: {', '.join(done.pools)}")
    typer.echo(f"  relative paths of parameters begin in {done.folder}")
    if done.deployments:
        typer.echo(f"  deployments: {', '.join(done.deployments)}")
    for name, why in done.failed.items():
        typer.secho(f"  {name} cannot be run: {why}", fg="red", err=True)
    typer.echo('  for the prefect command: eval "$(trivet env)"; to stop: trivet down')


def _show_status(found: Status) -> None:
    colours = {"healthy": "green", "unhealthy": "red", "down": "yellow"}
    typer.secho(found.state, fg=colours[found.state], nl=False)
    typer.echo(f"  {found.ui_url or ''}")
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
