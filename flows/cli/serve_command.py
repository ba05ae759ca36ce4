"""`trivet rag serve` and `trivet ui`, one server of answers and pages, and `trivet mcp` for agents."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer

from flows.cli.commands import Given, Json, nested
from flows.cli.output import INTERRUPTED, REFUSED, emit, fail, plain_errors, state
from flows.cli.shared_options import IndexFolder
from flows.running.settings import settings
from flows.service.page_server import DEFAULT_PORT, listen, run
from models.model_errors import ModelError, ModelUnavailable
from storage.storage_errors import IndexUnusable, StorageError
from tasks.rag.answers import AnswerSettings

if TYPE_CHECKING:
    from flows.service.indexing import Indexing
    from flows.service.serving_work import LiveIndex

QUESTIONS_OF_AN_AGENT = 4


HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")]
DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        "--documents",
        help="Folder that the index is made of: it is watched, and operators upload and remove documents on the pages.",
    ),
]
RemoteOption = Annotated[bool, typer.Option("--allow-remote", help="Listen on an address that other machines reach.")]


def serve(
    given: Given,
    index: IndexFolder,
    documents: DocumentsOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = DEFAULT_PORT,
    allow_remote: RemoteOption = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP, to programs and on pages; a new generation of the index is used at once."""
    _serve(given, index, documents, _Address(host, port, allow_remote), as_json=as_json)


def ui(
    given: Given,
    index: Annotated[
        Path | None, typer.Option("--index", help="Folder of the index. Unset: the pages of evaluations alone.")
    ] = None,
    documents: DocumentsOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = DEFAULT_PORT,
    allow_remote: RemoteOption = False,
    as_json: Json = False,
) -> None:
    """Serve the pages: ask, see the cited place, documents, numbers, evaluations."""
    _serve(given, index, documents, _Address(host, port, allow_remote), as_json=as_json)


class _Address(NamedTuple):
    host: str
    port: int
    allow_remote: bool


def _serve(given: Given, index: Path | None, documents: Path | None, at: _Address, *, as_json: bool) -> None:
    from flows.service.api import Refused
    from flows.service.index_server import AuthUnusable, auth_string, create_app
    from flows.service.place import Place
    from flows.service.role_doors import Keys
    from flows.service.serving_work import LiveIndex
    from tasks.resources import sessions

    if not at.allow_remote and not _is_loopback(at.host):
        fail(f"--host {at.host} is reached from other machines; say --allow-remote if that is meant", REFUSED)
    home = settings().home
    with plain_errors(StorageError, AuthUnusable, ModelUnavailable, OSError, failed=(ModelError,)):
        auth = auth_string(home, configured=settings().serve_token)
        indexing = _indexing(documents, index) if documents else None
        live = _live(given, index, may_be_missing=documents is not None) if index else None
        keys = Keys(Place(home))
    with plain_errors(Refused):
        listening = listen(at.host, at.port)
    name = f"[{at.host}]" if ":" in at.host else at.host
    url = f"http://{name}:{listening.getsockname()[1]}"
    said = {"url": url, "auth": auth.place, "index": str(index) if index else None}
    about = f"answers about {index}" if index else "shows evaluations"
    emit(said, as_json, lambda: typer.echo(f"{url} {about}; its auth string is in {auth.place}"))
    if not _is_loopback(at.host):
        typer.secho("note: questions, answers and the auth string cross the network unencrypted", fg="yellow", err=True)
    if indexing:
        indexing.watch()
    run(
        lambda stopping: create_app(
            live or LiveIndex(home / "no-index", _no_index),
            auth=auth.secret,
            sessions=sessions(),
            stopping=stopping,
            home=home,
            indexing=indexing,
            of_role=keys.of,
        ),
        listening,
        verbose=state["debug"],
    )
    typer.echo("stopped", err=True)
    raise typer.Exit(INTERRUPTED)


def _indexing(documents: Path, index: Path | None) -> Indexing:
    """What keeps the index up to date; exits where it was made of another folder."""
    from flows.service.indexing import Indexing
    from storage.files import make_folder

    if index is None:
        fail("--documents needs --index DIR, the folder of the index that is made of them", REFUSED)
    indexing = Indexing(documents.absolute(), index.absolute())
    status = indexing.status()
    before = status.parameters.get("documents") if status else None
    if before and Path(before) != indexing.documents:
        fail(f"--documents {documents}: the index was made of {before}; name that folder, or another --index", REFUSED)
    make_folder(documents)
    return indexing


def _no_index() -> NoReturn:
    raise IndexUnusable("no index is served here; start again with --index DIR, which `trivet rag index` writes")


def mcp(given: Given, index: IndexFolder) -> None:
    """Serve MCP on stdin and stdout: an agent searches, asks, reads numbers, pages and results."""
    from flows.service.answer_stream import Asking, Places
    from tasks.resources import evaluations, sessions

    try:
        from flows.service.web.mcp_door import create_mcp
    except ImportError:
        fail("MCP needs an extra: pip install 'trivet[mcp]'", REFUSED)
    with plain_errors(StorageError, ModelUnavailable, failed=(ModelError,)):
        live = _live(given, index)
    asking = Asking(live, sessions(), lambda: False, Places(QUESTIONS_OF_AN_AGENT))
    create_mcp(asking, evaluations).run("stdio")


def _live(given: Given, index: Path, *, may_be_missing: bool = False) -> LiveIndex:
    """The index, opened once, so that a bad index or model is reported now and not to the first client.

    may_be_missing: the first run is still to make it.
    """
    from flows.running.answer_models import open_assistant
    from flows.service.serving_work import LiveIndex
    from storage.index import refuse_foreign

    answers = AnswerSettings.model_validate(nested(given).get("answers", {}))
    llm, reranker = given["llm"], given["reranker"]
    live = LiveIndex(index, lambda: open_assistant(index, llm=llm, reranker=reranker, answers=answers))
    if may_be_missing and not (index / "CURRENT").exists():
        refuse_foreign(index)
        return live
    with live.borrow():
        return live


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
