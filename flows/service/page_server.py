"""The server of answers and pages as a process: where it listens, and its life until a signal ends it."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from flows.service.api import Refused

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_PORT = 8766
LAST_ANSWERS_S = 3
"""Seconds that answers in progress have left when the server ends."""


class PemFiles(NamedTuple):
    """Certificate and key of a server that speaks TLS alone."""

    certificate: str
    key: str


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
    with suppress(KeyboardInterrupt):  # uvicorn passes the signal on after a clean end
        server.run(sockets=[listening])
