"""The server of answers and pages as a process: what it shows, where it listens, its life until a signal ends it."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from flows.service.api import Refused
from flows.service.served_collections import Collection, Folders
from storage.storage_errors import IndexUnusable

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tasks.rag.answers import AnswerSettings

DEFAULT_PORT = 8766
LAST_ANSWERS_S = 3
"""Seconds that answers in progress have left when the server ends."""


class PemFiles(NamedTuple):
    """Certificate and key of a server that speaks TLS alone."""

    certificate: str
    key: str


def open_collection(
    name: str,
    folders: Folders,
    *,
    llm: str | None = None,
    reranker: str | None = None,
    answers: AnswerSettings | None = None,
) -> Collection:
    """A collection, whose index is opened when it is first asked. Raises Refused, StorageError.

    Its folder of documents is made where it is not there, and has to be the one that the index was made of.
    """
    from flows.running.answer_models import open_assistant
    from flows.service.indexing import Indexing
    from flows.service.live_index import LiveIndex
    from storage.files import make_folder
    from storage.index import refuse_foreign

    index, indexing = folders.index, None
    if folders.documents:
        indexing = Indexing(folders.documents.absolute(), index.absolute())
        status = indexing.status()
        before = status.parameters.get("documents") if status else None
        if before and Path(before) != indexing.documents:
            said = f"--documents {folders.documents}: the index was made of {before}"
            raise Refused(f"{said}; name that folder, or another --index")
        make_folder(folders.documents)
        refuse_foreign(index)
    live = LiveIndex(index, lambda: open_assistant(index, llm=llm, reranker=reranker, answers=answers))
    return Collection(name, live, indexing)


def no_collection(home: Path) -> Collection:
    """In place of one, where none is served."""
    from flows.service.live_index import LiveIndex

    def refuse() -> NoReturn:
        raise IndexUnusable("no index is served here; start again with --index DIR, which `trivet rag index` writes")

    return Collection("none", LiveIndex(home / "no-index", refuse))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises Refused if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        said = f"{host}:{port} cannot be listened on ({error.strerror or error}); choose another --port"
        raise Refused(said) from error
    return listening


def run(
    create: Callable[[Callable[[], bool]], FastAPI],
    listening: socket.socket,
    *,
    verbose: bool = False,
    tls: PemFiles | None = None,
) -> None:
    """Serve until a signal; `create` receives a function that says whether one has come."""
    import uvicorn

    sys.stdout.flush()  # a program may wait for the address on a pipe
    logging.getLogger("flows").setLevel(logging.INFO if verbose else logging.WARNING)
    app = create(lambda: server.should_exit)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    server = uvicorn.Server(config)
    gc.collect()
    gc.freeze()  # what is loaded now stays: to look at it again and again would cost pages tenths of a second
    with suppress(KeyboardInterrupt):  # uvicorn passes the signal on after a clean end
        server.run(sockets=[listening])
