"""The records of finished steps: small JSON objects by key, in the store that holds the artifacts they name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from storage import files
from storage.artifacts import FRESH, Artifacts
from storage.remote import Remote, Stat

FOLDER = "results"


class Results:
    """Records by name, in a folder or below `results/` of a remote store."""

    def __init__(self, where: Path | Remote) -> None:
        self._where = where

    @classmethod
    def beside(cls, store: Artifacts, home: Path) -> Results:
        """Those of a store: in the home while the store is there too, else in the store, for all who share it."""
        if store.remote:
            return cls(store.remote)
        return cls((home if store.root == home / "store" else store.root) / FOLDER)

    @property
    def folder(self) -> Path | None:
        """Where they are on this machine; None in a remote store."""
        return self._where if isinstance(self._where, Path) else None

    def read(self, name: str) -> bytes | None:
        """A record, or None where there is none of this name. Raises StoreUnreachable."""
        try:
            if isinstance(self._where, Remote):
                return self._where.read(f"{FOLDER}/{name}")
            with files.reachable(self._where):
                return (self._where / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep a record; an older one of the name is replaced in one step. Raises StoreUnreachable."""
        if isinstance(self._where, Remote):
            self._where.write(f"{FOLDER}/{name}", content)
        else:
            files.write(self._where / name, content, durable=False)  # a lost record costs doing the step again

    def renew(self, name: str, content: bytes) -> None:
        """Note that a record has served: `trivet gc` removes those that serve nobody any more."""
        found = self._stat(name)
        if found is None or found.modified < datetime.now(UTC) - FRESH:
            self.write(name, content)

    def remove(self, name: str, *, before: datetime | None = None) -> bool:
        """Forget a record, unless it was written or has served since `before`; True when it is gone."""
        if before and (found := self._stat(name)) and found.modified >= before:
            return False
        if isinstance(self._where, Remote):
            self._where.delete(f"{FOLDER}/{name}")
        else:
            with files.reachable(self._where), suppress(FileNotFoundError):
                (self._where / name).unlink()
        return True

    def listed(self) -> Iterator[Stat]:
        """Every record, with its size and when it was written or has last served (to the day)."""
        if isinstance(self._where, Remote):
            for found in self._where.find(FOLDER):
                yield found._replace(name=found.name.removeprefix(f"{FOLDER}/"))
            return
        for above, _, names in os.walk(self._where):
            for name in names:
                path = Path(above, name).relative_to(self._where).as_posix()
                if not name.startswith(files.TEMPORARY) and (found := self._stat(path)):
                    yield found

    def _stat(self, name: str) -> Stat | None:
        if isinstance(self._where, Remote):
            return self._where.stat(f"{FOLDER}/{name}")
        try:
            facts = (self._where / name).stat()
        except FileNotFoundError:
            return None
        return Stat(name, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))
