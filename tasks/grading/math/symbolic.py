"""The last stage: sympy, in a worker process that is killed at the deadline and replaced."""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock

WORKER = Path(__file__).with_name("math_worker.py")
START_TIMEOUT_S = 120.0
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "TMPDIR")
"""Environment variables passed on; keys and tokens are not."""


class DeadlinePassed(Exception):
    """The comparison took too long, or more memory than a worker has."""


class WorkerUnavailable(Exception):
    """No worker could be started, so that the answer cannot be graded."""


class Worker:
    """One process, started when it is needed and replaced when it dies; threads take turns."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = Lock()

    def are_equal(self, gold: str, answer: str, deadline_s: float) -> bool:
        """Return whether sympy finds both equal. Raises DeadlinePassed or WorkerUnavailable."""
        request = {"gold": gold, "answer": answer, "cpu_s": math.ceil(deadline_s) + 1}
        with self._turn:
            if self._process and self._process.poll() is not None:  # killed by someone while it was idle
                self._drop()
            process = self._process = self._process or _start()
            try:
                assert process.stdin
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                return bool(json.loads(_read_line(process, deadline_s))["equal"])
            except (OSError, ValueError) as error:
                self._drop()
                raise DeadlinePassed("the worker was gone, or wrote no verdict") from error
            except BaseException:  # it may still be at work on this
                self._drop()
                raise

    def close(self) -> None:
        """End the process; a later comparison starts another."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process:
            _kill(process)


def _start() -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {"PYTHONHASHSEED": "0"}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER)],  # -I: neither PYTHONPATH nor the current folder is searched
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=os.sep,
            start_new_session=True,  # Ctrl-C is for us; a worker ends when its input does
        )
    except OSError as error:
        raise WorkerUnavailable(f"the process that compares formulas did not start: {error}") from error
    try:
        _read_line(process, START_TIMEOUT_S)
    except DeadlinePassed as error:
        _kill(process)
        raise WorkerUnavailable(
            f"the process that compares formulas ended, or was not ready in {START_TIMEOUT_S:g} s (status "
            f"{process.returncode}); are sympy and math-verify installed?"
        ) from error
    return process


def _read_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        # the worker writes a line at once; an empty one is the end of its output
        line = process.stdout.readline() if selector.select(timeout_s) else b""
    if not line:
        raise DeadlinePassed(f"no verdict in {timeout_s:g} s, or the worker ended")
    return line


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    with suppress(OSError), process:  # closes its pipes; a dead worker's input may hold what was not written
        pass
