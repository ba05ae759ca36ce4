"""A small OpenAI-compatible server on loopback, in a thread: it answers, and it misbehaves on request.

It speaks Chat Completions, Completions and Responses, whole and streamed, embeddings, and the list of models.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from models.endpoint_identity import PROBES

MODEL = "small-vision"
DIMENSION = 8
STREAM = "text/event-stream"


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
    pieces: tuple[bytes, ...] = ()
    """Parts of a stream, sent one by one behind the body, with the server's pause between them; no length is said."""
    stalls: bool = False
    """Sends all that, and then says nothing until the test is over."""


@dataclass
class Server:
    """Its address, what it was asked, and what it shall do next."""

    base_url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Path, headers and decoded body of each request, in the order of arrival."""
    script: list[Reply] = field(default_factory=list)
    """Replies for the next requests, whatever they ask; when it is empty, the server answers properly."""
    answer: Callable[[dict[str, Any]], str] | None = None
    """Writes the answer to a request's body; `prompt_of` and `system_of` read both kinds of body."""
    misbehave: Callable[[str, dict[str, Any]], Reply | None] | None = None
    """Given path and body, the reply in place of an answer; None: it answers properly. Asked after the script."""
    models: tuple[str, ...] = (MODEL, "gpt-5-mini", "gpt-4o-mini")
    responses_status: int = 200
    """404, 405 or 501: there is no Responses API."""
    completions_status: int = 200
    """404, 405 or 501: there is no Completions API, for raw prompts."""
    refuses: tuple[str, ...] = ()
    """Fields of a body that it does not know: 400."""
    context_tokens: int | None = None
    """Most words of a prompt; a longer one is refused as OpenAI does."""
    dialect: Callable[[dict[str, Any]], dict[str, Any]] = lambda said: said
    """Rewrites each answer, and each piece of a stream: for a server that speaks almost like OpenAI."""
    pause_s: float = 0.0
    """Between the pieces of a stream."""
    weights: str = "first"
    """What answers the probes of models.endpoint_identity, which count neither as requests nor in the script."""
    probes: Callable[[int], str] | None = None
    """Writes the answer to a probe, given its number, in place of the weights."""
    probed: list[int] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)
    """Set when a client has closed a stream that was not at its end."""


@contextmanager
def serving() -> Generator[Server, None, None]:
    """A server that runs until the block ends."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    http.socket.listen(128)  # a burst of clients is no fault of theirs
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

    def do_GET(self) -> None:
        server: Server = self.server.trivet  # pyright: ignore[reportAttributeAccessIssue]
        if self.path.partition("?")[0].endswith("/models"):
            rows = [{"id": model, "object": "model", "created": 0, "owned_by": "test"} for model in server.models]
            self._send(_json({"object": "list", "data": rows}), server)
        else:
            self._send(_no_path(404), server)

    def do_POST(self) -> None:
        server: Server = self.server.trivet  # pyright: ignore[reportAttributeAccessIssue]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if (place := _probe_of(path, body)) is not None:
            text = server.probes(place) if server.probes else f"{server.weights} {place}"
            server.probed.append(place)
            self._send(_json((_response if "input" in body else _completion)(body, text, "stop")), server)
            return
        self._record(server, body)
        reply = server.script.pop(0) if server.script else None
        if reply is None and server.misbehave is not None:
            reply = server.misbehave(path, body)
        self._send(reply or _answer(path, body, server), server)

    def _record(self, server: Server, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        server.requests.append({"path": self.path, "headers": headers, "body": body})

    def _send(self, reply: Reply, server: Server) -> None:
        if reply.hangs:
            server.released.wait()
            self.close_connection = True
            return
        length = len(reply.body) if reply.declared_length is None else reply.declared_length
        endless = bool(reply.pieces) or reply.stalls
        framing = {"Connection": "close"} if endless else {"Content-Length": str(length)}
        self.send_response(reply.status)
        for name, value in {"Content-Type": reply.content_type, **framing, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = endless or length != len(reply.body)
        try:
            self._write(reply, server)
        except OSError:
            server.hung_up.set()

    def _write(self, reply: Reply, server: Server) -> None:
        for piece in (reply.body, *reply.pieces):
            self.wfile.write(piece)
            self.wfile.flush()
            if server.pause_s and piece:
                server.released.wait(server.pause_s)
        if reply.stalls:
            server.released.wait()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


def prompt_of(body: dict[str, Any]) -> str:
    """The words of all messages but the system's, one message per line, or a raw prompt; of any API."""
    if "prompt" in body:
        return body["prompt"]
    turns = body["messages"] if "messages" in body else body["input"]
    return "\n".join(_words(turn) for turn in turns if turn["role"] != "system")


def system_of(body: dict[str, Any]) -> str:
    """The words of the system's messages; of any API."""
    if "messages" in body:
        return "\n\n".join(_words(turn) for turn in body["messages"] if turn["role"] == "system")
    return body.get("instructions", "")


def spoken(body: dict[str, Any]) -> str:
    """An answer as a model gives it: of the messages alone, and where it is drawn, of the seed."""
    asked = {name: body[name] for name in ("messages", "input", "instructions", "prompt") if name in body}
    return _digest_answer(asked | ({"seed": body.get("seed")} if body.get("temperature") else {}))


def hangs() -> Reply:
    """Nothing at all, until the test is over."""
    return Reply(hangs=True)


def web_page() -> Reply:
    """HTML in place of JSON, with status 200."""
    return Reply(200, b"<html><body>Welcome</body></html>", "text/html")


def too_many(retry_after_s: float = 7) -> Reply:
    """429, with the time to come back at."""
    return error_reply(429, "slow down", code="rate_limit_exceeded", headers={"Retry-After": f"{retry_after_s:g}"})


def invalid_json() -> Reply:
    """An answer that breaks off inside its JSON."""
    return Reply(200, b'{"choices": [{"mess')


def half_a_stream(body: dict[str, Any], text: str = "Half of", *, stalls: bool = False) -> Reply:
    """A stream for a request's body that ends, or says no more, behind the words of `text`."""
    wordless = 1 if "messages" in body else 4  # pieces before the first word
    pieces = _stream_pieces(body, text, "stop")[: wordless + len(_pieces_of(text))]
    return Reply(content_type=STREAM, pieces=pieces, stalls=stalls)


def error_reply(status: int, message: str, *, code: str | None = None, headers: dict[str, str] | None = None) -> Reply:
    """An error in the form that OpenAI gives it."""
    body = {"error": {"message": message, "type": "error", "code": code, "param": None}}
    return Reply(status=status, body=json.dumps(body).encode(), headers=headers or {})


def stream_reply(*events: object, done: bool = True) -> Reply:
    """A stream of these events; one with a `type` is named by it, as the Responses API does."""
    pieces = [_event(event) for event in events]
    return Reply(content_type=STREAM, pieces=(*pieces, b"data: [DONE]\n\n") if done else tuple(pieces))


def _probe_of(path: str, body: dict[str, Any]) -> int | None:
    """The number of the probe that a request is; None for another."""
    talks = not path.endswith("/embeddings") and any(body.get(name) for name in ("prompt", "messages", "input"))
    asked = prompt_of(body) if talks else None
    return PROBES.index(asked) if asked in PROBES else None


def _answer(path: str, body: dict[str, Any], server: Server) -> Reply:
    if path.endswith("/responses") and server.responses_status != 200:
        return _no_path(server.responses_status)
    if path.endswith("/completions") and "prompt" in body and server.completions_status != 200:
        return _no_path(server.completions_status)
    if unknown := [name for name in server.refuses if name in body]:
        return error_reply(400, f"Unsupported parameter: '{unknown[0]}' is not supported.", code="unsupported")
    if body["model"] not in server.models:
        return error_reply(404, f"The model `{body['model']}` does not exist", code="model_not_found")
    if path.endswith("/embeddings"):
        return _json({"object": "list", "model": body["model"], "data": _embeddings(body), "usage": {}})
    if not (body.get("messages") or body.get("input") or body.get("prompt")):
        return error_reply(400, "messages must not be empty")
    if server.context_tokens is not None and len(prompt_of(body).split()) > server.context_tokens:
        said = f"This model's maximum context length is {server.context_tokens} tokens. Please shorten the messages."
        return error_reply(400, said, code="context_length_exceeded")
    text, finish_reason = _cut(server.answer(body) if server.answer else _digest_answer(body), body)
    if body.get("stream"):
        return Reply(content_type=STREAM, pieces=_stream_pieces(body, text, finish_reason, server.dialect))
    return _json(server.dialect((_response if "input" in body else _completion)(body, text, finish_reason)))


def _digest_answer(body: dict[str, Any]) -> str:
    """An answer that depends on the whole request and on nothing else, streamed or not."""
    asked = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
    digest = hashlib.sha512(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return " ".join(["Answer", *(digest[start : start + 4] for start in range(0, 128, 4))])


def _cut(text: str, body: dict[str, Any]) -> tuple[str, str]:
    """The text within the limit of the request, one token per word, and why it ends; line breaks stay."""
    limits = [body[name] for name in ("max_completion_tokens", "max_tokens", "max_output_tokens") if name in body]
    words = _pieces_of(text)
    if not limits or len(words) <= limits[0]:
        return text, "stop"
    return "".join(words[: limits[0]]).rstrip(), "length"


def _stream_pieces(
    body: dict[str, Any], text: str, finish_reason: str, dialect: Callable[[dict[str, Any]], object] = lambda said: said
) -> tuple[bytes, ...]:
    if "input" not in body:
        return (*(_event(dialect(chunk)) for chunk in _chunks(body, text, finish_reason)), b"data: [DONE]\n\n")
    return tuple(_event(dialect(event)) for event in _events(body, text, finish_reason))


def _event(event: object) -> bytes:
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: ".encode() + _encoded(event) + b"\n\n"


def _chunks(body: dict[str, Any], text: str, finish_reason: str) -> Iterable[dict[str, Any]]:
    """As OpenAI sends them: the role, the words, the reason for the end, and the usage if it was asked for."""
    raw = "prompt" in body
    kind = "text_completion" if raw else "chat.completion.chunk"
    chunk = {"id": "chat-1", "object": kind, "created": 0, "model": body["model"], "usage": None}
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in _pieces_of(text))]
    for delta in deltas:
        said = {"text": delta["content"]} if raw else {"delta": delta}
        yield chunk | {"choices": [{"index": 0, **said, "finish_reason": None}]}
    last = {"text": ""} if raw else {"delta": {}}
    yield chunk | {"choices": [{"index": 0, **last, "finish_reason": finish_reason}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield chunk | {"choices": [], "usage": _completion(body, text, finish_reason)["usage"]}


def _completion(body: dict[str, Any], text: str, finish_reason: str) -> dict[str, Any]:
    count = len(text.split())
    raw = "prompt" in body
    said = {"text": text} if raw else {"message": {"role": "assistant", "content": text}}
    if body.get("logprobs"):
        words = [*text.split(), *"abcdefghi"][: body["top_logprobs"]]
        told = [{"token": word, "logprob": -1.0 - place} for place, word in enumerate(words)]
        said |= {"logprobs": {"content": [{**told[0], "top_logprobs": told}]}}
    return {
        "id": "chat-1",
        "object": "text_completion" if raw else "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, **said, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count},
    }


def _events(body: dict[str, Any], text: str, finish_reason: str) -> Iterable[dict[str, Any]]:
    """As OpenAI sends them, numbered: response, item and part begin, the words, part, item and response end."""
    place = {"item_id": "message-1", "output_index": 0, "content_index": 0}
    whole = _response(body, text, finish_reason)
    begun = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    message, part = whole["output"][0], whole["output"][0]["content"][0]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": message | {"status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": part | {"text": ""}},
        *(
            {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            for piece in _pieces_of(text)
        ),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed" if finish_reason == "stop" else "response.incomplete", "response": whole},
    ]
    return ({**event, "sequence_number": number} for number, event in enumerate(events))


def _response(body: dict[str, Any], text: str, finish_reason: str) -> dict[str, Any]:
    status = "completed" if finish_reason == "stop" else "incomplete"
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "message-1", "role": "assistant", "status": status, "content": [part]}
    count = len(text.split())
    return {
        "id": "response-1",
        "object": "response",
        "created_at": 0,
        "model": body["model"],
        "status": status,
        "error": None,
        "incomplete_details": None if status == "completed" else {"reason": "max_output_tokens"},
        "instructions": body.get("instructions"),
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": count,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7 + count,
        },
    }


def _words(turn: dict[str, Any]) -> str:
    content = turn["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _pieces_of(text: str) -> list[str]:
    """Words with the blanks behind them; joined they are the text."""
    words: list[str] = []
    for character in text:
        if words and not (words[-1][-1:].isspace() and not character.isspace()):
            words[-1] += character
        else:
            words.append(character)
    return words


def _embeddings(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Vectors that are not unit vectors, each from its own text, last first: the order on the wire promises nothing."""
    size = DIMENSION
    rows = [
        {"object": "embedding", "index": index, "embedding": [1 + byte for byte in _bytes(text, size)]}
        for index, text in enumerate(body["input"])
    ]
    return rows[::-1]


def _bytes(text: str, size: int) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:size]


def _json(value: object) -> Reply:
    return Reply(body=_encoded(value))


def _encoded(value: object) -> bytes:
    """JSON in UTF-8, as most servers send it; half of a surrogate pair has no such form and stays an escape."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _no_path(status: int) -> Reply:
    return Reply(status, b'{"detail":"Not Found"}')
