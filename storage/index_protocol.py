"""What asks an index, and what it is asked: the same whatever engine keeps it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from storage.catalogue import CatalogueEntry
from storage.lexical import Best, Posting
from storage.manifest import Manifest
from storage.vectors import Nearest


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
