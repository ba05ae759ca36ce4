"""The server that a command talks to: a dead one is named at once, and no proxy stands before this machine's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from flows.running import command_server, environment
from flows.running.command_server import ServerDidNotStart, wait_until_healthy
from flows.running.environment import prepare_environment
from flows.service.api import SERVICE_FILE, NotConnected, Service, connect
from tests.command import run_apart

NOBODY = "http://127.0.0.1:9/api"
"""The port of `discard`, where nobody listens."""
SUITE = Path(__file__).parents[1] / "samples" / "nightly" / "suite.yaml"


@pytest.fixture
def healthy() -> Iterator[str]:
    """An API that says that it is well."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, format: str, *args: object) -> None:
            """No word on stderr."""

    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/api"
        listening.shutdown()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("words", [("deploy",), ("nightly", "run", str(SUITE))], ids=lambda words: words[0])
def test_a_command_names_a_dead_server_of_the_user_and_what_to_do(words: tuple[str, ...]) -> None:
    done = run_apart(*words, PREFECT_API_URL=NOBODY)
    assert done.code == 1
    assert f"no Prefect server answers at {NOBODY}, which PREFECT_API_URL names ([Errno 111]" in done.stderr
    assert "`trivet up`), or unset PREFECT_API_URL" in done.stderr
    assert (".log" in done.stderr, done.stdout) == (False, "")


@pytest.mark.parametrize("url", ["kitchen", "http://127.0.0.1:port/api"])
def test_what_is_no_address_is_named(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "ANSWER_S", 0.1)
    monkeypatch.setattr(command_server, "_joined", [])  # other tests of this process may have a server
    monkeypatch.setenv("PREFECT_API_URL", url)
    with pytest.raises(ServerDidNotStart, match=f"no Prefect server answers at {url}, which PREFECT_API_URL names"):
        wait_until_healthy(tmp_path)


def test_a_service_that_is_away_is_not_called_a_server_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environment, "ANSWER_S", 3_600)  # one whose supervisor is dead is not waited for
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    (tmp_path / SERVICE_FILE).parent.mkdir()
    service = Service(
        api_url=NOBODY, ui_url="http://127.0.0.1:9", auth_file="auth", database=None, pools=(), folder=str(tmp_path)
    )
    (tmp_path / SERVICE_FILE).write_text(service.model_dump_json())
    with pytest.raises(NotConnected, match=f"the server of this home does not answer at {NOBODY} .*trivet status"):
        connect(tmp_path)
    assert "PREFECT_API_URL" not in os.environ


@pytest.mark.parametrize(("proxy", "spared"), [("http_proxy", "NO_PROXY"), ("ALL_PROXY", "no_proxy")])
def test_no_proxy_stands_before_a_server_on_this_machine(
    proxy: str, spared: str, healthy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environment, "ANSWER_S", 0.1)
    monkeypatch.setattr(command_server, "_joined", [])
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")  # and put back in the end
    monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    monkeypatch.setenv(spared, "corp.example")
    monkeypatch.setenv("PREFECT_API_URL", healthy)

    prepare_environment()

    wait_until_healthy(tmp_path)
    with httpx.Client() as client:  # what Prefect's client and those of models are made of
        assert client.get(f"{healthy}/health").status_code == 200
    assert os.environ["no_proxy"].split(",") == ["corp.example", "127.0.0.1", "localhost", "::1"]


def test_an_empty_home_of_prefect_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRIVET_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_HOME", "")
    prepare_environment()
    assert os.environ["PREFECT_HOME"] == str(tmp_path / "prefect")
