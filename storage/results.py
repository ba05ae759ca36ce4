"""The records of finished steps: small JSON objects by key, in the store that holds the artifacts they name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from storage.artifacts import FRESH, Artifacts
from storage.stores import Folder, Remote, Stat

FOLDER = "results"


class Results:
    """Records by name, below `results/` of a folder or of a remote store. Every method raises StoreUnreachable."""

    def __init__(self, store: Folder | Remote) -> None:
        self._store = store

    @classmethod
    def beside(cls, store: Artifacts, home: Path) -> Results:
        """Those of a store: in the home while the store is there too, else in the store, for all who share it."""
        return cls(store.remote or Folder(home if store.root == home / "store" else store.root))

    @property
    def folder(self) -> Path | None:
        """Where they are on this machine; None in a remote store."""
        return self._store.root / FOLDER if isinstance(self._store, Folder) else None

    def read(self, name: str) -> bytes | None:
        """The bytes of a record, or None where there is none of this name."""
        try:
            return self._store.read(f"{FOLDER}/{name}")
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep a record; an older one of the name is replaced in one step."""
        self._store.write(f"{FOLDER}/{name}", content)

    def renew(self, name: str, content: bytes) -> None:
        """Note that a record has served: `trivet gc` removes those that serve nobody any more."""
        found = self._store.stat(f"{FOLDER}/{name}")
        if found is None or found.modified < datetime.now(UTC) - FRESH:
            self.write(name, content)

    def remove(self, name: str, *, before: datetime | None = None) -> bool:
        """Forget a record, unless it was written or has served since `before`; True when it is gone."""
        if before and (found := self._store.stat(f"{FOLDER}/{name}")) and found.modified >= before:
            return False
        self._store.delete(f"{FOLDER}/{name}")
        return True

    def listed(self) -> Iterator[Stat]:
        """Every record, with its size and when it was written or has last served (to the day)."""
        for found in self._store.find(FOLDER):
            yield found._replace(name=found.name.removeprefix(f"{FOLDER}/"))
