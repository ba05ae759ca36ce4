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
    page_source: Literal["layout", "stored", "slides", "none"] = "stored"
    """Whether page numbers come from a layout engine, from the file, or do not exist."""
    chunks: int = 0
    metadata: dict[str, str] = Field(default_factory=dict)
    """Issuer, project name, dates … under the names of the metadata table."""
    facts: tuple[Fact, ...] = ()
    """In reading order."""
    status: str = "ok"
    """`ok`, or the short code of why it cannot be searched."""


MOST_KEPT = 10_000
"""Entries of a catalogue that are kept once they are read: about 40 MB."""


class Catalogue(Sequence[CatalogueEntry]):
    """The documents of an index; in memory are their digests and names, an entry is read when it is asked for."""

    def __init__(self, parts: Sequence[Mapping[str, NDArray[Any]]], digests: Sequence[str] = ()) -> None:
        """parts: the arrays of `pack_catalogue`; digests: of their files."""
        self._lines, self._offsets = [part["lines"] for part in parts], [part["offsets"] for part in parts]
        self._firsts = np.cumsum([0, *(len(offsets) - 1 for offsets in self._offsets)], dtype=np.int64)
        self.documents = [digest for part in parts for digest in texts_of(part["documents"])]
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
            part = int(self._firsts.searchsorted(at, "right")) - 1
            begin, end = self._offsets[part][at - self._firsts[part] :][:2]
            self._entries[at] = CatalogueEntry.model_validate_json(self._lines[part][begin:end].tobytes())
        return self._entries[at]

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return (self[at] for at in range(len(self)))

    @cached_property
    def names(self) -> list[str]:
        """Their names."""
        return [name for names in self._names for name in texts_of(names)]


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


def texts_of(joined: NDArray[np.uint8]) -> list[str]:
    return joined.tobytes().decode().split("\0") if joined.size else []


MOST_CHUNKS = 10_000
"""Chunks of a segment, unless one document has more: about 20 MB, which is what changing a document writes twice."""
Held = TypeVar("Held")


class DocumentContent(NamedTuple):
    """What an index holds of one document."""

    document: str
    """SHA-256 of the file's bytes, hex."""
    chunks: Sequence[bytes]
    """JSON."""
    vectors: NDArray[np.float16]
    """(chunks, dimension), each of length 1."""
    tokens: Sequence[Sequence[str]] | None
    """The words of each chunk; None: without BM25."""
    numbers: bytes = b""
    """Rows of storage.numbers, as JSON lines."""


class Segment(Record):
    """The files of a segment, and what they add up to."""

    rows: int
    tokens: int
    """Words of all its chunks."""
    dimension: int
    text: Ref
    """Chunks, their documents, and the postings of their words."""
    vectors: Ref
    numbers: Ref
    first: str
    """Digest of its first document."""


class Packed(NamedTuple):
    """A segment and the content of its files."""

    segment: Segment
    files: dict[Ref, bytes]


def split(documents: Sequence[tuple[str, int, Held]]) -> list[list[Held]]:
    """Documents by segment, segments and documents in the order of digests.

    documents: digest, number of chunks and what is to be listed of each, in the order of digests.
    """
    return [[held for _, _, held in part] for part in _split(list(documents), 255)]


def _split(documents: list[tuple[str, int, Held]], bit: int) -> list[list[tuple[str, int, Held]]]:
    if sum(chunks for _, chunks, _ in documents) <= MOST_CHUNKS or len(documents) < 2 or bit < 0:
        return [documents] if documents else []
    halves: tuple[list[tuple[str, int, Held]], ...] = ([], [])
    for one in documents:
        halves[int(one[0], 16) >> bit & 1].append(one)
    return [part for half in halves for part in _split(half, bit - 1)]


def pack_segment(documents: Iterable[DocumentContent], *, centres: Centres | None = None) -> Packed:
    """A segment of these documents, in their order; equal content gives equal bytes.

    Raises ValueError if a document has not one vector and one token list for each chunk.
    """
    held = list(documents)
    for one in held:
        rows = {"chunks": len(one.chunks), "vectors": len(one.vectors)}
        rows |= {} if one.tokens is None else {"tokens": len(one.tokens)}
        if len(set(rows.values())) != 1:
            raise ValueError(f"an index needs one vector and one token list per chunk; these are {rows}")
    vectors = np.concatenate([one.vectors for one in held]) if held else np.empty((0, 1), np.float16)
    chunks = [chunk for one in held for chunk in one.chunks]
    postings = count_postings(words for one in held for words in one.tokens or ())
    text: dict[str, NDArray[Any]] = {
        "offsets": np.cumsum([0, *map(len, chunks)], dtype=np.int64),
        "owners": np.repeat(np.arange(len(held), dtype=np.int32), [len(one.chunks) for one in held]),
        **postings._asdict(),
        "documents": np.frombuffer("\0".join(one.document for one in held).encode(), np.uint8),
        "chunks": np.frombuffer(b"".join(chunks), np.uint8),
    }
    with tempfile.TemporaryDirectory() as folder:
        numbers = Path(folder) / "numbers.parquet"
        write_numbers(numbers, (one.numbers for one in held))
        contents = {
            "segment-text": pack_arrays(text),
            "segment-vectors": pack_vectors(vectors, centres),
            "segment-numbers": numbers.read_bytes(),
        }
    files = {Ref.of(kind, data): data for kind, data in contents.items()}
    text_ref, vectors_ref, numbers_ref = files
    segment = Segment(
        rows=len(vectors),
        tokens=int(postings.lengths.sum(dtype=np.int64)),
        dimension=vectors.shape[1],
        text=text_ref,
        vectors=vectors_ref,
        numbers=numbers_ref,
        first=held[0].document if held else "",
    )
    return Packed(segment, files)
