"""An address for alerts, which refuses some."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from prefect.blocks.webhook import Webhook
from pydantic import SecretStr


class Hook:
    """An address that answers with each of `answers` once, and takes the rest."""

    def __init__(self, *answers: int) -> None:
        self.answers, self.asked, self.taken = list(answers), list[str](), list[str]()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status = hook.answers.pop(0) if hook.answers else 200
                hook.asked.append(body)
                hook.taken += [body] if status == 200 else []
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """No word on stderr."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?key=hidden"

    @property
    def block(self) -> Webhook:
        return webhook(self.url)


def webhook(url: str) -> Webhook:
    return Webhook(url=SecretStr(url))


@contextmanager
def hook_on_loopback() -> Generator[Hook]:
    """One that listens."""
    listening = Hook()
    with listening.server:
        threading.Thread(target=listening.server.serve_forever, args=(0.01,), daemon=True).start()
        yield listening
        listening.server.shutdown()
