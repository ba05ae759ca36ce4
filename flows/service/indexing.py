"""The index of a folder kept up to date by its server: runs one after the other, each in a process of its own.

upload, removal, a changed file ─► start() ─► flows.cli.index_command ─► index_status.json ─► state() ─► pages
A run that somebody else has begun on the same index is waited for.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from flows.running.watching import changes
from storage.storage_errors import StorageError
from tasks.rag.indexing.index_report import IndexStatus, StageProgress, read_status

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-c", "from flows.cli.index_command import build_as_told; build_as_told()")
DONE = (0, 3)
"""Exit codes of a build that has published a generation; 3: some documents could not be read."""
LOOK_S = 0.5
"""Seconds between two looks at a run of somebody else."""
LEAVE_S = 10.0
"""Seconds that a run has to end in order when the server does."""

Look = frozenset[tuple[str, int, int]]
"""Path, size in bytes and time of change in ns of each file."""


class IndexingState(NamedTuple):
    """What the runs of an index are at."""

    running: bool
    step: str
    """Step of the flow that runs; empty while its process starts."""
    progress: StageProgress
    """Of that step; zeros where it has told nothing."""
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
        self._thread: Thread | None = None
        self._child: subprocess.Popen[str] | None = None
        self._stop = Event()
        self._seen: Look = frozenset()
        self._failure = ""
        self._ended = 0

    def watch(self) -> None:
        """Index the folder now unless it is empty, and whenever its files have changed and are still."""
        Thread(target=self._watch, daemon=True, name="watching").start()

    def start(self, again: Collection[str] = ()) -> None:
        """Have a run begin; one that is under way is followed by another. again: names of documents to read again."""
        with self._lock:
            self._wanted = (self._wanted or set()) | set(again)
            if self._thread is None and not self._stop.is_set():
                self._thread = Thread(target=self._run, daemon=True, name="indexing")
                self._thread.start()

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
        """What runs now, and how the last run ended."""
        status = self.status()
        told = status is not None and status.state == "running"
        step = status.step if status and told else ""
        progress = status.progress.get(step, StageProgress()) if status and told else StageProgress()
        with self._lock:
            ours = self._thread is not None
            before = status.error or "" if status and not self._ended else self._failure
            return IndexingState(ours or told, step, progress, "" if ours else before, self._ended)

    def status(self) -> IndexStatus | None:
        """The status file of the index; None where there is none that can be read."""
        try:
            return read_status(self.index)
        except StorageError:
            return None

    def _watch(self) -> None:
        try:
            for _ in changes(self.documents, apart_from=self.index, stop=self._stop):
                if look_at(self.documents, apart_from=self.index) != self._seen:
                    self.start()
        except Exception:
            log.exception("the folder %s is no longer watched", self.documents)

    def _run(self) -> None:
        while (again := self._taken()) is not None:
            self._wait_for_others()
            self._seen = look_at(self.documents, apart_from=self.index)
            failure = self._build(again)
            with self._lock:
                self._failure, self._ended = failure, self._ended + 1

    def _taken(self) -> set[str] | None:
        """What the next run is to read again; None where none is wanted, and the thread ends."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
            if wanted is None or self._stop.is_set():
                self._thread = None
                return None
            return wanted

    def _wait_for_others(self) -> None:
        while (status := self.status()) and status.state == "running" and not self._stop.is_set():
            time.sleep(LOOK_S)

    def _build(self, again: Collection[str]) -> str:
        """Run the flow to its end; what went wrong, empty where nothing did."""
        child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        with self._lock:
            self._child = child
        _, said = child.communicate(json.dumps(self._parameters(again)))
        log.info("indexed index=%s exit=%s", self.index, child.returncode)
        if child.returncode in DONE:
            return ""
        _, _, sentence = said.rpartition("error: ")
        return sentence.strip() or f"the run ended with exit code {child.returncode} and said nothing"

    def _parameters(self, again: Collection[str]) -> dict[str, Any]:
        """Those of the last build, so that nothing is made anew; the defaults where there was none."""
        status = self.status()
        before = status.parameters if status else {}
        own = {"documents": str(self.documents), "index": str(self.index), "again": sorted(again)}
        return {**before, **own}


def look_at(folder: Path, *, apart_from: Path) -> Look:
    """What changes with the files below a folder."""
    seen: set[tuple[str, int, int]] = set()
    for file in files_below(folder, apart_from=apart_from):
        with suppress(OSError):  # gone meanwhile
            facts = file.stat()
            seen.add((str(file), facts.st_size, facts.st_mtime_ns))
    return frozenset(seen)


def files_below(folder: Path, *, apart_from: Path) -> Iterator[Path]:
    """The files below a folder, hidden ones and those of the index left out."""
    own = apart_from.resolve()
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = [name for name in folders if not name.startswith(".") and (here / name).resolve() != own]
        yield from (here / name for name in names if not name.startswith("."))
