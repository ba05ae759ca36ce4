"""`trivet rag serve`, the server of answers and pages, and `trivet mcp` for agents."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from flows.cli.commands import Given, Json
from flows.cli.output import INTERRUPTED, REFUSED, emit, fail, plain_errors, state
from flows.running.config_reading import nested
from flows.running.settings import settings
from flows.service.api import Refused
from flows.service.page_server import DEFAULT_PORT, listen, open_collection, serve_pages
from flows.service.served_collections import Collection, Collections, Folders, folders_of
from models.model_errors import ModelError, ModelUnavailable
from storage.engines import index_name
from storage.storage_errors import StorageError
from tasks.rag.answers import AnswerSettings

QUESTIONS_OF_AN_AGENT = 4


HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")]
IndexesOption = Annotated[
    list[str],
    typer.Option("--index", metavar="[NAME=]DIR", help="Folder of an index, or postgresql://…; may be repeated."),
]
DocumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--documents",
        metavar="[NAME=]DIR",
        help="Folder that an index is made of: it is watched, and documents are uploaded and removed on the pages.",
    ),
]
RemoteOption = Annotated[bool, typer.Option("--allow-remote", help="Listen on an address that other machines reach.")]


def serve(
    given: Given,
    index: Annotated[
        list[str] | None,
        typer.Option(
            "--index",
            metavar="[NAME=]DIR",
            help="Folder of an index, or postgresql://…; may be repeated. Unset: pages of evaluations.",
        ),
    ] = None,
    documents: DocumentsOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = DEFAULT_PORT,
    allow_remote: RemoteOption = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP, to programs and on pages: ask, see the cited place, documents, numbers, evaluations."""
    _serve(given, index or [], documents or [], _Address(host, port, allow_remote), as_json=as_json)


class _Address(NamedTuple):
    host: str
    port: int
    allow_remote: bool


def _serve(given: Given, indexes: Sequence[str], documents: Sequence[str], at: _Address, *, as_json: bool) -> None:
    from flows.service.index_server import AuthUnusable, auth_string

    if not at.allow_remote and not _is_loopback(at.host):
        fail(f"--host {at.host} is reached from other machines; say --allow-remote if that is meant", REFUSED)
    home = settings().home
    with plain_errors(Refused, StorageError, AuthUnusable, ModelUnavailable, OSError, failed=(ModelError,)):
        auth = auth_string(home, configured=settings().serve_token)
        folders = folders_of(indexes, documents)
        collections = [_collection(given, name, one) for name, one in folders.items()]
        listening = listen(at.host, at.port)
    name = f"[{at.host}]" if ":" in at.host else at.host
    url = f"http://{name}:{listening.getsockname()[1]}"
    paths = {name: index_name(one.index) for name, one in folders.items()}
    said = {"url": url, "auth": auth.place, "index": next(iter(paths.values()), None), "collections": paths}
    about = f"answers about {', '.join(paths.values())}" if paths else "shows evaluations"
    emit(said, as_json, lambda: typer.echo(f"{url} {about}; its auth string is in {auth.place}"))
    if not _is_loopback(at.host):
        typer.secho("note: questions, answers and the auth string cross the network unencrypted", fg="yellow", err=True)
    serve_pages(collections, auth.secret, listening, home=home, verbose=state["debug"])
    typer.echo("stopped", err=True)
    raise typer.Exit(INTERRUPTED)


def _collection(given: Given, name: str, folders: Folders) -> Collection:
    """The collection, opened once, so that a bad index or model is reported now and not to the first client."""
    from storage.index import is_published

    answers = AnswerSettings.model_validate(nested(given).get("answers", {}))
    made = open_collection(name, folders, llm=given["llm"], reranker=given["reranker"], answers=answers)
    if made.indexing is None or is_published(folders.index):
        with made.live.borrow():
            pass
    return made


def mcp(given: Given, index: IndexesOption) -> None:
    """Serve MCP on stdin and stdout: an agent searches, asks, reads numbers, pages and results."""
    from flows.service.answering import Asking, Places
    from tasks.resources import evaluations, sessions

    try:
        from flows.service.web.mcp_door import create_mcp
    except ImportError:
        fail("MCP needs an extra: pip install 'trivet[mcp]'", REFUSED)
    with plain_errors(Refused, StorageError, ModelUnavailable, failed=(ModelError,)):
        served = Collections([_collection(given, name, one) for name, one in folders_of(index, []).items()])
    asking = Asking(sessions(), lambda: False, Places(QUESTIONS_OF_AN_AGENT))
    create_mcp(asking, served, evaluations).run("stdio")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
