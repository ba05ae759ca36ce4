"""Objects by name: files below a folder, or objects of an object store (no rename, fsync or mmap: a put is whole)."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from storage import files
from storage.storage_errors import StoreUnreachable

BLOCK_BYTES = 1 << 20


class Stat(NamedTuple):
    """Name, size in bytes and time of the last write of an object, as a listing tells them."""

    name: str
    size: int
    modified: datetime


class Folder:
    """Files by name below a folder; names are relative, with slashes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)

    def read(self, name: str, *, end: int | None = None) -> bytes:
        """The bytes of `name`, or the first `end` of them. Raises FileNotFoundError, StoreUnreachable."""
        with files.reachable(self.root), open(f"{self.root}/{name}", "rb") as file:  # noqa: PTH123 thousands per run
            return file.read(end)

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file, in place of what was there; a power cut may undo that."""
        files.write(self.root / name, data, durable=False)

    def stat(self, name: str) -> Stat | None:
        """Size and age of `name`, or None where there is none."""
        try:
            with files.reachable(self.root):
                facts = (self.root / name).stat()
        except FileNotFoundError:
            return None
        return Stat(name, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))

    def find(self, prefix: str) -> Iterator[Stat]:
        """All finished files below `prefix`."""
        for above, _, names in os.walk(self.root / prefix):
            for name in names:
                path = Path(above, name).relative_to(self.root).as_posix()
                if not name.startswith(files.TEMPORARY) and (found := self.stat(path)):
                    yield found

    def move(self, name: str, to: str) -> None:
        """Rename; a file that is gone is no error."""
        files.make_folder((self.root / to).parent)
        with files.reachable(self.root), suppress(FileNotFoundError):
            (self.root / name).replace(self.root / to)

    def delete(self, name: str) -> None:
        """Remove a file; one that is gone is no error."""
        with files.reachable(self.root):
            (self.root / name).unlink(missing_ok=True)


class Remote:
    """Objects by name below an fsspec URL such as `s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def read(self, name: str, *, end: int | None = None) -> bytes:
        """The bytes of `name`, or the first `end` of them. Raises FileNotFoundError, StoreUnreachable."""
        with self._open() as (system, base):
            return cast("bytes", system.cat_file(f"{base}/{name}", end=end))

    def download(self, name: str) -> Iterator[bytes]:
        """The bytes of `name`, a block at a time. Raises FileNotFoundError, StoreUnreachable."""
        with self._open() as (system, base), system.open(f"{base}/{name}", "rb") as stream:
            source = cast("BinaryIO", stream)
            while block := source.read(BLOCK_BYTES):
                yield block

    def write(self, name: str, data: bytes) -> None:
        """Put a whole object, in place of what was there."""
        with self._open(writing=True) as (system, base):
            system.pipe_file(f"{base}/{name}", data)

    def upload(self, name: str, path: Path) -> None:
        """Put the content of the file at `path`."""
        with self._open(writing=True) as (system, base):
            system.put_file(str(path), f"{base}/{name}")

    def stat(self, name: str) -> Stat | None:
        """Size and age of `name`, or None where there is none."""
        try:
            with self._open() as (system, base):
                return _stat(name, system.info(f"{base}/{name}"))
        except FileNotFoundError:
            return None

    def find(self, prefix: str) -> Iterator[Stat]:
        """All objects whose name lies below `prefix`."""
        with self._open() as (system, base):
            found = cast("dict[str, dict[str, Any]]", system.find(f"{base}/{prefix}", detail=True))
        for path, facts in found.items():
            yield _stat(path.removeprefix("/").removeprefix(f"{base.removeprefix('/')}/"), facts)

    def move(self, name: str, to: str) -> None:
        """Rename by copy and delete; an object that is gone is no error."""
        with suppress(FileNotFoundError), self._open() as (system, base):
            system.cp_file(f"{base}/{name}", f"{base}/{to}")
            system.rm_file(f"{base}/{name}")

    def delete(self, name: str) -> None:
        """Remove an object; one that is gone is no error."""
        with suppress(FileNotFoundError), self._open() as (system, base):
            system.rm_file(f"{base}/{name}")

    @contextmanager
    def _open(self, *, writing: bool = False) -> Generator[tuple[Any, str]]:
        """The file system and the path of the root.

        Asked for at every use, because a connection of fsspec does not survive a fork; fsspec keeps one per process.
        A missing file is FileNotFoundError, except where we write: then it is the bucket that is missing.
        """
        try:
            from fsspec.core import url_to_fs

            system, base = url_to_fs(self.url, use_listings_cache=False)
            yield system, base
        except FileNotFoundError as error:
            if not writing:
                raise
            raise StoreUnreachable(f"{self.url} does not exist ({error}); create the bucket, then run again") from error
        except ImportError as error:
            raise StoreUnreachable(f"{self.url} needs a driver ({error}); for S3: pip install 'trivet[s3]'") from error
        except Exception as error:  # every driver of fsspec brings its own family of exceptions
            raise StoreUnreachable(
                f"{self.url} cannot be used ({type(error).__name__}: {error}); "
                "check the address, the credentials and the network, then run again"
            ) from error


def _stat(name: str, facts: dict[str, Any]) -> Stat:
    """fsspec leaves the name of the time to each driver."""
    modified = next((facts[field] for field in ("LastModified", "mtime", "created") if facts.get(field)), None)
    if isinstance(modified, int | float):
        modified = datetime.fromtimestamp(modified, UTC)
    if not isinstance(modified, datetime):
        modified = datetime.now(UTC)  # no date: never old enough to be removed
    if modified.tzinfo is None:
        modified = modified.replace(tzinfo=UTC)
    return Stat(name, int(facts.get("size") or 0), modified)
