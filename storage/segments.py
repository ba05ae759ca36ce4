"""Segments: the parts of an index, immutable and named by their content, each of some thousand chunks.

Which documents share a segment is told by the first bits of their digests: a segment that outgrows `MOST_CHUNKS` is
two, by the next bit. So equal documents give equal segments, whatever was indexed before and wherever they are made,
and a document that changes rewrites the segment that it leaves and the one that it comes to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage.arrays import pack_arrays
from storage.lexical import count_postings
from storage.numbers import write_numbers
from storage.records import Record, Ref
from storage.vectors import Centres, pack_vectors


class Fact(Record):
    """A value that a document states plainly, and the place where it does."""

    name: str
    """Kind of the fact: `amount`, `period`, `deadline`, `points`, `requirement` …"""
    label: str
    """The name that the document itself gives it: `사업예산`, `Contract period`, `SFR-001`."""
    value: str
    """The value in the words of the document."""
    canonical: str | None = None
    """The value in one form for all spellings, to compare by: won as digits, dates as 2024-03-15."""
    page: int | None = None
    bbox: tuple[float, float, float, float] | None = None


class CatalogueEntry(Record):
    """A document of the index, also one that could not be indexed."""

    document: str
    """SHA-256 of the file's bytes, hex."""
    name: str
    """Path below the indexed folder, NFC, with `/`."""
    aliases: tuple[str, ...] = ()
    """Paths of other files with the same bytes."""
    format: str | None = None
    title: str | None = None
    pages: int | None = None
    """Number of pages; None for a format without pages."""
    page_source: Literal["layout", "estimated", "stored", "slides", "none"] = "stored"
    """Whether page numbers come from a layout engine, from the file, or do not exist."""
    estimated_pages: tuple[int, ...] = ()
    """Pages with text that the layout engine does not show; it stands there by its order only."""
    chunks: int = 0
    metadata: dict[str, str] = Field(default_factory=dict)
    """Issuer, project name, dates … under the names of the metadata table."""
    facts: tuple[Fact, ...] = ()
    """Facts that the document states, in reading order."""
    status: str = "ok"
    """`ok`, or the short code of why it cannot be searched."""


MOST_KEPT = 10_000
"""Entries of a catalogue that are kept once they are read: about 40 MB."""


class Catalogue(Sequence[CatalogueEntry]):
    """The documents of an index; in memory are their digests and names, an entry is read when it is asked for."""

    def __init__(self, parts: Sequence[Mapping[str, NDArray[Any]]], digests: Sequence[str] = ()) -> None:
        """parts: the arrays of each part's catalogue file (`pack_catalogue`). digests: SHA-256 of those files, hex."""
        self._lines, self._offsets = [part["lines"] for part in parts], [part["offsets"] for part in parts]
        self._firsts = np.cumsum([0, *(len(offsets) - 1 for offsets in self._offsets)], dtype=np.int64)
        self.documents = [digest for part in parts for digest in texts_of(part["documents"])]
        """Digests of all documents, in the order of the catalogue."""
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
            return tuple(self[position] for position in range(*at.indices(len(self))))
        at = range(len(self))[at]
        if at not in self._entries:
            if len(self._entries) >= MOST_KEPT:
                self._entries.clear()
            part = int(self._firsts.searchsorted(at, "right")) - 1
            begin, end = self._offsets[part][at - self._firsts[part] :][:2]
            self._entries[at] = CatalogueEntry.model_validate_json(self._lines[part][begin:end].tobytes())
        return self._entries[at]

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return (self[position] for position in range(len(self)))

    @cached_property
    def names(self) -> list[str]:
        """Names of all documents, in the order of the catalogue."""
        return [name for names in self._names for name in texts_of(names)]


def pack_catalogue(entries: Sequence[CatalogueEntry]) -> bytes:
    """Return the content of a part's catalogue file; equal entries give equal bytes."""
    lines = [entry.model_dump_json().encode() for entry in entries]
    return pack_arrays(
        {
            "offsets": np.cumsum([0, *map(len, lines)], dtype=np.int64),
            "documents": np.frombuffer("\0".join(entry.document for entry in entries).encode(), np.uint8),
            "names": np.frombuffer("\0".join(entry.name for entry in entries).encode(), np.uint8),
            "lines": np.frombuffer(b"".join(lines), np.uint8),
        }
    )


def texts_of(joined: NDArray[np.uint8]) -> list[str]:
    """Return the texts that `pack_catalogue` and `pack_segment` joined with NUL, which none of them holds."""
    return joined.tobytes().decode().split("\0") if joined.size else []


MOST_CHUNKS = 10_000
"""Chunks of a segment, unless one document has more: about 20 MB, which is what changing a document writes twice."""
Payload = TypeVar("Payload")


class DocumentContent(NamedTuple):
    """The chunks, vectors, words and numbers that an index holds of one document."""

    document: str
    """SHA-256 of the file's bytes, hex."""
    chunks: Sequence[bytes]
    """The chunks as JSON, in reading order."""
    vectors: NDArray[np.float16]
    """Unit vectors of the chunks, (chunks, dimension)."""
    tokens: Sequence[Sequence[str]] | None
    """The words of each chunk; None: without BM25."""
    numbers: bytes = b""
    """Rows of the document's numeric cells for storage.numbers, as JSON lines."""


class Segment(Record):
    """The files of a segment, and their counts."""

    rows: int
    tokens: int
    """Number of words in all of its chunks."""
    dimension: int
    text: Ref
    """Chunks, their documents, and the postings of their words."""
    vectors: Ref
    numbers: Ref
    first: str
    """Digest of the first of its documents; empty where it has none."""


class Packed(NamedTuple):
    """A segment and the content of its files."""

    segment: Segment
    files: dict[Ref, bytes]


def split_documents(documents: Sequence[tuple[str, int, Payload]]) -> list[list[Payload]]:
    """Return the third entries of `documents` by segment, segments and documents in the order of digests.

    documents: digest, number of chunks and what is to be listed of each, in that order. No documents: no segments.
    """
    return [[payload for _, _, payload in part] for part in _split(list(documents), 255)]  # the first bit of a SHA-256


def _split(documents: list[tuple[str, int, Payload]], bit: int) -> list[list[tuple[str, int, Payload]]]:
    """Return documents by segment. bit: of the digests, by which a segment is split that is too large."""
    if sum(chunks for _, chunks, _ in documents) <= MOST_CHUNKS or len(documents) < 2 or bit < 0:
        return [documents] if documents else []
    halves: tuple[list[tuple[str, int, Payload]], ...] = ([], [])
    for document in documents:
        halves[int(document[0], 16) >> bit & 1].append(document)
    return [part for half in halves for part in _split(half, bit - 1)]


def pack_segment(documents: Iterable[DocumentContent], *, centres: Centres | None = None) -> Packed:
    """Return a segment of these documents, in their order; equal content gives equal bytes.

    Raises ValueError if a document has not one vector and one token list for each chunk.
    """
    contents = list(documents)
    for content in contents:
        rows = {"chunks": len(content.chunks), "vectors": len(content.vectors)}
        rows |= {} if content.tokens is None else {"tokens": len(content.tokens)}
        if len(set(rows.values())) != 1:
            raise ValueError(f"an index needs one vector and one token list per chunk; these are {rows}")
    vectors = np.concatenate([content.vectors for content in contents]) if contents else np.empty((0, 1), np.float16)
    chunks = [chunk for content in contents for chunk in content.chunks]
    postings = count_postings(words for content in contents for words in content.tokens or ())
    text: dict[str, NDArray[Any]] = {
        "offsets": np.cumsum([0, *map(len, chunks)], dtype=np.int64),
        "owners": np.repeat(np.arange(len(contents), dtype=np.int32), [len(content.chunks) for content in contents]),
        **postings._asdict(),
        "documents": np.frombuffer("\0".join(content.document for content in contents).encode(), np.uint8),
        "chunks": np.frombuffer(b"".join(chunks), np.uint8),
    }
    with tempfile.TemporaryDirectory() as folder:
        numbers = Path(folder) / "numbers.parquet"
        write_numbers(numbers, (content.numbers for content in contents))
        data_of = {
            "segment-text": pack_arrays(text),
            "segment-vectors": pack_vectors(vectors, centres),
            "segment-numbers": numbers.read_bytes(),
        }
    files = {Ref.of(kind, data): data for kind, data in data_of.items()}
    text_ref, vectors_ref, numbers_ref = files
    segment = Segment(
        rows=len(vectors),
        tokens=int(postings.lengths.sum(dtype=np.int64)),
        dimension=vectors.shape[1],
        text=text_ref,
        vectors=vectors_ref,
        numbers=numbers_ref,
        first=contents[0].document if contents else "",
    )
    return Packed(segment, files)
