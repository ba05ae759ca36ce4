"""One generation of an index, open: its chunks, its documents, and what searches them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import weakref
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, Self, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, ValidationError

from storage.arrays import map_arrays, pack_arrays
from storage.lexical import Best, Lexical, Posting, Whole, postings_of
from storage.records import Record, Ref
from storage.segments import Segment
from storage.storage_errors import DamagedIndex, NotAnIndex, WrongEmbedder
from storage.vectors import Centres, Nearest, Vectors


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


class Part(Segment):
    """A segment in an index, and the documents that it is listed with: also those that have no chunks."""

    documents: int
    catalogue: Ref


class Manifest(Record):
    """What a generation is made of, and with what."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1, 2] = 2
    """1: one file of each kind, as storage.former reads them."""
    embedder: str
    dimension: int
    tokenizer: str | None
    """None: without BM25."""
    documents: int
    chunks: int
    settings: dict[str, JsonValue]
    parts: tuple[Part, ...] = ()
    """In the order of their documents."""
    centres: Ref | None = None
    """Around which vectors are grouped; None for an index that is small."""
    mean_idf: float = 0.0
    """Of BM25, over all terms."""
    files: dict[str, FileDigest]

    def packed(self) -> bytes:
        """The content of manifest.json, whose digest is that of all content."""
        return self.model_dump_json(indent=1).encode()


class Generation(Record):
    """What `publish` gives."""

    id: str
    digest: str
    """Equal content has equal digests."""
    created: bool
    """False: the content was current already."""


class Pointer(Record):
    """The content of CURRENT."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1] = 1
    generation: str
    previous: str | None
    """Kept beside the current one, for readers that still use it."""
    manifest: str
    """SHA-256 of manifest.json, hex: the digest of the whole content."""


FILES = "files"
"""Folder of the files of parts, below a generation."""


def name_of(ref: Ref) -> str:
    """Name of a file of a part, below the folder of the generation."""
    return f"{FILES}/{ref.digest}.{ref.kind}"


MOST_KEPT = 10_000
"""Entries of a catalogue that are kept once they are read: about 40 MB."""


class Catalogue(Sequence[CatalogueEntry]):
    """The documents of an index; in memory are their digests and names, an entry is read when it is asked for."""

    def __init__(self, parts: Sequence[Mapping[str, NDArray[Any]]], digests: Sequence[str] = ()) -> None:
        """parts: the arrays of `pack_catalogue`; digests: of their files."""
        self._lines, self._offsets = [part["lines"] for part in parts], [part["offsets"] for part in parts]
        self._firsts = np.cumsum([0, *(len(offsets) - 1 for offsets in self._offsets)], dtype=np.int64)
        self.documents = [digest for part in parts for digest in _texts(part["documents"])]
        """Their digests."""
        self.parts = list(zip(digests, self._firsts[:-1].tolist(), self._firsts[1:].tolist(), strict=False))
        """The digest of each part, the position of its first document and that after its last one."""
        self._names = [part["names"] for part in parts]
        self._entries: dict[int, CatalogueEntry] = {}

    def __len__(self) -> int:
        return len(self.documents)

    @overload
    def __getitem__(self, at: int) -> CatalogueEntry: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[CatalogueEntry, ...]: ...
    def __getitem__(self, at: int | slice) -> CatalogueEntry | tuple[CatalogueEntry, ...]:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        at = range(len(self))[at]
        if at not in self._entries:
            if len(self._entries) >= MOST_KEPT:
                self._entries.clear()
            self._entries[at] = CatalogueEntry.model_validate_json(self._line(at))
        return self._entries[at]

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return (self[at] for at in range(len(self)))

    @cached_property
    def names(self) -> list[str]:
        """Their names."""
        return [name for names in self._names for name in _texts(names)]

    def _line(self, at: int) -> bytes:
        part = int(self._firsts.searchsorted(at, "right")) - 1
        begin, end = self._offsets[part][at - self._firsts[part] :][:2]
        return self._lines[part][begin:end].tobytes()


def pack_catalogue(entries: Sequence[CatalogueEntry]) -> bytes:
    """The content of a part's catalogue."""
    lines = [entry.model_dump_json().encode() for entry in entries]
    return pack_arrays(
        {
            "offsets": np.cumsum([0, *map(len, lines)], dtype=np.int64),
            "documents": np.frombuffer("\0".join(entry.document for entry in entries).encode(), np.uint8),
            "names": np.frombuffer("\0".join(entry.name for entry in entries).encode(), np.uint8),
            "lines": np.frombuffer(b"".join(lines), np.uint8),
        }
    )


class Dense(Protocol):
    """Dense search over the rows of an index."""

    size: int
    dimension: int

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """The `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly."""
        ...

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of `rows`: (len(rows), dimension)."""
        ...


class Words(Protocol):
    """BM25 over the rows of an index."""

    size: int

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        ...

    def posting(self, word: str) -> Posting | None:
        """Where a word stands; None for a word that no row holds."""
        ...


class Index(Protocol):
    """What asks an index, whatever engine keeps it. Rows are positions of chunks, those of a document together."""

    generation: str
    digest: str
    """SHA-256 of the manifest, hex: equal content has equal digests."""
    manifest: Manifest

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def __len__(self) -> int: ...
    def close(self) -> None:
        """Let go of the generation."""
        ...

    def require_embedder(self, embedder: str) -> None:
        """Raises WrongEmbedder unless `embedder` (an id) made the vectors."""
        ...

    @cached_property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The documents, also those that could not be indexed."""
        ...

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Digest of each document → its name."""
        ...

    def entry(self, document: str) -> CatalogueEntry | None:
        """The document of this digest; None if there is none."""
        ...

    @cached_property
    def vectors(self) -> Dense:
        """Dense search."""
        ...

    @cached_property
    def lexical(self) -> Words | None:
        """BM25 search; None if the index was made without."""
        ...

    @cached_property
    def numbers(self) -> tuple[Path, ...]:
        """The files of storage.numbers. Raises NotAnIndex for an index whose numbers are missing or older."""
        ...

    def chunk(self, row: int) -> bytes:
        """The chunk as JSON, read alone."""
        ...

    def document(self, row: int) -> CatalogueEntry:
        """The document that the chunk belongs to."""
        ...

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        """Per row, the position of its document in the catalogue."""
        ...

    def rows_of(self, documents: Collection[str]) -> NDArray[np.bool_]:
        """A flag per row: does it belong to one of `documents` (digests)?"""
        ...

    @property
    def centres_file(self) -> Path | None:
        """The file of storage.vectors.Centres; None for an index that has none."""
        ...

    def verify(self) -> None:
        """Read what is kept of the generation. Raises DamagedIndex where it is not what was written."""
        ...


class FolderIndex(Index):
    """One generation of an index folder, open."""

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
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The documents, also those that could not be indexed."""
        return self._catalogue

    @cached_property
    def vectors(self) -> Vectors:
        """Dense search."""
        with self._damage_named(FILES):
            return Vectors(
                [self._folder / name_of(part.vectors) for part in self.manifest.parts],
                dimension=self.manifest.dimension,
                centres=None if self.centres_file is None else Centres.open(self.centres_file),
            )

    @property
    def centres_file(self) -> Path | None:
        """The file of storage.vectors.Centres; None for an index that has none."""
        return None if self.manifest.centres is None else self._folder / name_of(self.manifest.centres)

    @cached_property
    def lexical(self) -> Lexical | None:
        """BM25 search; None if the index was made without."""
        if self.manifest.tokenizer is None:
            return None
        tokens = sum(part.tokens for part in self.manifest.parts)
        postings = [postings_of(text) for text in self._texts]
        return Lexical(postings, Whole(len(self), tokens, self.manifest.mean_idf))

    def chunk(self, row: int) -> bytes:
        """The chunk as JSON, read alone."""
        row = range(len(self))[row]
        at = int(self._firsts.searchsorted(row, "right")) - 1
        begin, end = self._texts[at]["offsets"][row - self._firsts[at] :][:2]
        return self._texts[at]["chunks"][begin:end].tobytes()

    def document(self, row: int) -> CatalogueEntry:
        """The document that the chunk belongs to."""
        return self.catalogue[self.document_of_row[row]]

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        """Per row, the position of its document in the catalogue."""
        places = [
            np.array([self._place[document] for document in _texts(text["documents"])], np.int32)[text["owners"]]
            for text in self._texts
        ]
        return np.concatenate(places) if len(self) else np.empty(0, np.int32)

    @cached_property
    def numbers(self) -> tuple[Path, ...]:
        """The files of storage.numbers. Raises NotAnIndex for an index made before there were any, or such as now."""
        from storage.numbers import lacks

        paths = self._number_files
        if missing := sorted({name for path in paths for name in lacks(path)}):
            why = f"the numbers of {self._folder} were written by an older version, without {', '.join(missing)}"
            raise NotAnIndex(f"{why}; run `trivet rag index` again to renew them")
        return paths

    def rows_of(self, documents: Collection[str]) -> NDArray[np.bool_]:
        """A flag per row: does it belong to one of `documents` (digests)?"""
        flags = np.zeros(len(self), np.bool_)
        for at in (self._place[document] for document in documents if document in self._place):
            flags[self._begins[at] : self._ends[at]] = True
        return flags

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        """Per document, its first row."""
        return self._ends - np.bincount(self.document_of_row, minlength=len(self._place))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Per document, the row after its last one; 0 for a document without rows."""
        ends = np.zeros(len(self._place), np.int64)
        ends[self.document_of_row] = np.arange(1, len(self) + 1)  # of equal places the last one counts
        return ends

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Digest of each document → its name."""
        return dict(zip(self._catalogue.documents, self._catalogue.names, strict=True))

    def entry(self, document: str) -> CatalogueEntry | None:
        """The document of this digest; None if there is none."""
        return self.catalogue[self._place[document]] if document in self._place else None

    def verify(self, names: Collection[str] | None = None) -> None:
        """Read every file, or those of these names, and open what searches.

        Raises DamagedIndex for the first that is not what was written.
        """
        for name, file in self.manifest.files.items():
            if names is None or name in names:
                _check(self._folder / name, file, content=True)
        self._verify_rows()

    def _verify_rows(self) -> None:
        with self._damage_named(FILES):
            rows = [len(text["owners"]) for text in self._texts]
            _ = self.lexical, self.catalogue
        if not len(self) == self.vectors.size == sum(rows):
            raise DamagedIndex(_damage(self._folder, "holds files of different numbers of rows"))

    @cached_property
    def _place(self) -> Mapping[str, int]:
        """Digest of each document → its position in the catalogue."""
        return {document: at for at, document in enumerate(self.names)}

    @property
    def _number_files(self) -> tuple[Path, ...]:
        return tuple(self._folder / name_of(part.numbers) for part in self.manifest.parts)

    @cached_property
    def _catalogue(self) -> Catalogue:
        with self._damage_named(FILES):
            refs = [part.catalogue for part in self.manifest.parts]
            return Catalogue([map_arrays(self._folder / name_of(ref)) for ref in refs], [ref.digest for ref in refs])

    @cached_property
    def _texts(self) -> list[dict[str, NDArray[Any]]]:
        with self._damage_named(FILES):
            return [map_arrays(self._folder / name_of(part.text)) for part in self.manifest.parts]

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Row at which each part starts."""
        return np.cumsum([0, *(part.rows for part in self.manifest.parts)], dtype=np.int64)

    @contextlib.contextmanager
    def _damage_named(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError) as error:
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


def _texts(joined: NDArray[np.uint8]) -> list[str]:
    return joined.tobytes().decode().split("\0") if joined.size else []


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
