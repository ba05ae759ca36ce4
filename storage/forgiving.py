"""The response store of a run that goes on while the database is away: answers wait in files, and none is lost."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from storage import files
from storage.responses import Responses, StoredResponse
from storage.storage_errors import DatabaseUnavailable, StoreUnreachable

log = logging.getLogger(__name__)

RETRY_S = 30.0
"""After a failure the database is left alone for so long: an address that nobody answers at takes ten seconds."""

Result = TypeVar("Result")


class Forgiving:
    """Responses, with files in `folder` for what the database does not take.

    Any number of threads and processes may share the folder. Nothing here raises because the database or the disk is
    away; `trouble` says what a person must know. As soon as the database is back, the files go into it.
    """

    def __init__(self, responses: Responses, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._responses = responses
        self._unsaved = Unsaved(folder)
        self._clock = clock
        self._away_until: float | None = None
        self._reason = "from an earlier run"
        self._blind = 0
        self._lost = ""
        self._guard = threading.Lock()
        self._storing = threading.Lock()

    @property
    def trouble(self) -> str | None:
        """A sentence or two where answers are not in the database yet, or could not be looked up; else None."""
        said = [self._lost] if self._lost else []
        if count := len(self._unsaved):
            said.append(
                f"{count} answers are kept in {self._unsaved.folder} and not in the database ({self._reason}); "
                "the next run stores them, and so does `trivet eval import`."
            )
        if self._blind:
            said.append(
                f"The database was away ({self._reason}): {self._blind} requests could not be looked up in it and were "
                "taken for new ones."
            )
        return " ".join(said) or None

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        """The answers that are there, by key; while the database is away, those of the files."""
        wanted = list(keys)
        found = self._try(lambda: self._responses.many(wanted))
        waiting = self._unsaved.many(wanted)
        if found is None:
            with self._guard:
                self._blind += len(wanted) - len(waiting)
        return waiting | (found or {})

    def note_failure(self, model: str, error: str) -> None:
        """Count a request that failed, unless the database is away."""
        self._try(lambda: self._responses.note_failure(model, error))

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        """Store answers durably, in the database or else in a file of their own."""
        if self._try(lambda: self._responses.put_many(rows) or True):
            return
        try:
            self._unsaved.add(rows)
        except StoreUnreachable as error:
            with self._guard:
                self._lost = f"Some answers could be stored nowhere: {error}."
            log.warning("answers not stored count=%d error=%s", len(rows), error)

    def store_unsaved(self) -> int:
        """Bring the files into the database; how many answers they held. Raises DatabaseUnavailable."""
        return sum(self._store(path, rows) for path, rows in self._unsaved.all())

    def _store(self, path: Path, rows: Mapping[str, StoredResponse]) -> int:
        self._responses.put_many(rows)
        self._unsaved.remove(path)
        return len(rows)

    def _try(self, work: Callable[[], Result]) -> Result | None:
        """What `work` gets from the database; None while it is away."""
        if self._away_until is not None and self._clock() < self._away_until:
            return None
        try:
            self._store_waiting()
            result = work()
        except DatabaseUnavailable as error:
            if self._away_until is None:
                log.warning("database away, answers go to files folder=%s error=%s", self._unsaved.folder, error)
            self._away_until = self._clock() + RETRY_S
            self._reason = str(error).rstrip(".")
            return None
        self._away_until = None
        return result

    def _store_waiting(self) -> None:
        """Bring the files into the database; one thread does, and the others go on."""
        if len(self._unsaved) and self._storing.acquire(blocking=False):
            try:
                stored = self.store_unsaved()
            finally:
                self._storing.release()
            log.info("answers of files stored in the database count=%d", stored)


class Unsaved:
    """Answers in a folder, each group in a file of its own, which is there as a whole or not at all.

    Another run may bring a file into the database and remove it at any time: its answers are found there then.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = threading.Lock()
        self._paths = {key: path for path, rows in self.all() for key in rows}

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, rows: Mapping[str, StoredResponse]) -> None:
        """Write a file, which a power cut does not undo. Raises StoreUnreachable."""
        path = self.folder / f"{uuid.uuid4().hex}.jsonl"
        files.write(path, b"".join(_line(key, response) for key, response in rows.items()))
        with self._guard:
            self._paths |= dict.fromkeys(rows, path)

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        """The answers of these keys that are in files, by key; others are left out."""
        with self._guard:
            wanted = {key: path for key in keys if (path := self._paths.get(key))}
        found = {key: row for path in set(wanted.values()) for key, row in _rows(path).items()}
        return {key: found[key] for key in wanted if key in found}

    def all(self) -> Iterator[tuple[Path, dict[str, StoredResponse]]]:
        """Each file with its answers by key; none for a file that another run has just removed."""
        for path in sorted(self.folder.glob("*.jsonl")):
            yield path, _rows(path)

    def remove(self, path: Path) -> None:
        """Remove a file whose answers are stored elsewhere; one that is gone already is no error."""
        path.unlink(missing_ok=True)
        with self._guard:
            self._paths = {key: other for key, other in self._paths.items() if other != path}


def _line(key: str, response: StoredResponse) -> bytes:
    row = {"key": key, **response.model_dump(mode="json", exclude={"created_at"})}
    return json.dumps(row).encode() + b"\n"  # ASCII: a lone surrogate has no other form


def _rows(path: Path) -> dict[str, StoredResponse]:
    """The answers of a file; none where another run has just stored and removed it."""
    try:
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return {}
    return {row.pop("key"): StoredResponse.model_validate(row) for row in rows}
