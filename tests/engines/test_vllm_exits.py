"""However a process ends that has opened an engine: it does end, and the engine's processes with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.conftest import GONE_WITHIN_S

PROGRAM = """
import tempfile

place = tempfile.TemporaryDirectory()  # as in many a command, whose exit then begins with multiprocessing's

import json, multiprocessing, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

from models.backends import open_backend
from models.protocols import ChatRequest, Message, Text


def ask(number=0, tokens=4):
    chat = open_backend("vllm", args=json.loads(sys.argv[1]))
    said = (Text(text=f"Say it {number}"),)
    chat.complete(ChatRequest(messages=(Message(role="user", content=said),), max_tokens=tokens))


def ask_in_threads():
    for number in range(4):
        threading.Thread(target=ask, args=(number, 200), daemon=True).start()
    pool = ThreadPoolExecutor(4)
    for number in range(4):
        pool.submit(ask, number, 200)


def ask_in_a_child():
    child = multiprocessing.get_context("spawn").Process(target=ask)
    child.start()
    child.join()


def wait_for_a_child():
    while not multiprocessing.active_children():
        time.sleep(0.1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    DOES
"""
READY = "print('ready', flush=True)"
ENDS = f"ask(); {READY}"
RAISES = f"ask(); {READY}; raise RuntimeError('no more')"
ENDS_ASKING = f"ask(); ask_in_threads(); {READY}"
STAYS_ASKING = f"{ENDS_ASKING}; time.sleep(3600)"
ENDS_OPENING = f"threading.Thread(target=ask, daemon=True).start(); wait_for_a_child(); {READY}"
HAS_A_CHILD = f"ask_in_a_child(); {READY}"


@pytest.mark.parametrize(
    ("does", "sent", "code"),
    [
        (ENDS, None, 0),
        (RAISES, None, 1),
        (ENDS_ASKING, None, 0),
        (HAS_A_CHILD, None, 0),
        (ENDS_OPENING, None, 0),
        (STAYS_ASKING, signal.SIGINT, 1),
        (STAYS_ASKING, signal.SIGTERM, -signal.SIGTERM),
        (STAYS_ASKING, signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=[
        *("by itself", "with an error", "while threads ask", "that of a child", "while it opens"),
        *("by Ctrl-C", "by SIGTERM", "by kill -9"),
    ],
)
def test_a_process_ends_with_its_engine(
    does: str, sent: signal.Signals | None, code: int, opening: Any, tmp_path: Path
) -> None:
    process = opening(does, tmp_path)
    assert "ready\n" in iter(process.stdout.readline, "")
    if sent is signal.SIGINT:
        os.killpg(process.pid, sent)  # as a terminal does
    elif sent:
        process.send_signal(sent)
    ended = process.wait(GONE_WITHIN_S)
    assert ended == code or sent is signal.SIGINT, "an error, or the signal itself"


@pytest.fixture
def opening(text_folder: Path, small: dict[str, Any], marked: dict[str, str]) -> Iterator[Any]:
    """Starts a process that opens an engine; `marked` finds what it leaves behind."""
    args, started = json.dumps({"pretrained": str(text_folder), **small}), list[subprocess.Popen[str]]()
    environment = {**os.environ, **marked, "PYTHONPATH": str(Path(__file__).parents[2])}

    def start(does: str, folder: Path) -> subprocess.Popen[str]:
        program = folder / "program.py"
        program.write_text(PROGRAM.replace("DOES", does), "utf-8")
        command, out = [sys.executable, str(program), args], subprocess.PIPE
        own: dict[str, Any] = {"env": environment, "stdout": out, "encoding": "utf-8", "start_new_session": True}
        started.append(subprocess.Popen(command, **own))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()
