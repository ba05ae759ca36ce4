"""`trivet rag serve`: answers over HTTP, on this machine alone unless --allow-remote is given."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.ask_command import ANSWERS, MODELS
from flows.cli.commands import Given, Json, Options
from flows.cli.output import INTERRUPTED, REFUSED, emit, fail, plain_errors, state
from flows.cli.shared_options import IndexFolder
from flows.running.settings import settings
from models.model_errors import ModelError, ModelUnavailable
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_PORT = 8766
LAST_ANSWERS_S = 3
"""Seconds that answers in progress have left when the server ends."""
OPTIONS = Options(ANSWERS, MODELS)


def serve(
    given: Given,
    index: IndexFolder,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = DEFAULT_PORT,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen on an address that other machines reach.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP: POST /ask, GET /documents, GET /health; a new generation of the index is used at once."""
    from flows.running.answer_models import open_assistant
    from flows.service.index_server import AuthUnusable, auth_string, create_app
    from flows.service.serving_work import LiveIndex
    from tasks.resources import sessions

    if not allow_remote and not _is_loopback(host):
        fail(f"--host {host} is reached from other machines; say --allow-remote if that is meant", REFUSED)
    with plain_errors(StorageError, AuthUnusable, ModelUnavailable, failed=(ModelError,)):
        auth = auth_string(settings().home, configured=settings().serve_token)
        live = LiveIndex(index, lambda: open_assistant(index, llm=given["llm"], reranker=given["reranker"]))
        with live.borrow():  # what is wrong with the index or the model is said now, not to the first client
            pass
    listening = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listening.getsockname()[1]}"
    said = {"url": url, "auth": auth.place, "index": str(index)}
    emit(said, as_json, lambda: typer.echo(f"{url} answers about {index}; its auth string is in {auth.place}"))
    if not _is_loopback(host):
        typer.secho("note: questions, answers and the auth string cross the network unencrypted", fg="yellow", err=True)
    _run(lambda stopping: create_app(live, auth=auth.secret, sessions=sessions(), stopping=stopping), listening)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; exits if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        fail(f"{host}:{port} cannot be listened on ({error.strerror or error}); choose another --port", REFUSED)
    return listening


def _run(create: Callable[[Callable[[], bool]], FastAPI], listening: socket.socket) -> None:
    """Serve until a signal; `create` receives a function that says whether one has come."""
    import uvicorn

    sys.stdout.flush()  # whoever waits for the address reads a pipe
    logging.getLogger("flows").setLevel(logging.INFO if state["debug"] else logging.WARNING)
    app = create(lambda: server.should_exit)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=LAST_ANSWERS_S
    )
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):  # uvicorn has ended in order before it passes the signal on
        server.run(sockets=[listening])
    typer.echo("stopped", err=True)
    raise typer.Exit(INTERRUPTED)
