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
from math import ceil
from pathlib import Path, PurePosixPath
from queue import LifoQueue
from threading import Event, Lock, Semaphore, Thread
from typing import Self, TypeVar
from weakref import WeakSet

from tasks.sandbox import cgroups
from tasks.sandbox.engines import Engine, engines, none_holds, refuse_unsafe
from tasks.sandbox.languages import find, unavailable
from tasks.sandbox.sandbox_errors import LanguageUnavailable, SandboxUnavailable
from tasks.sandbox.sandbox_layout import Interpreter, interpreter
from tasks.sandbox.sandbox_records import NOT_STARTED, Execution, Program, broken, outcome, too_long
from tasks.sandbox.sandbox_worker import Worker, WorkerLost

TRIES = 2
AHEAD = 2
"""Items of `Sandbox.map` that are begun and not finished, as a multiple of the workers."""
KEPT = 1024
"""Results of `Sandbox.map` that may wait for the one before them, so that one endless loop does not stop the rest."""
MOST_WORKERS = 16
VMSTAT = "/proc/vmstat"

_shared: dict[bool, Sandbox] = {}
_shared_lock = Lock()
_stopped = Event()
_all: WeakSet[Sandbox] = WeakSet()

Item = TypeVar("Item")
Result = TypeVar("Result")


class Sandbox:
    """Executes programs, as many at once as it has workers; thread-safe, a context manager.

    workers: most zygotes, one for each processor by default; started on demand. engine: by default the best that works.
    python: for Python programs, by default TRIVET_SANDBOX_PYTHON, else this one. unsafe: no isolation; refused to root.
    """

    def __init__(
        self,
        workers: int | None = None,
        engine: Engine | None = None,
        python: Path | None = None,
        *,
        unsafe: bool = False,
        run_as: int | None = None,
    ) -> None:
        if unsafe:
            refuse_unsafe()
            engine = Engine("none", privileged=False)
        self.workers = workers or max(1, min(MOST_WORKERS, processors()))
        self._engine = engine
        self._named = python
        self._run_as = run_as
        self.closed = False
        self._begin()
        _all.add(self)

    @property
    def engine(self) -> Engine:
        """The engine that works here. Raises SandboxUnavailable naming what to install."""
        with self._lock:
            self._refuse_when_closed()
            if self._engine is None:
                self._engine, first = _best(self.python, self._run_as)
                self._started.add(first)
                self._free.get()
                self._free.put(first)
            return self._engine

    @property
    def python(self) -> Interpreter:
        """What executes Python programs. Raises SandboxUnavailable."""
        return interpreter(self._named)

    def run(self, program: Program) -> Execution:
        """Execute a program, once more if it was not its own fault that it ended; the status is `broken` after that.

        A zygote that broke is replaced; one on a machine that was full or too busy goes on.

        Raises SandboxUnavailable, LanguageUnavailable.
        """
        language = find(program.language)
        if why := unavailable(language):
            raise LanguageUnavailable(why)
        for path in program.files:
            pure = PurePosixPath(path)
            if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in path:
                raise ValueError(f"files: {path!r} is no relative path within a program's folder")
        if (execution := too_long(program)) is not None:
            return execution
        engine, execution = self.engine, broken("")
        for _ in range(TRIES):
            self._refuse_when_closed()
            worker = self._free.get()
            try:
                worker = worker or self._start(engine)
                full = _killed_for_memory()
                reply, killed = worker.ask(program, language)
                execution = outcome(
                    program,
                    reply,
                    marks_end=language.marks_end,
                    killed_for_memory=killed,
                    machine_was_full=_killed_for_memory() > full + killed,
                )
                if execution.status == "broken" and execution.reason.startswith(NOT_STARTED):
                    worker = self._ended(worker)
            except WorkerLost as error:
                worker, execution = self._ended(worker), broken(f"the sandbox broke: {error}")
            except BaseException:
                worker = self._ended(worker)
                raise
            finally:
                self._free.put(worker)
            if execution.status != "broken":
                return execution
        self._refuse_when_closed()
        return execution

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """`function` of each item, in order, in as many threads as there are workers; items are read lazily."""
        turns = Semaphore(AHEAD * self.workers)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox") as threads:
            waiting: deque[Future[Result]] = deque()
            try:
                for item in items:
                    turns.acquire()
                    future = threads.submit(function, item)
                    future.add_done_callback(lambda _: turns.release())
                    waiting.append(future)
                    while len(waiting) > KEPT or (waiting and waiting[0].done()):
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except KeyboardInterrupt:
                self.close()  # else programs under way would have their time first
                raise
            finally:
                for future in waiting:
                    future.cancel()

    def pids(self) -> list[int]:
        """Process IDs of the engines on this machine."""
        with self._lock:
            return [worker.pid for worker in self._started]

    @property
    def grouped(self) -> bool:
        """Whether a cgroup bounds all processes of a program together; known once a program ran."""
        with self._lock:
            return any(worker.group for worker in self._started)

    def close(self) -> None:
        """End all that runs, from any thread; programs under way raise SandboxUnavailable where they are waited for."""
        self.closed = True
        with self._lock:
            started, self._started = list(self._started), set()
        for worker in started:
            worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _begin(self) -> None:
        """Start over without any worker."""
        self._free: LifoQueue[Worker | None] = LifoQueue()
        for _ in range(self.workers):
            self._free.put(None)
        self._started: set[Worker] = set()
        self._lock = Lock()

    def _after_fork(self) -> None:
        """Drop the workers in a forked process: they belong to the parent, which goes on using them."""
        for worker in self._started:
            worker.forget()
        self._begin()

    def _refuse_when_closed(self) -> None:
        """A program that ended with its sandbox is not `broken`: its result is no longer wanted."""
        if self.closed:
            raise SandboxUnavailable("The sandbox was closed; no program is executed any more. Run it again to go on.")

    def _start(self, engine: Engine) -> Worker:
        worker = Worker(engine, self.python, run_as=self._run_as)
        with self._lock:
            if not self.closed:
                self._started.add(worker)
                return worker
        worker.stop()
        raise WorkerLost("it was closed")

    def _ended(self, worker: Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._started.discard(worker)
            worker.stop()


def shared_sandbox(*, unsafe: bool = False) -> Sandbox:
    """The sandbox of this process, closed with it; a new one after Ctrl-C has closed the last."""
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


def processors() -> int:
    """Processors that this process may use, by its affinity and by the quota of its cgroup."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, ceil(cgroups.processor_share() or allowed)))


def _after_fork() -> None:
    for sandbox in list(_all):
        sandbox._after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _best(python: Interpreter, run_as: int | None) -> tuple[Engine, Worker]:
    """The first engine that starts, and what it started. Raises SandboxUnavailable."""
    tried: list[str] = []
    for engine in engines(privileged=None if run_as is None else False):
        why = engine.unavailable()
        if why is None:
            try:
                return engine, Worker(engine, python, run_as=run_as)
            except WorkerLost as error:
                why = str(error)
        tried.append(f"{engine.name}: {why}")
    raise none_holds(tried)


def _killed_for_memory() -> int:
    """Processes that the kernel killed for memory on this machine, since it started."""
    with suppress(OSError, ValueError, IndexError):
        return int(cgroups.read(VMSTAT).partition("oom_kill ")[2].split(maxsplit=1)[0])
    return 0
