"""`--model auto` takes the first model that is at hand, and says why."""

from __future__ import annotations

import importlib.util
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from models import auto
from models.auto import Place, pick
from models.model_errors import ModelUnavailable
from models.registry import VARIABLE, Entry
from tests.models.server import Server, serving


@pytest.fixture(autouse=True)
def _no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def nobody() -> Place:
    """An endpoint that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Place("LM Studio", f"http://127.0.0.1:{free.getsockname()[1]}/v1")


def test_the_default_of_the_file_goes_first(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.yaml").write_text("echo: {backend: scripted, default: true}\nother: {backend: hf, name: m}\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "m.yaml"))
    entry, why = pick(None, [Place("vLLM", server.base_url)])
    assert (entry.backend, why) == ("scripted", "'echo' is the default of the file in TRIVET_MODELS")
    assert (pick("other", []).entry.name, server.requests) == ("m", [])


def test_weights_on_this_disk_go_before_an_endpoint(server: Server, tmp_path: Path) -> None:
    entry, why = pick(str(tmp_path), [Place("vLLM", server.base_url)])
    assert (entry, server.requests) == (Entry(backend="hf", name=str(tmp_path)), [])
    assert why.startswith("a folder on this disk, and ")


@pytest.mark.parametrize(
    ("cuda", "backend", "said"),
    [(True, "vllm", "with vLLM on a CUDA device"), (False, "hf", "no CUDA device for vLLM")],
)
def test_vllm_is_taken_where_it_is_installed_and_has_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: bool, backend: str, said: str
) -> None:
    import torch

    find: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "vllm" or find(name))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    entry, why = pick(str(tmp_path), [])
    assert (entry.backend, said in why) == (backend, True)


def test_an_endpoint_that_serves_the_model_is_taken(server: Server, nobody: Place) -> None:
    server.models = ("text-embedding-3-small", "qwen3-8b", "small-vision")
    entry, why = pick("small-vision", [nobody, Place("vLLM", server.base_url)])
    assert entry == Entry(backend="openai", name="small-vision", base_url=server.base_url)
    assert why == f"vLLM at {server.base_url} serves it"


def test_without_a_name_the_first_model_that_answers_is_taken(server: Server) -> None:
    server.models = ("text-embedding-3-small", "qwen3-8b", "gemma")
    entry, why = pick(None, [Place("OPENAI_BASE_URL", server.base_url, SecretStr("sk-1"), of_user=True)])
    assert (entry.name, entry.base_url) == ("qwen3-8b", None)
    assert "the first of 2 models there: --model_name picks another" in why
    assert server.requests[0]["headers"]["authorization"] == "Bearer sk-1"


def test_a_server_that_says_nothing_or_something_else_is_passed_over(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "PROBE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, _web_page() as page:
        places = [Place("LM Studio", f"http://127.0.0.1:{silent.getsockname()[1]}/v1"), Place("vLLM", page)]
        entry, _ = pick(None, [*places, Place("Ollama", server.base_url)])
    assert entry.base_url == server.base_url


@contextmanager
def _web_page() -> Generator[str]:
    """The address of a server that answers all with a web page."""

    class Shop(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>a shop</html>")

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output quiet."""

    with HTTPServer(("127.0.0.1", 0), Shop) as http:
        http.timeout = 5
        thread = threading.Thread(target=http.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/v1"
        thread.join()


def test_where_nothing_is_the_refusal_lists_what_was_tried(server: Server, nobody: Place) -> None:
    server.models = ("text-embedding-3-small",)
    mine = Place("--base-url", nobody.base_url, of_user=True)
    with pytest.raises(ModelUnavailable) as refused:
        pick("org/qwen", [mine, nobody, Place("Ollama", server.base_url)])
    said = str(refused.value)
    assert "'org/qwen' is no folder here and not in the hub's cache" in said
    assert f"--base-url: The endpoint {nobody.base_url}" in said
    assert f"LM Studio at {nobody.base_url} is not there" in said
    assert f"Ollama at {server.base_url} serves text-embedding-3-small" in said
    assert "the Hugging Face hub has no 'org/qwen', or cannot be asked" in said
    with pytest.raises(ModelUnavailable, match="no model of a file in TRIVET_MODELS is marked"):
        pick(None, [])
