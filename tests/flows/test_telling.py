"""Events reach a server that was away, and a process whose server is gone ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from tests.service.serviced import free_port

pytestmark = pytest.mark.engine

TELLER = """
import sys
from flows.running.shown import tell_patiently
tell_patiently()
from prefect.events import emit_event
for line in sys.stdin:
    emit_event(event=line.strip(), resource={"prefect.resource.id": "teller"})
    print("queued", flush=True)
"""


def teller(port: int, retries: int) -> subprocess.Popen[str]:
    """A process that emits an event for each line it reads."""
    told = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_CLIENT_MAX_RETRIES": str(retries)}
    return subprocess.Popen(
        [sys.executable, "-c", TELLER],
        env={**os.environ, **told, "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL", "PREFECT_LOGGING_LEVEL": "CRITICAL"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def say(to: subprocess.Popen[str], *names: str) -> None:
    assert to.stdin
    assert to.stdout
    for name in names:
        to.stdin.write(name + "\n")
        to.stdin.flush()
        assert to.stdout.readline() == "queued\n"


@contextmanager
def listening(port: int, heard: list[str], came: threading.Semaphore) -> Generator[Server]:
    """A server for events, as far as its clients see; it answers no other request."""

    def listen(connection: ServerConnection) -> None:
        try:
            connection.recv()
            connection.send(json.dumps({"type": "auth_success"}))
            for message in connection:
                heard.append(json.loads(message)["event"])
                came.release()
        except ConnectionClosed:
            pass

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        return None if request.path.endswith("/events/in") else connection.respond(HTTPStatus.NOT_FOUND, "")

    with serve(listen, "127.0.0.1", port, subprotocols=[Subprotocol("prefect")], process_request=answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def port() -> int:
    return free_port()


def test_a_process_whose_server_is_gone_ends_however_much_it_has_to_tell(port: int) -> None:
    process = teller(port, retries=0)
    heard, came = list[str](), threading.Semaphore(0)
    with listening(port, heard, came):
        say(process, "before")
        assert came.acquire(timeout=60)
    say(process, *(f"event-{number}" for number in range(100)))
    process.communicate(timeout=120)  # Prefect's own client would take 800 s
    assert process.returncode == 0


def test_a_server_that_was_away_hears_every_event_once_and_in_order(port: int) -> None:
    heard, came = list[str](), threading.Semaphore(0)
    process = teller(port, retries=5)
    try:
        with listening(port, heard, came):
            say(process, "before")
            assert came.acquire(timeout=60)
        say(process, "one", "two", "three")
        with listening(port, heard, came):
            for _ in range(3):
                assert came.acquire(timeout=60)
            process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    told = [name for number, name in enumerate(heard) if name not in heard[:number]]
    assert told == ["before", "one", "two", "three"]
