"""`index_status.json`: what an index is doing and what it holds, readable while it is built."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from storage.files import write
from storage.records import Record
from storage.storage_errors import NotAnIndex
from tasks.rag.corpus import PageTrouble

HEARTBEAT_S = 5.0
"""Seconds between two heartbeats of a running build."""
STATUS_FILE = "index_status.json"


class DocumentStatus(Record):
    """What became of one document."""

    document: str
    """Path below the folder, NFC."""
    status: Literal["ok", "unchanged", "renamed", "failed", "duplicate"]
    digest: str | None = None
    format: str | None = None
    reader: str | None = None
    pages: int = 0
    chunks: int = 0
    troubled_pages: tuple[PageTrouble, ...] = ()
    """Pages that are not plainly readable; the others are ok."""
    notes: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None


class LengthStatistics(Record):
    """Characters per chunk."""

    min: int
    mean: float
    max: int


class IndexStatus(Record):
    """The whole of `index_status.json`; times are UTC."""

    state: Literal["running", "completed", "completed_with_failures", "failed", "interrupted"]
    step: str
    """The step that runs, or ran last."""
    pid: int
    host: str
    started: datetime
    heartbeat: datetime
    ended: datetime | None = None
    generation: str | None = None
    """What readers see; during a build the generation before it."""
    run: str | None = None
    """Prefect flow run."""
    counts: dict[str, Any] = Field(default_factory=dict[str, Any])
    chunk_chars: LengthStatistics | None = None
    documents: tuple[DocumentStatus, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None


def read_status(index: Path) -> IndexStatus | None:
    """The status of an index, None where there is none; a build whose process is gone shows as `interrupted`.

    Raises NotAnIndex for a file of that name that is not ours.
    """
    try:
        status = IndexStatus.model_validate_json((index / STATUS_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise NotAnIndex(f"{index / STATUS_FILE} is not of this program or version; run `trivet rag index`") from error
    if status.state == "running" and status.host == socket.gethostname() and not _alive(status.pid):
        return status.model_copy(update={"state": "interrupted"})
    return status


class StatusFile:
    """Keeps `index_status.json` of a running build true."""

    def __init__(self, index: Path, *, generation: str | None, run: str | None) -> None:
        now = datetime.now(UTC)
        self._path = index / STATUS_FILE
        self._lock = threading.Lock()
        self.status = IndexStatus(
            state="running",
            step="scan",
            pid=os.getpid(),
            host=socket.gethostname(),
            started=now,
            heartbeat=now,
            generation=generation,
            run=run,
        )

    def update(self, **changes: Any) -> None:
        """Change fields and write the file."""
        with self._lock:
            self.status = self.status.model_copy(update={"heartbeat": datetime.now(UTC), **changes})
            write(self._path, self.status.model_dump_json(indent=1).encode(), durable=False)


@contextmanager
def status_of_build(index: Path, *, generation: str | None, run: str | None) -> Generator[StatusFile]:
    """Write the status from the start to the end of a build, whatever that end is."""
    file = StatusFile(index, generation=generation, run=run)
    ended = threading.Event()
    beat = threading.Thread(target=_beat, args=(file, ended), name="index-heartbeat", daemon=True)
    try:
        file.update()
        beat.start()
        yield file
        file.update(ended=datetime.now(UTC))
    except BaseException as error:
        _stop(beat, ended)
        state = "failed" if isinstance(error, Exception) else "interrupted"
        file.update(state=state, ended=datetime.now(UTC), error=f"{type(error).__name__}: {error}")
        raise
    finally:
        _stop(beat, ended)


def _stop(beat: threading.Thread, ended: threading.Event) -> None:
    ended.set()
    if beat.is_alive():
        beat.join()


def _beat(file: StatusFile, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_S):
        file.update()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
