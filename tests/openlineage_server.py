"""An OpenLineage server of the tests: it keeps what it hears, and answers as it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

Answer = Callable[[BaseHTTPRequestHandler], None]


class Heard(NamedTuple):
    """A request."""

    path: str
    key: str | None
    event: dict[str, Any]

    @property
    def kind(self) -> str:
        return self.event["eventType"]


@contextmanager
def serving(answer: Answer) -> Generator[tuple[str, list[Heard]]]:
    """The address of a server on loopback, and what it has received."""
    heard: list[Heard] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(Heard(self.path, self.headers["Authorization"], json.loads(body)))
            answer(self)

        def log_message(self, format: str, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answering(status: int) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer
