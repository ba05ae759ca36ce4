"""The last stage: sympy, in worker processes that are killed at the deadline and replaced."""

from __future__ import annotations

import json
import logging
import math
import os
import selectors
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import LifoQueue
from threading import Lock

WORKER = Path(__file__).with_name("math_worker.py")
START_TIMEOUT_S = 120.0
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "TMPDIR")
"""Environment variables passed on; keys and tokens are not."""
log = logging.getLogger(__name__)


class DeadlinePassed(Exception):
    """The comparison took too long, or more memory than a worker has."""


class WorkerUnavailable(Exception):
    """No worker could be started, so that the answer cannot be graded."""


class _Worker:
    """One worker process, used by one thread at a time. Raises WorkerUnavailable when it does not start."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {"PYTHONHASHSEED": "0"}
        try:
            self.process = subprocess.Popen(
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
            self._line(START_TIMEOUT_S)
        except DeadlinePassed as error:
            try:
                failure = f"ended with status {self.process.wait(1)}"
            except subprocess.TimeoutExpired:
                failure = f"was not ready in {START_TIMEOUT_S:g} s"
            self.kill()
            raise WorkerUnavailable(
                f"the process that compares formulas {failure}; are sympy and math-verify installed?"
            ) from error

    def are_equal(self, gold: str, answer: str, deadline_s: float) -> bool:
        """Return whether sympy finds both equal. Raises DeadlinePassed, after which the worker is unusable."""
        request = {"gold": gold, "answer": answer, "cpu_s": math.ceil(deadline_s) + 1}
        try:
            assert self.process.stdin
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            return bool(json.loads(self._line(deadline_s))["equal"])
        except (OSError, ValueError, KeyError) as error:
            raise DeadlinePassed("the worker was gone, or wrote no verdict") from error

    def _line(self, timeout_s: float) -> bytes:
        assert self.process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise DeadlinePassed(f"no verdict in {timeout_s:g} s")
        line = self.process.stdout.readline()  # the worker writes a line at once
        if not line:
            raise DeadlinePassed("the worker ended")
        return line

    def kill(self) -> None:
        """Kill the process and close its pipes."""
        self.process.kill()
        self.process.wait()  # so that a thread that reads sees the end before the pipes are closed
        with suppress(OSError), self.process:  # closes them; a dead worker's input may hold what was not written
            pass


class Workers:
    """At most `count` workers, started when they are needed; threads wait for a free one."""

    def __init__(self, count: int) -> None:
        self._free: LifoQueue[_Worker | None] = LifoQueue()
        for _ in range(count):
            self._free.put(None)
        self._closed = False
        self._lock = Lock()
        self._running: set[_Worker] = set()

    def are_equal(self, gold: str, answer: str, deadline_s: float) -> bool:
        """Return whether sympy finds both equal. Raises DeadlinePassed or WorkerUnavailable."""
        worker = self._free.get()
        try:
            if worker is None or worker.process.poll() is not None:  # killed by someone while it was idle
                self._drop(worker)
                worker = None
                with self._lock:
                    if self._closed:
                        raise WorkerUnavailable("the grader was closed")
                worker = _Worker()
                with self._lock:
                    self._running.add(worker)
                log.debug("math worker started pid=%d", worker.process.pid)
            return worker.are_equal(gold, answer, deadline_s)
        except BaseException:  # it may still be at work on this
            self._drop(worker)
            worker = None
            raise
        finally:
            self._free.put(worker)

    def _drop(self, worker: _Worker | None) -> None:
        if worker:
            with self._lock:
                self._running.discard(worker)
            worker.kill()

    def close(self) -> None:
        """End all workers; a comparison under way gives DeadlinePassed, a later one WorkerUnavailable."""
        with self._lock:
            self._closed = True
            running, self._running = list(self._running), set()
        for worker in running:
            worker.kill()
