"""What drills of the evaluation share: sums as a benchmark, a server that can add, a run in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.command import TRIVET, Done
from tests.models.server import Server, prompt_of

SUM = re.compile(r"What is (\d+) \+ (\d+)\?")
WAIT_S = 120


def write_sums(folder: Path, count: int, *, first: int = 0) -> Path:
    """A folder of data in which MATH500 asks for `count` sums, each another one, from the number `first` on."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "math500.jsonl").open("w") as file:
        for number in range(first, first + count):
            left, right = 1000 + number, 7 * number
            problem = {
                "problem": f"What is {left} + {right}?",
                "solution": f"It is $\\boxed{{{left + right}}}$.",
                "answer": str(left + right),
                "subject": "Sums",
                "level": 1 + number % 5,
                "unique_id": f"sum/{number}",
            }
            file.write(json.dumps(problem) + "\n")
    return folder


def adder(pause_s: float) -> Callable[[dict[str, Any]], str]:
    """Answers a sum after a while; every tenth one wrongly."""

    def answer(body: dict[str, Any]) -> str:
        found = SUM.search(prompt_of(body))
        assert found, f"not a sum: {prompt_of(body)[:100]}"
        time.sleep(pause_s)
        left, right = int(found[1]), int(found[2])
        wrong = (left - 1000) % 10 == 0
        return f"I add {left} and {right}.\nSo the sum is $\\boxed{{{left + right + wrong}}}$."

    return answer


def asked(server: Server) -> Counter[str]:
    """How often each sum was asked for."""
    found = (SUM.search(prompt_of(request["body"])) for request in list(server.requests))
    return Counter(one[0] for one in found if one)


def command(server: Server, data: Path, out: Path, *options: object) -> list[str]:
    """`trivet eval run` of all sums against the server."""
    arguments = ("eval", "run", "--model", "openai", "--model_name", "small-vision", "--base-url", server.base_url)
    chosen = ("--tasks", "MATH500", "--data-dir", data, "--output_path", out, "--json")
    return [*TRIVET, *map(str, (*arguments, *chosen, *options))]


def start(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    """A run in a process of its own."""
    return subprocess.Popen(
        arguments,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_when(run: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    """`kill -9` as soon as `reached`; the run must not have ended by then."""
    wait_until(reached, run)
    assert run.poll() is None, f"it ended before it could be killed: {run.communicate()}"
    run.send_signal(signal.SIGKILL)
    run.communicate()


def finished(run: subprocess.Popen[str], *, within_s: float = 300) -> Done:
    """How a run ended that was left alone."""
    stdout, stderr = run.communicate(timeout=within_s)
    return Done(run.returncode, stdout, stderr)


def wait_until(reached: Callable[[], bool], run: subprocess.Popen[str], *, patience_s: float = WAIT_S) -> None:
    """Look every few milliseconds; gives up when the run has ended, or the patience is at an end."""
    deadline = time.monotonic() + patience_s
    while not reached() and run.poll() is None:
        assert time.monotonic() < deadline, "the run did not get that far"
        time.sleep(0.005)
