"""The response store of a run that goes on while the database is away: answers wait in files, and none is lost."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

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
    away; `trouble` says what a person must know. Before anything is looked up, and as soon as the database is back,
    the files go into it.
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

    def get(self, key: str) -> StoredResponse | None:
        """The answer under `key`, of the database or of the files."""
        return self.many([key]).get(key)

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        """The answers that are there, by key; while the database is away, those of the files."""
        wanted = list(keys)
        found = self._try(lambda: self._responses.many(wanted))
        waiting = self._unsaved.many(wanted)
        if found is None:
            with self._guard:
                self._blind += len(wanted) - len(waiting)
        return waiting | (found or {})

    def put(self, key: str, response: StoredResponse) -> None:
        """Store an answer at once and for good."""
        self.put_many({key: response})

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        """Store answers at once and for good, in the database or else in a file of their own."""
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


class _Place(NamedTuple):
    path: Path
    offset: int


class Unsaved:
    """Answers in a folder, each group in a file of its own, which is there as a whole or not at all.

    So another run may bring a file into the database and remove it at any time; what is not here any more is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = threading.Lock()
        self._places = {key: place for path in self._paths() for key, place in _keys(path)}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, rows: Mapping[str, StoredResponse]) -> None:
        """Write a file, which a power cut does not undo. Raises StoreUnreachable."""
        path = self.folder / f"{uuid.uuid4().hex}.jsonl"
        lines = [_line(key, response) for key, response in rows.items()]
        files.write(path, b"".join(lines))
        offset = 0
        with self._guard:
            for key, line in zip(rows, lines, strict=True):
                self._places[key] = _Place(path, offset)
                offset += len(line)

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        """The answers that are here, by key."""
        with self._guard:
            wanted = {key: place for key in keys if (place := self._places.get(key))}
        found = {key: _read(place) for key, place in wanted.items()}
        return {key: response for key, response in found.items() if response is not None}

    def all(self) -> Iterator[tuple[Path, dict[str, StoredResponse]]]:
        """All answers, file by file."""
        for path in self._paths():
            places = list(_keys(path))
            rows = {key: response for key, place in places if (response := _read(place))}
            yield path, rows

    def remove(self, path: Path) -> None:
        """Forget a file whose answers are stored elsewhere."""
        path.unlink(missing_ok=True)
        with self._guard:
            self._places = {key: place for key, place in self._places.items() if place.path != path}

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))


def _line(key: str, response: StoredResponse) -> bytes:
    row = {"key": key, **response.model_dump(mode="json", exclude={"created_at"})}
    return json.dumps(row).encode() + b"\n"  # ASCII: a lone surrogate has no other form


def _keys(path: Path) -> Iterator[tuple[str, _Place]]:
    offset = 0
    try:
        with path.open("rb") as file:
            for line in file:
                yield json.loads(line)["key"], _Place(path, offset)
                offset += len(line)
    except FileNotFoundError:
        return  # another run has just stored it


def _read(place: _Place) -> StoredResponse | None:
    try:
        with place.path.open("rb") as file:
            file.seek(place.offset)
            row = json.loads(file.readline())
    except FileNotFoundError:
        return None  # another run has stored it
    del row["key"]
    return StoredResponse.model_validate(row)
