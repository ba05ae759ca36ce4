"""An index over HTTP, asked by a real client."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from pydantic import SecretStr
from starlette.requests import ClientDisconnect

from flows.service.answering import MOST_BODY_BYTES, Asking, Item, Stream
from flows.service.api import Refused
from flows.service.live_index import LiveIndex
from flows.service.page_server import FILE, auth_string, punctual_protocol
from flows.service.served_collections import Collection
from flows.service.web.workplace import create_app
from models.embedders import open_embedder
from storage import connections
from storage.embedded import Cluster
from storage.sessions import Sessions
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered
from tasks.rag.indexing.index_report import status_of_build
from tests.command import TRIVET, run_apart, run_here, until
from tests.flows.asks import TEXTS, FirstSentence, digest, opened, publish_texts
from tests.models.server import MODEL, hangs
from tests.models.server import serving as model_server

AUTH = "an-auth-string-of-the-tests"
PATIENCE_S = 60.0


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running server, and what answers in it."""

    port: int
    index: Path
    live: LiveIndex
    released: threading.Event
    stopping: threading.Event
    desks: list[FirstSentence]
    """One per generation that was opened."""
    closed: list[FirstSentence]

    def send(self, method: str, path: str, body: Any = None, *, auth: str | None = AUTH) -> Reply:
        return exchange(self.port, method, path, body, auth=auth)

    def ask(self, question: str, **more: Any) -> Reply:
        return self.send("POST", "/ask", {"question": question, **more})


def exchange(port: int, method: str, path: str, body: Any = None, *, auth: str | None = AUTH) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, sent, {"Authorization": f"Bearer {auth}"} if auth is not None else {})
        response = connection.getresponse()
        return Reply(response.status, dict(response.headers), response.read().decode())
    finally:
        connection.close()


@contextmanager
def serving(index: Path, sessions: Sessions, *, at_once: int = 4, waiting: int = 100) -> Generator[Server]:
    released = threading.Event()
    desks, closed = list[FirstSentence](), list[FirstSentence]()

    @contextmanager
    def open_current() -> Generator[FirstSentence]:
        with opened(index, released) as desk:
            desks.append(desk)
            yield desk
            closed.append(desk)

    live = LiveIndex(index, open_current)
    stopping = threading.Event()
    app = create_app(
        [Collection("texts", live)],
        Asking(sessions, stopping=stopping.is_set, at_once=at_once, most_waiting=waiting),
        auth=SecretStr(AUTH),
        home=index.parent,
    )
    config = uvicorn.Config(app, http=punctual_protocol(), log_level="critical", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started)
            yield Server(listening.getsockname()[1], index, live, released, stopping, desks, closed)
        finally:
            released.set()
            server.should_exit = True
            thread.join()


def no_database() -> str:
    raise AssertionError("the database was asked for")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(publish_texts(tmp_path / "index"), Sessions(no_database)) as running:
        yield running


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that leave it as it is."""
    with serving(publish_texts(tmp_path_factory.mktemp("reading") / "index"), Sessions(no_database)) as running:
        yield running


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that has let nobody in yet."""
    with serving(publish_texts(tmp_path_factory.mktemp("closed") / "index"), Sessions(no_database)) as running:
        yield running


@pytest.mark.parametrize(
    "sent", [b"GET /health HTTP/1.1\r\nX-Slow: ", b"POST /ui/sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"]
)
def test_a_connection_that_sends_no_whole_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, reading: Server, sent: bytes
) -> None:
    monkeypatch.setattr("flows.service.page_server.HEADERS_S", 0.2)
    with socket.create_connection(("127.0.0.1", reading.port), timeout=PATIENCE_S) as half_open:
        half_open.sendall(sent)
        assert half_open.recv(1) == b""


def events(body: str) -> list[tuple[str, Any]]:
    parts = [dict(line.split(": ", 1) for line in part.splitlines()) for part in body.split("\n\n") if part]
    return [(part["event"], json.loads(part["data"])) for part in parts]


def test_an_answer_is_the_json_of_answered(reading: Server) -> None:
    reply = reading.ask("What is the bid price of the tram?")
    answered = Answered.model_validate(reply.json)
    assert reply.status == 200
    assert answered.answer == "The bid price of the tram is 41,000,000 won [1]."
    assert answered.model_dump(mode="json") == reply.json
    assert "1,250,000,000원" in reading.ask("가람시 예산은?").json["answer"]


def test_a_stream_tells_stages_and_drafts_and_ends_with_the_same_answer(reading: Server) -> None:
    question = "What is the bid price of the tram?"
    reply = reading.ask(question, stream=True)
    quote = "The bid price of the tram is 41,000,000 won"
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert events(reply.body) == [
        ("stage", {"name": "retrieve"}),
        ("stage", {"name": "generate"}),
        ("draft", {"delta": "The"}),
        ("draft", {"delta": f" answer: {quote}"}),
        ("draft", {"replace": quote}),
        ("answer", reading.ask(question).json),
    ]


def test_history_reaches_whoever_answers(server: Server) -> None:
    turn = {"question": "Which tram?", "answer": "The red one.", "documents": [digest("tram.pdf")]}
    server.ask("And the price?", history=[turn])
    [[told]] = server.desks[0].histories
    assert told.model_dump(mode="json") == turn


def test_documents_are_listed_with_their_generation_and_limit_where_it_is_looked(reading: Server) -> None:
    listed = reading.send("GET", "/documents").json
    assert [entry["name"] for entry in listed["documents"]] == list(TEXTS)
    assert listed["generation"].startswith("000001-")
    cited = reading.ask("What is the bid price of the tram?", documents=["harbor.pdf"]).json["citations"]
    assert [citation["document"] for citation in cited] == ["harbor.pdf"]
    health = reading.send("GET", "/health", auth=None)
    assert (health.status, health.json) == (200, {"status": "ok"})


@pytest.mark.parametrize("auth", [None, "wrong", AUTH[:-1]], ids=str)
@pytest.mark.parametrize(("method", "path"), [("POST", "/ask"), ("GET", "/documents")])
def test_without_the_auth_string_nothing_is_told(closed: Server, method: str, path: str, auth: str | None) -> None:
    reply = closed.send(method, path, {"question": "?"} if method == "POST" else None, auth=auth)
    assert (reply.status, reply.headers["www-authenticate"], set(reply.json)) == (401, "Bearer", {"error"})
    assert closed.desks == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"question": " \n"}, "the question is empty"),
        ({}, "question: Field required"),
        ({"question": "?", "loud": True}, "loud: Extra inputs are not permitted"),
        ({"question": "?", "session": "new", "history": [{"question": "a", "answer": "b"}]}, "not both"),
        (b"", "the body: Invalid JSON"),
        (b'{"question": "\\ud800"}', "the body: Invalid JSON"),
    ],
    ids=str,
)
def test_a_body_that_does_not_fit_is_422_with_a_sentence(reading: Server, body: Any, said: str) -> None:
    reply = reading.send("POST", "/ask", body)
    assert (reply.status, said in reply.json["error"]) == (422, True)


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_body_of_more_than_a_megabyte_is_413(reading: Server, declared: bool) -> None:
    body = json.dumps({"question": "x" * MOST_BODY_BYTES}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", reading.port, timeout=PATIENCE_S)
    sent = body if declared else iter([body[:1000], body[1000:]])
    connection.request("POST", "/ask", sent, {"Authorization": f"Bearer {AUTH}"}, encode_chunked=not declared)
    response = connection.getresponse()
    assert (response.status, "more than 1,000,000 bytes" in response.read().decode()) == (413, True)
    connection.close()


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_document_is_404_and_the_known_are_named(reading: Server, stream: bool) -> None:
    reply = reading.ask("?price", documents=["nowhere.pdf"], stream=stream)
    assert reply.status == 404
    assert "no document 'nowhere.pdf'; nearest: harbor.pdf" in reply.json["error"]


def test_what_nobody_expected_and_other_paths_are_json_errors_without_a_traceback(reading: Server) -> None:
    reply = reading.ask("this price fails")
    assert reply.status == 500
    assert reply.json == {"error": "the question failed (ZeroDivisionError); the server's log says more"}
    [(name, told)] = events(reading.ask("this price fails", stream=True).body)
    assert (name, told["status"]) == ("error", 500)
    for path, status in (("/nowhere", 404), ("/ask", 405)):
        reply = reading.send("GET", path)
        assert (reply.status, set(reply.json)) == (status, {"error"})


def test_a_question_waits_for_its_turn_and_no_longer_than_its_client(tmp_path: Path) -> None:
    with serving(publish_texts(tmp_path / "index"), Sessions(no_database), at_once=1) as server:
        replies = list[Reply]()
        first = threading.Thread(target=lambda: replies.append(server.ask("the price hangs")))
        first.start()
        until(lambda: bool(server.desks and server.desks[0].histories))
        body = json.dumps({"question": "What is the price?"}).encode()
        head = f"POST /ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {AUTH}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as leaving:
            leaving.sendall(head.encode() + body)
        others = [threading.Thread(target=lambda: replies.append(server.ask("What is the price?"))) for _ in range(5)]
        for other in others:
            other.start()
        assert replies == []
        server.released.set()
        for thread in (first, *others):
            thread.join()
        assert [reply.status for reply in replies] == [200] * 6


def test_more_questions_than_there_is_room_for_are_refused_until_one_is_done(tmp_path: Path) -> None:
    with serving(publish_texts(tmp_path / "index"), Sessions(no_database), at_once=1, waiting=0) as server:
        first = list[Reply]()
        asking = threading.Thread(target=lambda: first.append(server.ask("the price hangs")))
        asking.start()
        until(lambda: bool(server.desks and server.desks[0].histories))
        refused = server.ask("What is the price?")
        server.released.set()
        asking.join()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert first[0].status == 200
        until(lambda: server.ask("What is the price?").status == 200)


@pytest.mark.slow  # its waits are short, so nothing else may run beside it
@pytest.mark.parametrize(("path", "stream"), [("/ask", False), ("/ask", True), ("/mcp", False)])
def test_a_client_that_goes_away_stops_the_work(server: Server, path: str, stream: bool) -> None:
    asked: Any = {"question": "write slowly of the price"} | ({"stream": True} if stream else {})
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": asked}}
    body = json.dumps(call if path == "/mcp" else asked).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {AUTH}\r\nContent-Length: {len(body)}\r\n"
    head += "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: bool(server.desks and server.desks[0].histories))
        if stream:
            connection.recv(1000)
    assert server.desks[0].given_up.wait(PATIENCE_S)


def test_a_client_that_is_gone_before_the_first_event_stops_the_work() -> None:
    abandoned = list[str]()

    async def items() -> AsyncGenerator[Item]:
        try:
            yield Event("stage", "retrieve")
            yield Event("stage", "generate")
        finally:
            abandoned.append("work")

    async def gone(*_: object) -> Any:
        raise OSError("the client is gone")

    async def respond() -> None:
        working = items()
        await anext(working)
        with pytest.raises(ClientDisconnect):
            await Stream(working, {})({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)
        assert abandoned == ["work"]

    asyncio.run(respond())


@pytest.mark.slow  # as above
@pytest.mark.parametrize("question", ["the price hangs", "write slowly of the price"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_stops_lets_its_clients_go(server: Server, question: str, stream: bool) -> None:
    replies = list[Reply]()
    asking = threading.Thread(target=lambda: replies.append(server.ask(question, stream=stream)))
    asking.start()
    until(lambda: bool(server.desks and server.desks[0].histories))
    server.stopping.set()
    asking.join()
    begun = replies[0].body.startswith("event: ")  # it may stop before a stream has begun
    assert stream or not begun
    told = events(replies[0].body)[-1][1] if begun else replies[0].json
    assert told["error"] == "the server is stopping; ask again when it is back"


def test_a_new_generation_is_picked_up_and_the_old_one_closed(server: Server) -> None:
    before = server.ask("What is the bid price of the ferry?").json["answer"]
    publish_texts(server.index, {"ferry.pdf": "The bid price of the ferry is 7 won. It floats."})
    after = server.ask("What is the bid price of the ferry?").json["answer"]
    assert ("ferry" in before, after) == (False, "The bid price of the ferry is 7 won [1].")
    assert server.closed == server.desks[:1]


def test_a_generation_in_use_stays_open_until_its_question_is_answered(server: Server) -> None:
    replies = list[Reply]()
    asking = threading.Thread(target=lambda: replies.append(server.ask("What is the bid price of the tram? It hangs")))
    asking.start()
    until(lambda: bool(server.desks and server.desks[0].histories))
    publish_texts(server.index, {"ferry.pdf": "The bid price of the ferry is 7 won. It floats."})
    assert "ferry" in server.ask("What is the bid price?").json["answer"]
    assert server.closed == []
    server.released.set()
    asking.join()
    assert "tram" in replies[0].json["answer"]
    until(lambda: server.closed == server.desks[:1])


def test_a_damaged_new_generation_leaves_the_old_one_serving(server: Server) -> None:
    assert server.ask("tram price").status == 200
    (server.index / "CURRENT").write_text("main\n")
    assert server.ask("tram price").status == 200


def test_an_index_that_cannot_be_opened_is_503(tmp_path: Path) -> None:
    with serving(tmp_path / "none", Sessions(no_database)) as server:
        assert (server.ask("price").status, server.send("GET", "/documents").status) == (503, 503)
        assert server.send("GET", "/health", auth=None).status == 503


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    home = Path(os.environ["TRIVET_HOME"])
    yield Sessions(lambda: connections.locate(None, home))
    connections.engine(Cluster(home).start()).dispose()


@pytest.mark.postgres
def test_a_session_goes_on_where_it_was(tmp_path: Path, sessions: Sessions) -> None:
    with serving(publish_texts(tmp_path / "index"), sessions) as server:
        begun = server.ask("What is the bid price of the tram?", session="new")
        session = begun.headers["x-trivet-session"]
        server.ask("And its delivery?", session=session[:8], stream=True)
        [told] = server.desks[0].histories[1]
    assert (told.question, told.answer) == (begun.json["question"], begun.json["answer"])
    assert told.documents == (digest("tram.pdf"),)
    assert [turn.question for turn in sessions.turns(session)] == [told.question, "And its delivery?"]


@pytest.mark.postgres
def test_a_session_that_is_unknown_or_about_another_index_is_refused(tmp_path: Path, sessions: Sessions) -> None:
    other = sessions.start("/another/index")
    with serving(publish_texts(tmp_path / "index"), sessions) as server:
        statuses = [server.ask("price", session=named).status for named in ("0" * 36, "loud", other.id)]
    assert statuses == [404, 404, 409]


def test_a_session_without_a_database_is_503_and_shows_no_password(tmp_path: Path) -> None:
    away = Sessions(lambda: "postgresql://me:secret@127.0.0.1:9/trivet")
    with serving(publish_texts(tmp_path / "index"), away) as server:
        reply = server.ask("price", session="new")
    assert (reply.status, "secret" in reply.body) == (503, False)


def test_the_auth_string_is_made_once_and_only_the_user_reads_it(tmp_path: Path) -> None:
    first = auth_string(tmp_path / "home", configured=None)
    path = tmp_path / "home" / FILE
    assert auth_string(tmp_path / "home", configured=None) == first
    assert (stat.S_IMODE(path.stat().st_mode), first.place) == (0o600, str(path))
    assert len(first.secret.get_secret_value()) >= 43
    assert [file.name for file in path.parent.glob("*token*")] == [FILE]


def test_a_configured_auth_string_comes_first_and_has_to_protect_something(tmp_path: Path) -> None:
    assert auth_string(tmp_path, configured=SecretStr("a" * 16)).secret.get_secret_value() == "a" * 16
    assert list(tmp_path.iterdir()) == []
    for value in ("short", "with a space in it, long", "가나다라마바사아자차카타파하거너"):
        with pytest.raises(Refused, match="TRIVET_SERVE_TOKEN holds no usable"):
            auth_string(tmp_path, configured=SecretStr(value))


@pytest.mark.parametrize(("content", "mode"), [("a" * 43, 0o644), ("a" * 43, 0o620), ("", 0o600)])
@pytest.mark.parametrize("linked", [False, True])
def test_a_kept_auth_string_that_protects_nothing_is_refused(
    tmp_path: Path, content: str, mode: int, linked: bool
) -> None:
    kept = tmp_path / ("elsewhere" if linked else FILE)
    kept.write_text(content)
    kept.chmod(mode)
    if linked:
        (tmp_path / FILE).symlink_to(kept)
    with pytest.raises(Refused, match=FILE):
        auth_string(tmp_path, configured=None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_an_address_that_others_reach_must_be_meant(tmp_path: Path, host: str) -> None:
    done = run_here("rag", "serve", "--index", tmp_path, "--host", host)
    assert (done.code, "say --allow-remote" in done.stderr) == (2, True)


def test_the_last_index_is_served_and_a_folder_without_one_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "last").write_text(str(tmp_path))
    done = run_apart("rag", "serve", TRIVET_HOME=str(tmp_path))
    assert (done.code, "holds no finished index" in done.stderr) == (2, True)


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_here("rag", "serve", "--index", publish_texts(tmp_path / "index"), "--port", port)
    assert (done.code, f"127.0.0.1:{port} cannot be used" in done.stderr) == (2, True)


@pytest.fixture(scope="module")
def real_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_texts(tmp_path_factory.mktemp("serve") / "index", embedder=open_embedder("minilm"))


@contextmanager
def command(index: Path, **environment: str) -> Generator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The command as a process of its own, and what it said at its start."""
    words = [*TRIVET, "rag", "serve", "--index", str(index), "--port", "0", "--json"]
    own = os.environ | {"TRIVET_SERVE_TOKEN": AUTH} | environment
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own) as child:
        assert child.stdout
        try:
            yield child, json.loads(child.stdout.readline())
        finally:
            child.kill()


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c_and_prints_no_auth_string(real_index: Path) -> None:
    with command(real_index) as (child, told):
        reply = exchange(port_of(told), "POST", "/ask", {"question": "What is the bid price of the tram?"})
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE_S)
    assert "41,000,000" in Answered.model_validate(reply.json).answer
    assert (child.returncode, out, err) == (130, "", "stopped\n")
    assert AUTH not in json.dumps(told)


@pytest.mark.slow
@pytest.mark.postgres
def test_ctrl_c_does_not_wait_for_a_model_that_hangs(real_index: Path) -> None:
    replies = list[Reply]()
    with model_server() as model:
        model.misbehave = lambda _path, _body: hangs()
        local = {"TRIVET_LLM": "local", "TRIVET_LLM_BASE_URL": model.base_url, "TRIVET_LLM_MODEL": MODEL}
        with command(real_index, **local, OPENAI_API_KEY="none") as (child, told):
            question = {"question": "What is the bid price of the tram?"}
            asking = threading.Thread(target=lambda: replies.append(exchange(port_of(told), "POST", "/ask", question)))
            asking.start()
            until(lambda: bool(model.requests))
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=PATIENCE_S)
            asking.join()
    assert (child.returncode, err, replies[0].status) == (130, "stopped\n", 503)


def port_of(told: dict[str, str]) -> int:
    return int(told["url"].rpartition(":")[2])


def test_documents_need_an_index_that_was_made_of_them(tmp_path: Path) -> None:
    alone = run_here("rag", "serve", "--documents", tmp_path / "in")
    assert (alone.code, "--documents needs --index" in alone.stderr) == (2, True)
    index = publish_texts(tmp_path / "index")
    with status_of_build(index, generation=None, run=None, parameters={"documents": "/elsewhere"}):
        pass
    for command in (("rag", "serve"), ("up",)):
        other = run_here(*command, "--index", index, "--documents", tmp_path / "in")
        assert (other.code, "the index was made of /elsewhere" in other.stderr) == (2, True)
    assert not (tmp_path / "in").exists()
