"""`trivet up`, `down`, `status` and `deploy`: the service; `trivet rag serve`: pages and doors of indexes alone."""

from __future__ import annotations

import ipaddress
import os
import shlex
import signal
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands import Json, OptionValues
from flows.cli.engine import TERMINATED, handle_signal
from flows.cli.output import DONE_WITH_FAILURES, FAILED, INTERRUPTED, REFUSED, emit, fail, harmless, plain_errors, state
from flows.cli.shared_options import LAST_INDEX, last_index
from flows.running.config_reading import nest_values
from flows.running.settings import settings
from flows.service.place import DEFAULT_PORT, Place, UpOptions, pools_in
from models.model_errors import ModelUnavailable
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from flows.service.served_collections import Collection, Folders

IndexesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--index",
        metavar="[NAME=]DIR",
        help="Folder of an index that the pages show, or postgresql://…; may be repeated. Unset: `up` shows those of "
        "last time, `serve` the one that `rag index` made last.",
    ),
]
DocumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--documents",
        metavar="[NAME=]DIR",
        help="Folder that an index is made of: it is watched, and documents are uploaded and removed on the pages.",
    ),
]


def up(
    pools: str | None = typer.Option(
        None,
        metavar="POOL,…",
        help="Pools that get a worker on this machine; without gpu, GPU steps run inline. Unset: those of last time, "
        "or cpu,gpu.",
    ),
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port of the server on this machine. Unset: the one used last, or 4200."
    ),
    workers_only: bool = typer.Option(
        False, "--workers-only", help="Only start workers, for the server of PREFECT_API_URL."
    ),
    index: IndexesOption = None,
    documents: DocumentsOption = None,
    as_json: Json = False,
) -> None:
    """Start the Prefect server and workers, keep them running and deploy the flows; repeating it is harmless."""
    from flows.service import lifecycle
    from flows.service.served_collections import folders_of, make_absolute, require_indexes

    def say(text: str) -> None:
        if not as_json:
            typer.secho(harmless(text), dim=True, err=True)

    with plain_errors(StorageError):
        collections = make_absolute(folders_of(index or [], documents or []))
        require_indexes(collections)
    place, pool_names = Place(settings().home), pools_in(pools) if pools else None
    options = UpOptions(pools=pool_names, port=port, workers_only=workers_only, collections=collections)
    with _end_on_signals() as received:
        started = lifecycle.up(place, options, os.environ.copy(), say=say)
        if received and started.state != "unchanged":  # what ran before goes on
            with place.lock():
                lifecycle.end(place)
        if received:
            raise _Ended

    def show() -> None:
        """Print where the service answers, and what was started."""
        typer.secho(f"{started.ui_url}  ({started.state})", bold=True)
        if started.pages_url:
            typer.echo(f"  pages to ask, to see documents, evaluations and nights: {started.pages_url}")
        typer.echo(f"  user and password, as the UI asks for them (the pages for both as one): {started.auth_file}")
        if started.database:
            typer.echo(f"  database: {started.database.kind}, because {started.database.why}")
        typer.echo(f"  workers for the pools: {', '.join(started.pools)}")
        typer.echo(f"  relative paths of parameters begin in {started.folder}")
        if started.deployments:
            typer.echo(f"  deployments: {', '.join(started.deployments)}")
        if started.failed:
            typer.secho(f"  {started.failed}", fg="red", err=True)
        typer.echo('  for the prefect command: eval "$(trivet status --shell)"; to stop: trivet down')

    emit(started, as_json, show)
    if started.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


class _Ended(SystemExit):
    """Ctrl-C or SIGTERM was received; a SystemExit, since event loops swallow other exceptions."""


@contextmanager
def _end_on_signals() -> Generator[list[int]]:
    """End with a message after Ctrl-C or SIGTERM.

    Yields a list of the signals received: the exception that the handler raises is lost where a library swallows it,
    or where the signal comes within a `__del__`.
    """
    received: list[int] = []

    def end(number: int, _: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):  # a second one would interrupt the stopping
            signal.signal(each, signal.SIG_IGN)
        received.append(number)
        raise _Ended

    with handle_signal(signal.SIGTERM, end), handle_signal(signal.SIGINT, end):
        try:
            yield received
        except _Ended:
            if received[0] == signal.SIGINT:
                fail("interrupted; what had started was stopped", INTERRUPTED)
            fail("terminated; what had started was stopped", TERMINATED)


def down(as_json: Json = False) -> None:
    """Stop the service and the embedded database; runs under way continue after the next `trivet up`."""
    from flows.running.command_server import end_shared_api
    from flows.service.lifecycle import end
    from storage.embedded import Cluster

    place, stopped = Place(settings().home), list[str]()
    if place.home.exists():
        with place.lock():
            stopped = end(place)
        stopped += ["the Prefect API of commands"] if end_shared_api(place.home) else []
        stopped += ["the embedded database"] if Cluster(place.home).stop() else []
    emit({"stopped": stopped}, as_json, lambda: typer.echo(f"Stopped: {', '.join(stopped) or 'nothing was running'}."))


def status(
    shell: Annotated[
        bool, typer.Option("--shell", help='Print what a shell needs for `prefect`: eval "$(trivet status --shell)".')
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the state of server, pages, workers and pools; exit 1 unless all is healthy."""
    from flows.service.lifecycle import status as read_status

    if shell:
        _print_environment(as_json)
        return
    store = settings().store
    folder = None if store and "://" in store else Path(store) if store else settings().home / "store"
    current = read_status(Place(settings().home), store=folder)

    def show() -> None:
        """Print the state of the service, its parts and its pools."""
        colours = {"healthy": "green", "unhealthy": "red", "down": "yellow"}
        typer.secho(current.state, fg=colours[current.state], nl=False)
        typer.echo(f"  {current.ui_url or 'start it with `trivet up`'}")
        if current.pages_url:
            typer.echo(f"  pages: {current.pages_url}")
        for problem in current.problems:
            typer.secho(f"  {problem}", fg="red")
        for part in current.parts:
            since = f"pid {part.pid}, for {part.running_s} s" if part.running_s is not None else ""
            typer.echo(f"  {part.name:<10} {part.state:<9} {since}")
        for pool in current.pools:
            typer.echo(f"  pool {pool.name}: {pool.running} running, {pool.waiting} waiting")
        if current.database:
            typer.echo(f"  Prefect's database: {current.database.kind}, because {current.database.why}")
        if current.parts:
            typer.echo(f"  memory: {current.memory_bytes / 1e6:.0f} MB")

    emit(current, as_json, show)
    if current.state != "healthy":
        raise typer.Exit(FAILED)


def _print_environment(as_json: bool) -> None:
    """Print the variables with which a shell runs `prefect` and `trivet` on the server of this home."""
    from flows.service.api import Api, ApiFailed, auth_of, service_of
    from flows.service.deploy import TIMEZONE, zone_of_schedules

    home = settings().home
    service = service_of(home)
    if service is None:
        fail("no service runs here; start one with `trivet up`")
    try:
        zone = zone_of_schedules(Api(service.api_url, auth_of(home)))  # `prefect deploy --all` reads it
    except ApiFailed:
        zone = ""
    variables = {
        "PREFECT_API_URL": service.api_url,
        "PREFECT_API_AUTH_STRING": auth_of(home) or "",
        "PREFECT_HOME": os.environ.get("PREFECT_HOME") or str(home / "prefect"),
        "TRIVET_HOME": str(home),
        TIMEZONE: zone,
    }
    exported = {name: value for name, value in variables.items() if value}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
    emit(exported, as_json, lambda: typer.echo("\n".join([*exports, on_path(sysconfig.get_path("scripts"))])))


def on_path(folder: str) -> str:
    """Return the shell command that puts `folder` first on PATH unless PATH has it already."""
    quoted = shlex.quote(folder)
    return f'case ":$PATH:" in *:{quoted}:*) ;; *) export PATH={quoted}"${{PATH:+:$PATH}}" ;; esac'


def deploy(as_json: Json = False) -> None:
    """Create pools, limits and automations, and run `prefect deploy --all`; a second time is harmless."""
    from flows.running.environment import prepare_environment
    from flows.service.api import Api, connect
    from flows.service.deploy import deploy as put

    connect(settings().home)
    prepare_environment()
    deployed = put(Api(os.environ["PREFECT_API_URL"], os.environ.get("PREFECT_API_AUTH_STRING")))
    emit(deployed, as_json, lambda: typer.echo(f"Ready: {', '.join(deployed.deployments)}"))


def serve(
    values: OptionValues,
    index: IndexesOption = None,
    documents: DocumentsOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = DEFAULT_PORT,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen on an address that other machines reach.")
    ] = False,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve MCP on stdin and stdout instead, to an agent that starts it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP, to programs and on pages: ask, see the cited place, documents, numbers, evaluations."""
    from flows.service.answering import Asking
    from flows.service.page_server import auth_string, listen, serve_pages
    from flows.service.served_collections import Collections, folders_of
    from storage.engines import index_name
    from tasks.resources import evaluations, sessions

    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not allow_remote and not is_loopback:
        fail(f"--host {host} is reached from other machines; say --allow-remote if that is meant", REFUSED)
    home = settings().home
    with plain_errors(StorageError, ModelUnavailable, OSError):
        is_open = not documents and (home / LAST_INDEX).is_file()  # documents are of an index that is named
        folders = folders_of(index or ([index_name(last_index())] if is_open else []), documents or [])
        collections = [_open_collection(values, name, folder) for name, folder in folders.items()]
        if mcp:
            try:
                from flows.service.web.mcp_door import create_mcp
            except ImportError:
                fail("MCP needs an extra: pip install 'trivet[mcp]'", REFUSED)
            if not collections:
                fail("--mcp needs an index: --index DIR", REFUSED)
            # an agent searches, asks, reads numbers, pages and results
            create_mcp(Asking(sessions()), Collections(collections), evaluations).run("stdio")
            return
        auth = auth_string(home, configured=settings().serve_token)
        listening = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listening.getsockname()[1]}"
    paths = {name: index_name(folder.index) for name, folder in folders.items()}
    facts = {"url": url, "auth": auth.place, "index": next(iter(paths.values()), None), "collections": paths}
    about = f"answers about {', '.join(paths.values())}" if paths else "shows evaluations"
    emit(facts, as_json, lambda: typer.echo(f"{url} {about}; its auth string is in {auth.place}"))
    if not is_loopback:
        typer.secho("note: questions, answers and the auth string cross the network unencrypted", fg="yellow", err=True)
    serve_pages(collections, auth.secret, listening, home=home, verbose=state["debug"])
    typer.echo("stopped", err=True)
    raise typer.Exit(INTERRUPTED)


def _open_collection(values: OptionValues, name: str, folders: Folders) -> Collection:
    """Return a collection; a published index is opened once, to raise StorageError now and not to the first client."""
    from flows.service.page_server import open_collection
    from storage.index import is_published
    from tasks.rag.answers import AnswerSettings

    answers = AnswerSettings.model_validate(nest_values(values).get("answers", {}))
    collection = open_collection(name, folders, llm=values["llm"], reranker=values["reranker"], answers=answers)
    if collection.indexing is None or is_published(folders.index):
        with collection.live.borrow():
            pass
    return collection


COMMANDS = (up, down, status, deploy)
