"""An index that is served: its current generation, lent to threads, and the runs that keep it up to date.

upload, removal, a changed file ─► start() ─► flows.cli.index_command ─► index_status.json ─► state() ─► pages
Runs of one index come one after the other, each in a process of its own; a run of somebody else is waited for.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Protocol

from storage.index import Index, pointer_of
from storage.storage_errors import EngineAway, StorageError
from tasks.rag.answering.assistant import Answering
from tasks.rag.indexing.index_report import IndexStatus, StageProgress, read_status

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-c", "from flows.cli.index_command import build_from_stdin; build_from_stdin()")
PUBLISHED_CODES = (0, 3)
"""Exit codes of a build that has published an index version; 3: some documents could not be read."""
LOOK_S = 0.5
"""Seconds between two checks of a run that another process has started."""
STILL_S, IDLE_SHARE = 2.0, 0.01
"""Least seconds between two looks at the folder of documents, and most of the time that looking takes."""
LEAVE_S = 10.0
"""Seconds that a run has to end in order when the server does."""


class OpenIndex(Answering, Protocol):
    """An open index version that answers questions."""

    @property
    def index(self) -> Index:
        """The index version that is open."""
        ...


@dataclass
class _Opened:
    """An open index version with the number of its users; closed when it is neither current nor used."""

    stack: ExitStack
    opened: OpenIndex
    users: int = 0


class LiveIndex:
    """Lends the current index version, which `open_current` opens, to any number of threads."""

    def __init__(
        self,
        folder: Path,
        open_current: Callable[[], AbstractContextManager[OpenIndex]],
        *,
        models: Sequence[str] = ("none",),
    ) -> None:
        """models: names of those that a question may choose from; the first answers where none is chosen."""
        self.folder, self.models = folder, models
        self._open_current = open_current
        self._lock = Lock()
        self._current: _Opened | None = None

    @contextmanager
    def borrow(self) -> Generator[OpenIndex]:
        """Lend the current index version, which stays open during the block. Raises StorageError."""
        with self._lock:
            lent = self._refresh()
            lent.users += 1
        try:
            yield lent.opened
        finally:
            with self._lock:
                lent.users -= 1
                self._close_unused(lent)

    def close(self) -> None:
        """Give up the current index version, which stays open for its present users."""
        with self._lock:
            last, self._current = self._current, None
            if last:
                self._close_unused(last)

    def _refresh(self) -> _Opened:
        """Return the version that CURRENT names, or the last one if that cannot be opened. Raises StorageError."""
        before = self._current
        try:
            if before and pointer_of(self.folder).generation == before.opened.index.generation:
                return before
            stack = ExitStack()
            self._current = _Opened(stack, stack.enter_context(self._open_current()))
            self._current.opened.index.check_in_background()
        except (StorageError, OSError) as error:
            if before is None or isinstance(error, EngineAway):  # then what is open cannot be asked either
                raise
            log.warning("index stays at generation=%s error=%s", before.opened.index.generation, error)
            return before
        log.info("index at generation=%s", self._current.opened.index.generation)
        if before:
            self._close_unused(before)
        return self._current

    def _close_unused(self, lent: _Opened) -> None:
        if lent.users == 0 and lent is not self._current:
            lent.stack.close()


class IndexingState(NamedTuple):
    """State of the runs of an index: what runs now, and how the last one ended."""

    running: bool
    step: str
    """Step of the flow that runs; empty while its process starts."""
    progress: StageProgress
    """Progress of that step; zeros before its first report."""
    failure: str
    """What went wrong in the last run; empty where nothing did, documents that cannot be read apart."""
    ended: int
    """Runs of this server that have ended."""


class Indexing:
    """Indexes a folder whenever it is asked to, and when files in it have changed."""

    def __init__(self, documents: Path, index: Path, *, command: Sequence[str] = COMMAND) -> None:
        """documents, index: absolute folders. command: reads the parameters of a run on stdin."""
        self.documents, self.index = documents, index
        self._command = command
        self._lock = Lock()
        self._wanted: set[str] | None = None
        """Documents that the next run reads again; None: no further run is wanted."""
        self._running = False
        self._child: subprocess.Popen[str] | None = None
        self._stop = Event()
        self._seen: frozenset[tuple[str, int, int]] = frozenset()
        self._failure, self._ended = "", 0

    def watch(self) -> None:
        """Index the folder now and when its files have changed and are still; an empty one (a share is away) is not."""
        Thread(target=self._watch, daemon=True, name="watching").start()

    def start(self, again: Collection[str] = ()) -> None:
        """Have a run begin, after one that is under way; none once closed. again: names of documents to read again."""
        with self._lock:
            self._wanted = (self._wanted or set()) | set(again)
            if not self._running and not self._stop.is_set():
                self._running = True
                Thread(target=self._run, daemon=True, name="indexing").start()

    def close(self) -> None:
        """End the run that is under way; what it has finished is kept."""
        self._stop.set()
        with self._lock:
            child = self._child
        if child and child.poll() is None:
            child.terminate()
            try:
                child.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                child.kill()

    def state(self) -> IndexingState:
        """Return what runs now, and how the last run ended."""
        status = self.status()
        under_way = status if status and status.state == "running" else None
        step = under_way.step if under_way else ""
        progress = under_way.progress.get(step, StageProgress()) if under_way else StageProgress()
        with self._lock:
            failure = status.error or "" if status and not self._ended else self._failure
            running = self._running or under_way is not None
            return IndexingState(running, step, progress, "" if self._running else failure, self._ended)

    def status(self) -> IndexStatus | None:
        """Return the status file of the index; None where there is none that can be read."""
        try:
            return read_status(self.index)
        except StorageError:
            return None

    def _watch(self) -> None:
        """Start indexing whenever the files have changed and are still, until the index is closed."""
        before, pause_s = frozenset[tuple[str, int, int]](), 0.0
        while not self._stop.wait(pause_s):
            began = time.monotonic()
            now = self._list_files()
            if now and now == before and now != self._seen:  # one that is being copied differs
                self._seen = now
                self.start()
            before, pause_s = now, max(STILL_S, (time.monotonic() - began) / IDLE_SHARE)

    def _run(self) -> None:
        """Index as long as it is wanted, after any build of another process; record the failure of each."""
        while True:
            with self._lock:
                again, self._wanted = self._wanted, None
                if again is None or self._stop.is_set():
                    self._running = False
                    return
            status = self.status()
            while status and status.state == "running" and not self._stop.is_set():
                time.sleep(LOOK_S)
                status = self.status()
            self._seen = self._list_files()
            failure = self._build(again)
            with self._lock:
                self._failure, self._ended = failure, self._ended + 1

    def _build(self, again: Collection[str]) -> str:
        """Run the flow as it ran last, so that nothing is made anew; return what went wrong; empty: nothing."""
        status = self.status()
        own = {"documents": str(self.documents), "index": str(self.index), "again": sorted(again)}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        try:
            child = subprocess.Popen(self._command, encoding="utf-8", errors="replace", **pipes)
        except OSError as error:
            return f"no process could be started ({error}); free memory or processes, and index again"
        with self._lock:
            self._child = child
        _, errors = child.communicate(json.dumps((status.parameters if status else {}) | own))
        log.info("indexed index=%s exit=%s", self.index, child.returncode)
        if child.returncode in PUBLISHED_CODES:
            return ""
        _, _, sentence = errors.rpartition("error: ")  # what the command says at its end
        return sentence.strip() or f"the run ended with exit code {child.returncode} and said nothing"

    def files(self) -> Iterator[Path]:
        """Yield the files below the folder of documents, in no order, hidden ones and those of the index left out."""
        own = self.index.resolve()
        for place, folders, names in os.walk(self.documents):
            folder = Path(place)
            folders[:] = [name for name in folders if not name.startswith(".") and (folder / name).resolve() != own]
            yield from (folder / name for name in names if not name.startswith("."))

    def _list_files(self) -> frozenset[tuple[str, int, int]]:
        """Return path, size in bytes and time of change in ns of each file."""
        files: set[tuple[str, int, int]] = set()
        for file in self.files():
            with suppress(OSError):  # gone meanwhile
                facts = file.stat()
                files.add((str(file), facts.st_size, facts.st_mtime_ns))
        return frozenset(files)
