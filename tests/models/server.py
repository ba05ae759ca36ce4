"""A small OpenAI-compatible server on loopback, in a thread: it answers, and it misbehaves on request."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "small-vision"
DIMENSION = 8


@dataclass
class Reply:
    """What the server sends in place of an answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    declared_length: int | None = None
    """Content-Length, when it is to lie: half an answer."""
    hangs: bool = False
    """Says nothing until the test is over."""


@dataclass
class Server:
    """Its address, what it was asked, and what it shall do next."""

    base_url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Path, headers and decoded body of each request."""
    script: list[Reply] = field(default_factory=list)
    """Replies for the next requests; when it is empty, the server answers properly."""
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving() -> Generator[Server, None, None]:
    """A server that runs until the block ends."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    server = Server(base_url=f"http://127.0.0.1:{http.server_port}/v1")
    http.trivet = server  # pyright: ignore[reportAttributeAccessIssue]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server: Server = self.server.trivet  # pyright: ignore[reportAttributeAccessIssue]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(
            {"path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()}, "body": body}
        )
        if server.script:
            self._send(server.script.pop(0), server)
        else:
            self._send(_answer(self.path, body), server)

    def _send(self, reply: Reply, server: Server) -> None:
        if reply.hangs:
            server.released.wait()
            self.close_connection = True
            return
        length = len(reply.body) if reply.declared_length is None else reply.declared_length
        self.send_response(reply.status)
        for name, value in {"Content-Type": reply.content_type, "Content-Length": str(length), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        self.close_connection = length != len(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


def _answer(path: str, body: dict[str, Any]) -> Reply:
    if body["model"] not in (MODEL, "gpt-5-mini"):
        return error_reply(404, f"The model `{body['model']}` does not exist", code="model_not_found")
    if path.endswith("/embeddings"):
        return _json({"object": "list", "model": body["model"], "data": _embeddings(body), "usage": {}})
    if not body["messages"]:
        return error_reply(400, "messages must not be empty")
    return _json(_completion(body))


def _completion(body: dict[str, Any]) -> dict[str, Any]:
    """An answer that depends on the whole request and on nothing else, one token per word."""
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    words = ["Answer", *(digest[start : start + 8] for start in range(0, 64, 8))]
    kept = words[:limit]
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": " ".join(kept)},
                "finish_reason": "stop" if len(kept) == len(words) else "length",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": len(kept), "total_tokens": 7 + len(kept)},
    }


def _embeddings(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Vectors that are not unit vectors, each from its own text, last first: the order on the wire promises nothing."""
    size = body.get("dimensions", DIMENSION)
    rows = [
        {"object": "embedding", "index": index, "embedding": [1 + byte for byte in _bytes(text, size)]}
        for index, text in enumerate(body["input"])
    ]
    return rows[::-1]


def _bytes(text: str, size: int) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:size]


def _json(value: object) -> Reply:
    return Reply(body=json.dumps(value).encode())


def error_reply(status: int, message: str, *, code: str | None = None, headers: dict[str, str] | None = None) -> Reply:
    """An error in the form that OpenAI gives it."""
    body = {"error": {"message": message, "type": "error", "code": code, "param": None}}
    return Reply(status=status, body=json.dumps(body).encode(), headers=headers or {})
