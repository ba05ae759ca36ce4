"""A Prefect server whose SQLite is locked answers 503: what was asked of it is asked again."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

from flows.service.api import Api


class Locked(BaseHTTPRequestHandler):
    """Refuses each request to change something twice, and is never ready."""

    asked: ClassVar[list[str]] = []

    def do_PATCH(self) -> None:  # the name is http.server's
        self.asked.append("PATCH")
        self.send_response(200 if len(self.asked) > 2 else 503)
        self.end_headers()
        self.wfile.write(b"{}")

    def do_GET(self) -> None:  # the name is http.server's
        self.asked.append("GET")
        self.send_response(503)
        self.end_headers()


def test_a_locked_server_is_asked_again_and_one_that_is_not_ready_is_not() -> None:
    with HTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        api = Api(f"http://127.0.0.1:{server.server_port}", None)
        assert api.send("PATCH", "/variables/name/deployed", {}) == {}
        assert not api.is_ready()
        server.shutdown()
    assert Locked.asked == ["PATCH", "PATCH", "PATCH", "GET"]
