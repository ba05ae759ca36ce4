"""A pool of zygotes: long-lived processes, each of which forks an isolated process for every program.

Two programs share the read-only root (system, Python, libraries), the zygote's memory from before either of them (copy
on write; the zygote reads no request), the processor and the kernel. Each has its own folder in memory and its own
process, mount, network and IPC namespaces; under root, programs of two zygotes also run as two users.

A Python program runs its tests in its own interpreter: exits, tracing, builtins, the stack and the collector's lists
are guarded, but it can forge the verdict by reading its own memory or by answers that equal everything. Where output
is compared outside, as with stdin, there is nothing to forge.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from queue import LifoQueue
from threading import Event, Lock, Thread
from typing import Self, TypeVar

from tasks.sandbox.bubblewrap import Engine, find_engine, find_remedy, refuse_unsafe
from tasks.sandbox.languages import find_language, why_unavailable
from tasks.sandbox.sandbox_python import Interpreter, find_interpreter
from tasks.sandbox.sandbox_records import (
    NOT_STARTED,
    Execution,
    LanguageUnavailable,
    Program,
    SandboxUnavailable,
    read_outcome,
)
from tasks.sandbox.sandbox_worker import Worker, WorkerLost

TRIES = 2
READ_AHEAD = 1024
"""Items of `Sandbox.map` that are read before the first of them is done, so that one endless loop stops no other."""
MOST_WORKERS = 16
VMSTAT = Path("/proc/vmstat")

_shared: dict[bool, Sandbox] = {}
_shared_lock = Lock()
_stopped = Event()  # this process ends: a shared sandbox that was closed stays so

Item = TypeVar("Item")
Result = TypeVar("Result")


class Sandbox:
    """Executes programs, as many at once as it has workers; thread-safe, a context manager.

    workers: most zygotes, one for each processor by default; started on demand. engine: bubblewrap by default.
    python: for Python programs, by default TRIVET_SANDBOX_PYTHON, else this one. unsafe: no isolation; refused to root.
    """

    def __init__(
        self,
        workers: int | None = None,
        engine: Engine | None = None,
        python: Path | None = None,
        *,
        unsafe: bool = False,
    ) -> None:
        if unsafe:
            refuse_unsafe()
            engine = Engine(bwrap=None)
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers = workers or min(MOST_WORKERS, processors)
        self.closed = False
        self._engine = engine
        self._named = python
        self._free: LifoQueue[Worker | None] = LifoQueue()  # last used first: none starts while one idles
        for _ in range(self.workers):
            self._free.put(None)
        self._started: set[Worker] = set()
        self._has_started = False
        self._lock = Lock()

    @property
    def python(self) -> Interpreter:
        """Return the interpreter that executes Python programs. Raises SandboxUnavailable."""
        return find_interpreter(self._named)

    def start(self) -> None:
        """Start a worker before the first program. Raises SandboxUnavailable, with the remedy."""
        self._refuse_when_closed()
        worker = self._free.get()
        try:
            worker = worker or self._start()
        finally:
            self._free.put(worker)

    def run(self, program: Program) -> Execution:
        """Execute a program, and once more if it did not end by its own fault; the status is `broken` after that.

        A zygote that broke is replaced, not one on a full machine. A source above half of `file_bytes` is `failed`.
        Raises SandboxUnavailable, LanguageUnavailable, and ValueError for a file outside the program's folder.
        """
        language = find_language(program.language)
        if why := why_unavailable(language):
            raise LanguageUnavailable(why)
        for path in program.files:
            pure = PurePosixPath(path)
            if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in path:
                raise ValueError(f"files: {path!r} is no relative path within a program's folder")
        size, most = len(program.source), program.limits.file_bytes // 2
        if size > most:
            why = f"its source has {size:,} characters; {most:,} are allowed, half of the files of a program"
            return Execution("failed", reason=why)
        execution = Execution("broken")
        for _ in range(TRIES):
            self._refuse_when_closed()
            worker = self._free.get()
            try:
                worker = worker or self._start()
                full = _killed_for_memory()
                reply, killed = worker.ask(program, language)
                execution = read_outcome(
                    program,
                    reply,
                    marks_end=language.marks_end,
                    killed_for_memory=killed,
                    machine_was_full=_killed_for_memory() > full + killed,  # others than the program's
                )
                if execution.status == "broken" and execution.reason.startswith(NOT_STARTED):
                    worker = self._end(worker)
            except WorkerLost as error:
                worker, execution = self._end(worker), Execution("broken", reason=f"the sandbox broke: {error}")
            except BaseException:
                worker = self._end(worker)
                raise
            finally:
                self._free.put(worker)
            if execution.status != "broken":
                return execution
        self._refuse_when_closed()
        return execution

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function` of each item, in order, with a thread for each worker, reading lazily. Ctrl-C closes it."""
        with ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox") as threads:
            waiting: deque[Future[Result]] = deque()
            try:
                for item in items:
                    waiting.append(threads.submit(function, item))
                    while len(waiting) > READ_AHEAD or (waiting and waiting[0].done()):
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except KeyboardInterrupt:
                interrupted = True
                while interrupted:  # however often Ctrl-C is pressed: programs under way would have their time first
                    with suppress(KeyboardInterrupt):
                        self.close()
                        interrupted = False
                raise
            finally:
                for future in waiting:
                    future.cancel()

    def pids(self) -> list[int]:
        """Return the process IDs of the engines on this machine."""
        with self._lock:
            return [worker.pid for worker in self._started]

    @property
    def grouped(self) -> bool:
        """Whether a cgroup bounds all processes of a program together; False before the first program ran."""
        with self._lock:
            return any(worker.group for worker in self._started)

    def close(self) -> None:
        """End all programs, from any thread; threads that wait for one get SandboxUnavailable."""
        self.closed = True
        with self._lock:
            started = list(self._started)
        for worker in started:
            worker.stop()
        with self._lock:  # not before: where Ctrl-C interrupts this, the next call has to find them
            self._started.difference_update(started)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _refuse_when_closed(self) -> None:
        """Raise SandboxUnavailable if the sandbox was closed: its programs are not `broken`, nobody waits for them."""
        if self.closed:
            raise SandboxUnavailable("The sandbox was closed; no program is executed any more. Run it again to go on.")

    def _start(self) -> Worker:
        """Start a zygote. Raises WorkerLost, and SandboxUnavailable if it is the first."""
        engine = self._engine or find_engine()
        try:
            if engine is None:
                raise WorkerLost("there is no bubblewrap")
            worker = Worker(engine, self.python)
        except WorkerLost as error:
            if self._has_started or self.closed:
                raise
            why = f"Generated code is not executed here, since no sandbox can be made ({error})"
            raise SandboxUnavailable(f"{why}; {find_remedy(engine)}") from error
        with self._lock:
            self._has_started = True
            if not self.closed:
                self._started.add(worker)
                return worker
        worker.stop()
        raise WorkerLost("it was closed")

    def _end(self, worker: Worker | None) -> None:
        """End a worker, if there is one, and forget it."""
        if worker is not None:
            with self._lock:
                self._started.discard(worker)
            worker.stop()


def shared_sandbox(*, unsafe: bool = False) -> Sandbox:
    """Return the sandbox of this process, closed with it; a new one if it was closed, but not by `stop_executing`."""
    with _shared_lock:
        sandbox = _shared.get(unsafe)
        if sandbox is None or (sandbox.closed and not _stopped.is_set()):
            sandbox = _shared[unsafe] = Sandbox(unsafe=unsafe)
            atexit.register(sandbox.close)
        return sandbox


def stop_executing() -> None:
    """End every program in a shared sandbox and refuse later ones: this process is about to end."""
    _stopped.set()
    for sandbox in list(_shared.values()):
        # in a thread: the one that a signal interrupted may hold what closing needs
        Thread(target=sandbox.close, daemon=True, name="sandbox-close").start()


def _killed_for_memory() -> int:
    """Return how many processes the kernel has killed for memory on this machine since it started."""
    with suppress(OSError, ValueError, IndexError):
        return int(VMSTAT.read_text().partition("oom_kill ")[2].split(maxsplit=1)[0])
    return 0
