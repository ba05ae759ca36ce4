"""An index folder: generations of which one is current; written beside it, verified, then switched to in one step.

    OUT/CURRENT                         which generation readers open
    OUT/generations/{number}-{digest}/  manifest.json  vectors.faiss  lexical/*.npy  chunks.jsonl  offsets.npy
                                        documents.npy  catalogue.json  numbers.parquet

A generation's files depend on its content alone: they hold no times and no generation numbers. A reader holds a shared
lock on its generation, a builder an exclusive one on its unfinished folder; both end with their process, so whatever is
neither locked nor current nor previous can be removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from array import array
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from storage import files
from storage.generations import (
    NUMBERS,
    CatalogueEntry,
    Fact,
    FileDigest,
    Index,
    Manifest,
    Pointer,
    catalogue_json,
    read_pointer,
)
from storage.lexical import build_postings, write_postings
from storage.numbers import write_numbers
from storage.records import Record
from storage.storage_errors import DamagedIndex, NotAnIndex
from storage.vectors import write_vectors

__all__ = ["CatalogueEntry", "Fact", "Generation", "Index", "claim", "is_current", "open_index", "publish"]

COMPANIONS = frozenset({"CURRENT", "generations", "index_status.json", "chunk_preview.json"})
"""What an index folder may hold before its first generation is there."""
OURS = re.compile(r"\d{6,}-[0-9a-f]{12}|\.building-.*")
"""Names below `generations`; nothing else is ever removed."""


class Generation(Record):
    """What `publish` gives."""

    id: str
    digest: str
    """Equal content has equal digests."""
    created: bool
    """False: the content was current already."""


class StoredChunk(Protocol):
    """What the index asks of a chunk; it is kept as one line of JSON."""

    @property
    def document(self) -> str: ...
    def model_dump_json(self) -> str: ...


def claim(out: Path) -> None:
    """Make `out` an index folder if it is empty or absent. Raises NotAnIndex, StoreUnreachable."""
    refuse_foreign(out)
    files.make_folder(out / "generations")


def publish(
    out: Path,
    *,
    chunks: Iterable[StoredChunk],
    vectors: NDArray[np.float16],
    tokens: Iterable[Sequence[str]] | None,
    catalogue: Sequence[CatalogueEntry],
    embedder: str,
    tokenizer: str | None,
    settings: dict[str, JsonValue],
    numbers: Iterable[bytes] = (),
) -> Generation:
    """Write a generation beside the current one, verify it, and make it current; content that is current stays.

    chunks, vectors, tokens: row by row the same; `tokens` and `tokenizer` are None for an index without BM25.
    numbers: rows of storage.numbers, as JSON lines.
    Raises NotAnIndex, StoreUnreachable (the old generation stays), DamagedIndex (the disk gave back other bytes),
    ValueError if rows do not match.
    """
    if (tokens is None) != (tokenizer is None):
        raise ValueError("BM25 needs both the token lists and the name of the tokenizer that made them")
    claim(out)
    with files.reachable(out), _workplace(out) as (folder, lock):
        contents = _Contents(folder)
        rows = {"chunks": contents.chunks(chunks, catalogue), "vectors": contents.vectors(vectors)}
        if tokens is not None:
            rows["tokens"] = contents.lexical(tokens)
        contents.numbers(numbers)
        if len(set(rows.values())) != 1:
            raise ValueError(f"an index needs one vector and one token list per chunk; these are {rows}")
        digest = contents.seal(
            embedder=embedder,
            dimension=vectors.shape[1],
            tokenizer=tokenizer,
            documents=len(catalogue),
            chunks=rows["chunks"],
            settings=settings,
        )
        with _locked(out / "generations"):  # where locks change, so that no sweep comes between
            fcntl.flock(lock, fcntl.LOCK_SH)  # finished: others may read it, none may remove it
        with Index(folder, digest) as written:
            written.verify()
        return _switch(out, folder, digest)


def open_index(path: Path, *, embedder: str | None = None) -> Index:
    """The current generation, pinned: a later one neither changes nor removes it.

    Cheap: sizes are compared, files are mapped when they are used; `Index.verify` reads them all.
    Raises NotAnIndex, DamagedIndex, WrongEmbedder (with `embedder`), StoreUnreachable.
    """
    with files.reachable(path):
        while True:
            pointer = read_pointer(path)
            try:
                index = Index(path / "generations" / pointer.generation, pointer.manifest)
            except DamagedIndex:
                if read_pointer(path) == pointer:
                    raise
                continue  # two switches between reading the pointer and opening: the generation is gone
            if embedder is not None:
                index.require_embedder(embedder)
            return index


def refuse_foreign(out: Path) -> None:
    """Raises NotAnIndex for a folder that holds something else, StoreUnreachable; changes nothing."""
    if out.exists() and not out.is_dir():
        raise NotAnIndex(f"{out} is a file; name a folder for the index")
    with files.reachable(out):
        if (out / "CURRENT").exists():
            read_pointer(out)
        elif strange := _strange(out):
            raise NotAnIndex(f"{out} holds {strange} and no index; name an empty or a new folder")


def _strange(out: Path) -> str | None:
    """A name in a folder without CURRENT that an index would not have left there; hidden files are nobody's."""
    generations = out / "generations"
    names = sorted(entry.name for entry in out.iterdir()) if out.exists() else []
    below = sorted(entry.name for entry in generations.iterdir()) if generations.is_dir() else []
    strange = [name for name in names if name not in COMPANIONS and not name.startswith(".")]
    strange += [f"generations/{name}" for name in below if not OURS.fullmatch(name)]
    return next(iter(strange), None)


def is_current(out: Path, digest: str) -> bool:
    """True when readers of `out` get the generation of this digest, and its files have their sizes."""
    try:
        with open_index(out) as index:
            return index.digest == digest
    except (NotAnIndex, DamagedIndex):
        return False


class _Contents:
    """Writes the content of one generation into its unfinished folder, and notes what each file must be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[str, FileDigest] = {}

    def chunks(self, chunks: Iterable[StoredChunk], catalogue: Sequence[CatalogueEntry]) -> int:
        """A line per chunk, where it starts, and which entry it belongs to; gives the number of rows."""
        place = {entry.document: at for at, entry in enumerate(catalogue)}
        documents, offsets = array("i"), array("q", [0])
        with self._create("chunks.jsonl") as file:
            for chunk in chunks:
                if chunk.document not in place:
                    raise ValueError(f"a chunk belongs to document {chunk.document[:16]}, which is not catalogued")
                line = chunk.model_dump_json().encode() + b"\n"
                file.write(line)
                documents.append(place[chunk.document])
                offsets.append(offsets[-1] + len(line))
        for name, values in (("documents", np.array(documents, np.int32)), ("offsets", np.array(offsets, np.int64))):
            with self._create(f"{name}.npy") as file:
                np.save(file, values, allow_pickle=False)
        with self._create("catalogue.json") as file:
            file.write(catalogue_json(catalogue))
        return len(documents)

    def vectors(self, vectors: NDArray[np.float16]) -> int:
        """The FAISS file; gives the number of rows."""
        with self._create("vectors.faiss") as file:
            write_vectors(file, vectors)
        return len(vectors)

    def lexical(self, tokens: Iterable[Sequence[str]]) -> int:
        """The BM25 files; gives the number of rows."""
        postings, rows = build_postings(tokens)
        write_postings(postings, lambda name: self._create(f"lexical/{name}"))
        files.sync_folder(self._folder / "lexical")
        return rows

    def numbers(self, documents: Iterable[bytes]) -> None:
        """The Parquet file of the numbers in tables."""
        path = self._folder / NUMBERS
        write_numbers(path, documents)
        with path.open("rb") as file:
            os.fsync(file.fileno())
            self._written[NUMBERS] = FileDigest(
                sha256=hashlib.file_digest(file, "sha256").hexdigest(), size=path.stat().st_size
            )

    def seal(self, **described: Any) -> str:
        """Write the manifest and make all durable; gives the manifest's digest, which is that of the content."""
        manifest = Manifest(files=dict(sorted(self._written.items())), **described)
        with self._create("manifest.json") as file:
            file.write(manifest.model_dump_json(indent=1).encode())
        files.sync_folder(self._folder)
        return self._written["manifest.json"].sha256

    @contextlib.contextmanager
    def _create(self, name: str) -> Generator[IO[bytes]]:
        """A file to write to; on the disk when the block ends."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            digested = _Digested(file)
            yield cast("IO[bytes]", digested)
            file.flush()
            os.fsync(file.fileno())
        self._written[name] = FileDigest(sha256=digested.sha256.hexdigest(), size=digested.size)


class _Digested:
    """A file whose bytes are digested as they are written, so that what the disk gives back can be compared."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: Any, /) -> int:
        self.sha256.update(data)
        self.size += memoryview(data).nbytes
        return self._file.write(data)


@contextlib.contextmanager
def _workplace(out: Path) -> Generator[tuple[Path, int]]:
    """A folder for an unfinished generation, gone afterwards unless it was renamed, and its lock.

    The lock is exclusive while the builder writes, so that no other takes the folder for a leftover.
    """
    generations = out / "generations"
    with _locked(generations):
        folder = Path(tempfile.mkdtemp(dir=generations, prefix=".building-"))
        folder.chmod(0o755)
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder, lock
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _switch(out: Path, folder: Path, digest: str) -> Generation:
    """Make the finished folder current, unless what is current has the same content and is whole."""
    generations = out / "generations"
    with _locked(generations):
        current = read_pointer(out) if (out / "CURRENT").exists() else None
        if current and current.manifest == digest and _is_whole(out, current):
            _sweep(generations, keep={current.generation, current.previous})
            return Generation(id=current.generation, digest=digest, created=False)
        numbers = (folder.name.partition("-")[0] for folder in generations.iterdir())
        number = 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)
        generation = f"{number:06d}-{digest[:12]}"
        folder.rename(generations / generation)
        files.sync_folder(generations)
        pointer = Pointer(generation=generation, previous=current.generation if current else None, manifest=digest)
        files.write(out / "CURRENT", pointer.model_dump_json(indent=1).encode())
        _sweep(generations, keep={pointer.generation, pointer.previous})
        return Generation(id=generation, digest=digest, created=True)


def _is_whole(out: Path, pointer: Pointer) -> bool:
    try:
        with Index(out / "generations" / pointer.generation, pointer.manifest) as index:
            index.verify()
    except DamagedIndex:
        return False
    return True


def _sweep(generations: Path, *, keep: set[str | None]) -> None:
    """Remove generations and unfinished folders that nobody keeps or holds open."""
    for folder in sorted(generations.iterdir()):
        if folder.name in keep or not OURS.fullmatch(folder.name) or not folder.is_dir():
            continue
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # a reader or a builder has it; the next publisher looks again
        finally:
            os.close(lock)


@contextlib.contextmanager
def _locked(generations: Path) -> Generator[None]:
    """Alone among publishers; the lock ends with the process, whatever ends that."""
    lock = os.open(generations, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
