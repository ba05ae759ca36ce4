"""Artifacts of an object store: no rename, no fsync, no mmap; one put makes a whole object or none."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from storage.storage_errors import StoreUnreachable

BLOCK_BYTES = 1 << 20


class Stat(NamedTuple):
    """What a listing tells of an object."""

    name: str
    size: int
    modified: datetime


class Remote:
    """Objects by name below an fsspec URL such as `s3://bucket/prefix`; names are relative, with slashes."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def read(self, name: str, *, end: int | None = None) -> bytes:
        """The bytes of `name`, or the first `end` of them. Raises FileNotFoundError, StoreUnreachable."""
        with self._open() as (files, base):
            return cast("bytes", files.cat_file(f"{base}/{name}", end=end))

    def download(self, name: str) -> Iterator[bytes]:
        """The bytes of `name`, a block at a time. Raises FileNotFoundError, StoreUnreachable."""
        with self._open() as (files, base), files.open(f"{base}/{name}", "rb") as stream:
            source = cast("BinaryIO", stream)
            while block := source.read(BLOCK_BYTES):
                yield block

    def write(self, name: str, data: bytes) -> None:
        """Put a whole object, in place of what was there."""
        with self._open(writing=True) as (files, base):
            files.pipe_file(f"{base}/{name}", data)

    def upload(self, name: str, path: Path) -> None:
        """Put the content of the file at `path`."""
        with self._open(writing=True) as (files, base):
            files.put_file(str(path), f"{base}/{name}")

    def stat(self, name: str) -> Stat | None:
        """Size and age of `name`, or None where there is none."""
        try:
            with self._open() as (files, base):
                return _stat(name, files.info(f"{base}/{name}"))
        except FileNotFoundError:
            return None

    def find(self, prefix: str) -> Iterator[Stat]:
        """All objects whose name lies below `prefix`."""
        with self._open() as (files, base):
            found = cast("dict[str, dict[str, Any]]", files.find(f"{base}/{prefix}", detail=True))
        for path, facts in found.items():
            yield _stat(path.removeprefix("/").removeprefix(f"{base.removeprefix('/')}/"), facts)

    def move(self, name: str, to: str) -> None:
        """Rename by copy and delete; an object that is gone is no error."""
        try:
            with self._open() as (files, base):
                files.cp_file(f"{base}/{name}", f"{base}/{to}")
                files.rm_file(f"{base}/{name}")
        except FileNotFoundError:
            return

    def delete(self, name: str) -> None:
        """Remove an object; one that is gone is no error."""
        try:
            with self._open() as (files, base):
                files.rm_file(f"{base}/{name}")
        except FileNotFoundError:
            return

    @contextmanager
    def _open(self, *, writing: bool = False) -> Generator[tuple[Any, str]]:
        """The file system and the path of the root.

        Asked for at every use, because a connection of fsspec does not survive a fork; fsspec keeps one per process.
        A missing file is FileNotFoundError, except where we write: then it is the bucket that is missing.
        """
        try:
            from fsspec.core import url_to_fs

            files, base = url_to_fs(self.url, use_listings_cache=False)
            yield files, base
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
