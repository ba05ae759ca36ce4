"""vLLM for real: one engine at a time, on tiny models of random weights, with little memory and no compiler."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

HERE = Path(__file__).parent
HAS_VLLM = importlib.util.find_spec("vllm") is not None
SERVED_WITHIN_S = 240
GONE_WITHIN_S = 60
"""A deadline for what would wait for ever."""
MARK = "TRIVET_TEST_MARK"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is below this folder; the warnings of vLLM and its libraries are theirs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("default"))
            if not HAS_VLLM:
                reason = "vLLM is not installed here: `make engines` makes an environment with it"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with heads of a size that vLLM takes."""
    from tests.models.tiny import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("text"), hidden=64, context_tokens=256)


@pytest.fixture(scope="session")
def seeing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2.5-VL."""
    from tests.models.tiny_vision import make_tiny_qwen

    return make_tiny_qwen(tmp_path_factory.mktemp("seeing"), context_tokens=4096)


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Settings of an engine that starts soon: a tenth of the memory, nothing compiled."""
    return {"gpu_memory_utilization": 0.1, "enforce_eager": True}


@pytest.fixture
def marked() -> Iterator[dict[str, str]]:
    """Variables for the environment of a command; no process that it started may be left behind."""
    mark = uuid4().hex
    yield {MARK: mark}
    until = time.monotonic() + GONE_WITHIN_S
    while (left := [one for one in psutil.process_iter() if _has(one, mark)]) and time.monotonic() < until:
        time.sleep(0.2)
    names = [one.name() for one in left]
    for one in left:
        one.kill()
    assert not names


def _has(process: psutil.Process, mark: str) -> bool:
    """A database of the tests may have been started by any command; it is theirs. A dead process has no environment."""
    with suppress(psutil.Error):
        return process.environ().get(MARK) == mark and process.name() != "postgres"
    return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Serves the model of a folder as `tiny`, and gives the address."""
    running = list[subprocess.Popen[bytes]]()

    def serve(folder: Path) -> str:
        port = free_port()
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
        command += ["--gpu-memory-utilization", "0.1", "--enforce-eager"]
        with (tmp_path / "server.log").open("wb") as log:
            running.append(subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **APART}))
        wait_for(f"http://127.0.0.1:{port}/health", running[-1], tmp_path / "server.log")
        return f"http://127.0.0.1:{port}/v1"

    yield serve
    for server in running:
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        server.terminate()
        _, alive = psutil.wait_procs(family, timeout=30)
        for one in alive:
            one.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


APART = {"VLLM_HOST_IP": "127.0.0.1", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + SERVED_WITHIN_S
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            assert server.poll() is None, log.read_text("utf-8", "replace")[-2000:]
            time.sleep(0.5)
        else:
            return
    raise TimeoutError(log.read_text("utf-8", "replace")[-2000:])
