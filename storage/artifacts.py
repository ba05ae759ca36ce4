"""Content-addressed store of what steps make: written once under its own SHA-256, verified whenever it is read.

And the records of finished steps: small JSON objects by key, in the store that holds the artifacts they name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from pydantic import BaseModel

from storage import files
from storage.records import Ref
from storage.storage_errors import DamagedArtifact, MissingArtifact, StoreUnreachable

BLOCK_BYTES = 1 << 20


class Stat(NamedTuple):
    """Name, size in bytes and time of the last write of an object, as a listing tells them."""

    name: str
    size: int
    modified: datetime


class Folder:
    """Files by name below a folder; names are relative, with slashes. Methods raise StoreUnreachable."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)

    def read(self, name: str, *, end: int | None = None) -> bytes:
        """Return the bytes of `name`, or the first `end` of them. Raises FileNotFoundError, StoreUnreachable."""
        with files.reachable(self.root), open(f"{self.root}/{name}", "rb") as file:  # noqa: PTH123 thousands per run
            return file.read(end)

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file, in place of what was there; a power cut may undo that."""
        files.write(self.root / name, data, durable=False)

    def stat(self, name: str) -> Stat | None:
        """Return the size and age of `name`, or None where there is none."""
        try:
            with files.reachable(self.root):
                status = (self.root / name).stat()
        except FileNotFoundError:
            return None
        return Stat(name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def find(self, prefix: str) -> Iterator[Stat]:
        """Yield name, size and time of every finished file below `prefix`, in no order; none where that is missing."""
        for above, _, names in os.walk(self.root / prefix):
            for name in names:
                path = Path(above, name).relative_to(self.root).as_posix()
                entry = None if name.startswith(files.TEMPORARY) else self.stat(path)
                if entry:  # else unfinished, or gone since it was listed
                    yield entry

    def move(self, name: str, to: str) -> None:
        """Rename a file; one that is gone is no error."""
        files.make_folder((self.root / to).parent)
        with files.reachable(self.root), suppress(FileNotFoundError):
            (self.root / name).replace(self.root / to)

    def delete(self, name: str) -> None:
        """Remove a file; one that is gone is no error."""
        with files.reachable(self.root):
            (self.root / name).unlink(missing_ok=True)


class Remote:
    """Objects by name below an fsspec URL such as `s3://bucket/prefix`. Methods raise StoreUnreachable."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def read(self, name: str, *, end: int | None = None) -> bytes:
        """Return the bytes of `name`, or the first `end` of them. Raises FileNotFoundError, StoreUnreachable."""
        with self._open() as (system, base):
            return cast("bytes", system.cat_file(f"{base}/{name}", end=end))

    def download(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of `name`, a block at a time. Raises FileNotFoundError, StoreUnreachable."""
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
        """Return the size and age of `name`, or None where there is none."""
        try:
            with self._open() as (system, base):
                return _stat(name, system.info(f"{base}/{name}"))
        except FileNotFoundError:
            return None

    def find(self, prefix: str) -> Iterator[Stat]:
        """Yield name, size and time of every object whose name lies below `prefix`, in no order."""
        with self._open() as (system, base):
            listing = cast("dict[str, dict[str, Any]]", system.find(f"{base}/{prefix}", detail=True))
        for path, facts in listing.items():
            yield _stat(path.removeprefix("/").removeprefix(f"{base.removeprefix('/')}/"), facts)

    def move(self, name: str, to: str) -> None:
        """Rename an object by copy and delete; one that is gone is no error."""
        with suppress(FileNotFoundError), self._open() as (system, base):
            system.cp_file(f"{base}/{name}", f"{base}/{to}")
            system.rm_file(f"{base}/{name}")

    def delete(self, name: str) -> None:
        """Remove an object; one that is gone is no error."""
        with suppress(FileNotFoundError), self._open() as (system, base):
            system.rm_file(f"{base}/{name}")

    @contextmanager
    def _open(self, *, writing: bool = False) -> Generator[tuple[Any, str]]:
        """Yield the file system and the path of the root. Raises StoreUnreachable.

        Asked for at every use, because a connection of fsspec does not survive a fork; fsspec keeps one per process.
        A missing file is FileNotFoundError, except where we write: then it is the bucket that is missing.
        """
        try:
            from fsspec.core import url_to_fs

            system, base = url_to_fs(self.url, use_listings_cache=False)  # others write to the store too
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
    """Return a listing's entry, dated now where the driver says no time; fsspec leaves its name to each driver."""
    modified = next((facts[field] for field in ("LastModified", "mtime", "created") if facts.get(field)), None)
    if isinstance(modified, int | float):
        modified = datetime.fromtimestamp(modified, UTC)
    if not isinstance(modified, datetime):
        modified = datetime.now(UTC)  # no date: never old enough to be removed
    if modified.tzinfo is None:
        modified = modified.replace(tzinfo=UTC)
    return Stat(name, int(facts.get("size") or 0), modified)


Model = TypeVar("Model", bound=BaseModel)

FRESH = timedelta(days=1)
"""A remote object put again within this time is left alone; an older one is renewed: `gc` must not see it as old."""
RESULTS = "results"
"""Folder, below a home or a store, that holds the records of steps."""
KEY = re.compile(r"[0-9a-f]{64}")


class Artifact(NamedTuple):
    """An object of the store, as a listing shows it."""

    ref: Ref
    modified: datetime


class Artifacts:
    """Objects by digest, and keys that remember which object a finished piece of work gave.

    Layout below the root: `objects/{kind}/{digest[:2]}/{digest}`, `keys/{key[:2]}/{key}`, `damaged/{kind}-{digest}`.
    With a remote store the same layout lies there, and `root` is a cache of its objects.
    """

    def __init__(self, root: Path, *, remote: Remote | None = None) -> None:
        self.root = root
        self.remote = remote
        self._cache = Folder(root)
        self._store = remote or self._cache
        self.place = self._store.url
        # digest → inode and time of change (ctime, which nobody can set back): what nobody touched is hashed once
        self._verified: dict[str, tuple[int, int]] = {}

    @classmethod
    def open(cls, where: str | Path, *, cache: Path) -> Artifacts:
        """Return the store in a local folder, or at an fsspec URL, whose objects are kept below `cache` too."""
        if isinstance(where, Path) or "://" not in where or where.startswith("file://"):
            return cls(Path(str(where).removeprefix("file://")))
        # one cache per store: what one holds says nothing about another
        return cls(cache / hashlib.sha256(where.encode()).hexdigest()[:16], remote=Remote(where))

    def put(self, kind: str, data: bytes) -> Ref:
        """Store `data`; storing the same bytes again only renews the object's date. Raises StoreUnreachable."""
        ref = Ref.of(kind, data)
        if not self._renew(ref):
            files.write(self._path(ref), data)
        self._upload(ref)
        return ref

    def put_file(self, kind: str, path: Path) -> Ref:
        """Store a copy of the file at `path`, in blocks, as `put` does. Raises StoreUnreachable, FileNotFoundError."""
        with path.open("rb") as source, files.scratch(self.root / "objects") as copy:  # a rename puts it in place
            digest = hashlib.sha256()
            with copy.open("xb") as target:
                while block := source.read(BLOCK_BYTES):
                    digest.update(block)
                    target.write(block)
            ref = Ref(kind=kind, digest=digest.hexdigest(), size=copy.stat().st_size)
            if not self._renew(ref):
                files.settle(copy, self._path(ref))
        self._upload(ref)
        return ref

    def get(self, ref: Ref) -> bytes:
        """Return the bytes of `ref`, verified. Raises MissingArtifact, DamagedArtifact, StoreUnreachable."""
        if self.remote:
            self._ensure(ref)
        with self._reading(ref), open(self._object(ref), "rb") as file:  # noqa: PTH123 thousands of times per run
            data = file.read()
        if hashlib.sha256(data).hexdigest() != ref.digest:
            raise self._set_aside(ref)
        return data

    def path(self, ref: Ref) -> Path:
        """Return a local file with the content of `ref`, verified; do not write to it. Raises as `get` does."""
        self._ensure(ref)
        return self._path(ref)

    def find(self, kind: str, digest: str) -> Path | None:
        """Return the verified local file of an object; None for a missing or damaged one. Raises StoreUnreachable."""
        ref = Ref(kind=kind, digest=digest, size=0)
        entry = self._store.stat(_name(ref)) or self._cache.stat(_name(ref))
        if not entry:
            return None
        try:
            return self.path(ref.model_copy(update={"size": entry.size}))
        except (MissingArtifact, DamagedArtifact):
            return None

    def verify(self, ref: Ref) -> bool:
        """Return whether the artifact is there and whole; a damaged one is set aside. Raises StoreUnreachable."""
        if self.remote and self._remote_stat(ref) is None:
            return False
        try:
            self._ensure(ref)
        except (MissingArtifact, DamagedArtifact):
            return False
        return True

    def save(self, kind: str, value: BaseModel) -> Ref:
        """Store a pydantic value as JSON; equal values have one Ref. Raises StoreUnreachable."""
        return self.put(kind, value.model_dump_json().encode())

    def load(self, model: type[Model], ref: Ref) -> Model:
        """Return the verified pydantic value of `ref`. Raises as `get` does, ValidationError for another model."""
        return model.model_validate_json(self.get(ref))

    def remember(self, key: str, ref: Ref) -> None:
        """Note that the work named by `key` (SHA-256 hex of inputs and version) gave `ref`; else ValueError."""
        self._store.write(_key_name(key), ref.model_dump_json().encode())  # a lost note costs doing the work again

    def forget(self, key: str) -> None:
        """Take back what `remember` noted for `key`; the artifact stays."""
        self._store.delete(_key_name(key))

    def recall(self, key: str) -> Ref | None:
        """Return the Ref that `remember` noted for `key`, if the artifact still exists and verifies; else None."""
        ref = self._read_note(_key_name(key))
        return ref if ref and self.verify(ref) else None

    def notes(self) -> Iterator[tuple[str, Ref]]:
        """Yield keys with what `remember` noted, in no order, even for artifacts that are gone; no damaged notes."""
        for entry in self._store.find("keys"):
            if ref := self._read_note(entry.name):
                yield entry.name.rpartition("/")[2], ref

    def _read_note(self, name: str) -> Ref | None:
        try:
            return Ref.model_validate_json(self._store.read(name))
        except (FileNotFoundError, ValueError):  # ValueError: a damaged note is no note
            return None

    def objects(self) -> Iterator[Artifact]:
        """Yield every object of the store, damaged or not, in no order. Raises StoreUnreachable."""
        for entry in self._store.find("objects"):
            _, kind, _, digest = entry.name.split("/")
            yield Artifact(Ref(kind=kind, digest=digest, size=entry.size), entry.modified)

    def starts_with(self, ref: Ref, characters: tuple[bytes, ...]) -> bool:
        """Return whether the first byte is one of these; not verified. Raises MissingArtifact, StoreUnreachable."""
        with self._reading(ref):
            return self._store.read(_name(ref), end=1) in characters

    def remove(self, ref: Ref, *, before: datetime) -> bool:
        """Remove an object unless it was put, or put again, since `before`; return whether there is none now."""
        entry = self._store.stat(_name(ref))
        if entry and entry.modified >= before:
            return False
        self._store.delete(_name(ref))
        self._cache.delete(_name(ref))
        return True

    def _ensure(self, ref: Ref) -> None:
        """Make sure that a whole copy lies below the root, from the remote store if need be. Raises as `get` does."""
        verified = self._verified.get(ref.digest)
        if verified is not None:
            with suppress(OSError):  # said below, with a remedy
                status = os.stat(self._object(ref))  # noqa: PTH116 as in get
                if (status.st_ino, status.st_ctime_ns) == verified and status.st_size == ref.size:
                    return
        try:
            with self._reading(ref), open(self._object(ref), "rb") as file:  # noqa: PTH123 as in get
                status = os.fstat(file.fileno())
                is_whole = status.st_size == ref.size
                if is_whole and hashlib.file_digest(file, "sha256").hexdigest() == ref.digest:
                    self._verified[ref.digest] = (status.st_ino, status.st_ctime_ns)
                    return
        except MissingArtifact:
            if not self.remote:
                raise
        if not self.remote:
            raise self._set_aside(ref)
        digest = hashlib.sha256()
        with self._reading(ref), files.replacing(self._path(ref)) as copy:
            for block in self.remote.download(_name(ref)):
                digest.update(block)
                copy.write(block)
            if digest.hexdigest() != ref.digest:
                raise self._set_aside(ref)

    def _upload(self, ref: Ref) -> None:
        """Copy an object to the remote store, if there is one and holds no copy younger than FRESH."""
        if not self.remote:
            return
        entry = self._remote_stat(ref)
        if entry is None or entry.modified < datetime.now(UTC) - FRESH:
            self.remote.upload(_name(ref), self._path(ref))

    def _remote_stat(self, ref: Ref) -> Stat | None:
        """Return the remote object; None where it is missing or has another size."""
        assert self.remote
        entry = self.remote.stat(_name(ref))
        return entry if entry and entry.size == ref.size else None

    def _renew(self, ref: Ref) -> bool:
        """Return whether the object lies below the root in its size; it is then dated today, so that `gc` spares it."""
        try:
            if os.stat(self._object(ref)).st_size != ref.size:  # noqa: PTH116 as in get
                return False
        except OSError:
            return False
        with suppress(PermissionError):  # another account's object: it stays as old as it is
            os.utime(self._object(ref))
        return True

    def _set_aside(self, ref: Ref) -> DamagedArtifact:
        """Move a damaged object out of the way, so that the next run makes it anew; return the error to raise."""
        self._store.move(_name(ref), f"damaged/{ref.kind}-{ref.digest}")
        return DamagedArtifact(
            f"{ref.kind} {ref.digest[:12]} in {self.place} is damaged; it now lies in `damaged`, so run the flow again"
        )

    @contextmanager
    def _reading(self, ref: Ref) -> Generator[None]:
        """Turn a missing file inside the block into MissingArtifact, and other system errors into StoreUnreachable."""
        try:
            with files.reachable(self.root):
                yield
        except FileNotFoundError as error:
            raise MissingArtifact(f"{ref.kind} {ref.digest[:12]} is not in {self.place}; run the flow again") from error

    def _object(self, ref: Ref) -> str:
        return f"{self.root}/{_name(ref)}"

    def _path(self, ref: Ref) -> Path:
        return self.root / _name(ref)


class Results:
    """Records by name, below `results/` of a folder or of a remote store. Every method raises StoreUnreachable."""

    def __init__(self, store: Folder | Remote) -> None:
        self._store = store

    @classmethod
    def of_store(cls, store: Artifacts, home: Path) -> Results:
        """Open the records that belong to a store: in the home where the store lies in it too, else in the store."""
        return cls(store.remote or Folder(home if store.root == home / "store" else store.root))

    @property
    def folder(self) -> Path | None:
        """The folder of the records on this machine; None where they lie in a remote store."""
        return self._store.root / RESULTS if isinstance(self._store, Folder) else None

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a record, or None where there is none of this name."""
        try:
            return self._store.read(f"{RESULTS}/{name}")
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep a record; an older one of the name is replaced in one step."""
        self._store.write(f"{RESULTS}/{name}", content)

    def renew(self, name: str, content: bytes) -> None:
        """Write a record, since it has served, unless it is younger than FRESH: `trivet gc` removes idle ones."""
        entry = self._store.stat(f"{RESULTS}/{name}")
        if entry is None or entry.modified < datetime.now(UTC) - FRESH:
            self.write(name, content)

    def remove(self, name: str, *, before: datetime | None = None) -> bool:
        """Forget a record, unless it was written or has served since `before`; return whether there is none now."""
        entry = self._store.stat(f"{RESULTS}/{name}") if before else None
        if before and entry and entry.modified >= before:
            return False
        self._store.delete(f"{RESULTS}/{name}")
        return True

    def records(self) -> Iterator[Stat]:
        """Yield every record, in no order, with its size and when it was written or has last served (to the day)."""
        for entry in self._store.find(RESULTS):
            yield entry._replace(name=entry.name.removeprefix(f"{RESULTS}/"))


def _name(ref: Ref) -> str:
    return f"objects/{ref.kind}/{ref.digest[:2]}/{ref.digest}"


def _key_name(key: str) -> str:
    if not KEY.fullmatch(key):
        raise ValueError(f"a key is 64 hex digits, not {key[:80]!r}; hash the inputs of the work")
    return f"keys/{key[:2]}/{key}"
