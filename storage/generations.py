"""One generation of an index, open: its chunks, its documents, and what searches them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import weakref
from collections.abc import Collection, Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from storage.lexical import Lexical
from storage.records import Record
from storage.storage_errors import DamagedIndex, NotAnIndex, WrongEmbedder
from storage.vectors import Vectors


class FileDigest(Record):
    """What a file must be."""

    sha256: str
    size: int


class Fact(Record):
    """Something that a document states plainly, and where."""

    name: str
    """`amount`, `period`, `deadline`, `points`, `requirement` …"""
    label: str
    """As the document calls it: `사업예산`, `Contract period`, `SFR-001`."""
    value: str
    """As the document writes it."""
    canonical: str | None = None
    """The value in one form for all spellings, to compare by: won as digits, dates as 2024-03-15."""
    page: int | None = None
    bbox: tuple[float, float, float, float] | None = None


class CatalogueEntry(Record):
    """One document of the index, whatever became of it."""

    document: str
    """SHA-256 of the file's bytes, hex."""
    name: str
    """Path below the indexed folder, NFC, with `/`."""
    aliases: tuple[str, ...] = ()
    """Other files with the same bytes."""
    format: str | None = None
    title: str | None = None
    pages: int | None = None
    """None where there are no pages."""
    page_source: Literal["layout", "stored", "none"] = "stored"
    """Whether page numbers come from a layout engine, from the file, or do not exist."""
    chunks: int = 0
    metadata: dict[str, str] = Field(default_factory=dict)
    """Issuer, project name, dates … under the names of the metadata table."""
    facts: tuple[Fact, ...] = ()
    """In reading order."""
    status: str = "ok"
    """`ok`, or the short code of why it cannot be searched."""


class Manifest(Record):
    """What a generation is made of, and with what."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1] = 1
    embedder: str
    dimension: int
    tokenizer: str | None
    """None: without BM25."""
    documents: int
    chunks: int
    settings: dict[str, JsonValue]
    files: dict[str, FileDigest]


class Pointer(Record):
    """The content of CURRENT."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1] = 1
    generation: str
    previous: str | None
    """Kept beside the current one, for readers that still use it."""
    manifest: str
    """SHA-256 of manifest.json, hex: the digest of the whole content."""


NUMBERS = "numbers.parquet"
"""The numbers of tables, see storage.numbers."""
_catalogue = TypeAdapter(tuple[CatalogueEntry, ...])


def catalogue_json(catalogue: Sequence[CatalogueEntry]) -> bytes:
    """The content of catalogue.json."""
    return _catalogue.dump_json(tuple(catalogue), indent=1)


class Index:
    """One generation, open. Rows are positions of chunks."""

    def __init__(self, folder: Path, digest: str) -> None:
        """Open and pin `folder`; `digest` is its manifest's. Raises DamagedIndex."""
        self._folder = folder
        self.generation = folder.name
        self.digest = digest
        self._unpin = weakref.finalize(self, os.close, _pin(folder))
        data = _read(folder / "manifest.json")
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedIndex(_damage(folder / "manifest.json", "is not the one that was written"))
        self.manifest = Manifest.model_validate_json(data)
        for name, file in self.manifest.files.items():
            _check(folder / name, file, content=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.manifest.chunks

    def close(self) -> None:
        """Let the generation be removed once it is neither current nor previous."""
        self._unpin()

    def require_embedder(self, embedder: str) -> None:
        """Raises WrongEmbedder unless `embedder` (an id) made the vectors."""
        if embedder != self.manifest.embedder:
            raise WrongEmbedder(
                f"the index was made with the embedder {self.manifest.embedder}, this search uses {embedder}; "
                f"search with {self.manifest.embedder}, or index again with {embedder}"
            )

    @cached_property
    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        """The documents, also those that could not be indexed."""
        return _catalogue.validate_json(_read(self._folder / "catalogue.json"))

    @cached_property
    def vectors(self) -> Vectors:
        """Dense search."""
        with self._damage_named("vectors.faiss"):
            return Vectors(self._folder / "vectors.faiss")

    @cached_property
    def lexical(self) -> Lexical | None:
        """BM25 search; None if the index was made without."""
        if self.manifest.tokenizer is None:
            return None
        with self._damage_named("lexical"):
            return Lexical(self._folder / "lexical", rows=len(self))

    def chunk(self, row: int) -> bytes:
        """The chunk as JSON, read alone."""
        start, end = self._offsets[row], self._offsets[row + 1]
        return self._chunks[start:end].tobytes()

    def document(self, row: int) -> CatalogueEntry:
        """The document that the chunk belongs to."""
        return self.catalogue[self.document_of_row[row]]

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        """Per row, the position of its document in the catalogue."""
        return self._array("documents.npy")

    @cached_property
    def numbers(self) -> Path:
        """The file of storage.numbers. Raises NotAnIndex for an index made before there were any, or such as now."""
        from storage.numbers import lacks

        if NUMBERS not in self.manifest.files:
            raise NotAnIndex(f"{self._folder} was made without numbers; run `trivet rag index` again to add them")
        path = self._folder / NUMBERS
        if missing := lacks(path):
            why = f"the numbers of {self._folder} were written by an older version, without {', '.join(missing)}"
            raise NotAnIndex(f"{why}; run `trivet rag index` again to renew them")
        return path

    def rows_of(self, documents: Collection[str]) -> NDArray[np.bool_]:
        """A flag per row: does it belong to one of `documents` (digests)?"""
        wanted = np.array([entry.document in documents for entry in self.catalogue], np.bool_)
        return wanted[self.document_of_row]

    def verify(self) -> None:
        """Read every file and open what searches. Raises DamagedIndex for the first that is not what was written."""
        for name, file in self.manifest.files.items():
            _check(self._folder / name, file, content=True)
        _ = self.lexical, self.catalogue
        if not len(self) == self.vectors.size == len(self.document_of_row) == len(self._offsets) - 1:
            raise DamagedIndex(_damage(self._folder, "holds files of different numbers of rows"))

    @cached_property
    def _chunks(self) -> NDArray[np.uint8]:
        with self._damage_named("chunks.jsonl"):
            path = self._folder / "chunks.jsonl"
            # an empty file cannot be mapped
            return np.asarray(np.memmap(path, np.uint8, "r")) if len(self) else np.empty(0, np.uint8)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return self._array("offsets.npy")

    def _array(self, name: str) -> NDArray[Any]:
        with self._damage_named(name):
            return np.asarray(np.load(self._folder / name, mmap_mode="r", allow_pickle=False))

    @contextlib.contextmanager
    def _damage_named(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise DamagedIndex(_damage(self._folder / name, f"cannot be read ({error})")) from error


def read_pointer(out: Path) -> Pointer:
    """What CURRENT says. Raises NotAnIndex."""
    if not out.is_dir():
        raise NotAnIndex(f"{out} is not a folder; give the folder that `trivet rag index … --index` wrote")
    try:
        data = (out / "CURRENT").read_bytes()
    except FileNotFoundError as error:
        raise NotAnIndex(f"{out} holds no finished index; run `trivet rag index … --index {out}`") from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise NotAnIndex(f"{out} holds a CURRENT that is not a file of ours; name another folder") from error
    try:
        return Pointer.model_validate_json(data)
    except ValidationError as error:
        raise NotAnIndex(
            f"{out} holds a CURRENT that is not of this program or version; name another folder"
        ) from error


def _check(path: Path, file: FileDigest, *, content: bool) -> None:
    """Raises DamagedIndex unless the file has its size, and with `content` its digest."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise DamagedIndex(_damage(path, "is missing")) from error
    if size != file.size:
        raise DamagedIndex(_damage(path, f"has {size} bytes instead of {file.size}"))
    if content:
        with path.open("rb") as stored:
            if hashlib.file_digest(stored, "sha256").hexdigest() != file.sha256:
                raise DamagedIndex(_damage(path, "fails its checksum"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DamagedIndex(_damage(path, "is missing")) from error


def _damage(path: Path, what: str) -> str:
    return f"{path} {what}; the index is damaged, run `trivet rag index` again to replace it"


def _pin(folder: Path) -> int:
    """An open descriptor that keeps `folder` from being removed until it is closed."""
    try:
        pin = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedIndex(_damage(folder, "is missing")) from error
    try:
        fcntl.flock(pin, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:  # being removed at this moment
        os.close(pin)
        raise DamagedIndex(_damage(folder, "is being removed")) from error
    except OSError:
        pass  # a file system without locks: files that are open outlive their removal
    return pin
