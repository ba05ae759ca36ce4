"""The documents of an index: an entry for each, and the file in which a part of an index lists its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from storage.arrays import pack_arrays
from storage.records import Record


class CatalogueEntry(Record):
    """One document of the index, whatever became of it."""

    model_config = ConfigDict(extra="ignore")  # indexes of earlier versions list facts of a notice too

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
