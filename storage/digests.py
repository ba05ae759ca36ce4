"""Files that are digested while they are written, so that what the disk gives back can be compared."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Generator
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, cast

from storage.records import Record


class FileDigest(Record):
    """What a file must be."""

    sha256: str
    size: int


class DigestedFiles:
    """Writes new files below a folder and notes what each must be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written: dict[str, FileDigest] = {}

    @contextlib.contextmanager
    def create(self, name: str) -> Generator[IO[bytes]]:
        """A file to write to; on the disk when the block ends."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            digested = _Digested(file)
            yield cast("IO[bytes]", digested)
            file.flush()
            os.fsync(file.fileno())
        self.written[name] = digested.digest


class _Digested(RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._sha256.update(data)
        self._size += memoryview(data).nbytes
        return self._file.write(data)

    @property
    def digest(self) -> FileDigest:
        return FileDigest(sha256=self._sha256.hexdigest(), size=self._size)
