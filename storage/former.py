"""Generations of before there were segments: one file of each kind. They are read; what is published replaces them.

generations/{number}-{digest}/  vectors.faiss  lexical/*.npy  chunks.jsonl  offsets.npy  documents.npy
                                catalogue.json  numbers.parquet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from storage.catalogue import CatalogueEntry
from storage.index_generation import Index
from storage.lexical import Lexical, Term, Whole, hash_of
from storage.storage_errors import DamagedIndex, NotAnIndex
from storage.untyped_faiss import open_faiss
from storage.vectors import Nearest, Vectors

_entries = TypeAdapter(tuple[CatalogueEntry, ...])


def is_former(folder: Path) -> bool:
    """Whether a generation is of this format."""
    return (folder / "catalogue.json").exists()


class FormerIndex(Index):
    """A generation of one file of each kind, open."""

    @cached_property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        with self._damage_named("catalogue.json"):
            return _entries.validate_json((self._folder / "catalogue.json").read_bytes())

    @cached_property
    def vectors(self) -> Vectors:
        with self._damage_named("vectors.faiss"):
            return _FormerVectors(self._folder / "vectors.faiss")

    @cached_property
    def lexical(self) -> Lexical | None:
        if self.manifest.tokenizer is None:
            return None
        with self._damage_named("lexical"):
            return _FormerLexical(self._folder / "lexical", rows=len(self))

    def chunk(self, row: int) -> bytes:
        start, end = self._offsets[row], self._offsets[row + 1]
        return self._chunks[start : end - 1].tobytes()  # without the end of the line

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        return self._array("documents.npy")

    @cached_property
    def names(self) -> Mapping[str, str]:
        return {entry.document: entry.name for entry in self.catalogue}

    @property
    def _number_files(self) -> tuple[Path, ...]:
        if "numbers.parquet" not in self.manifest.files:
            raise NotAnIndex(f"{self._folder} was made without numbers; run `trivet rag index` again to add them")
        return (self._folder / "numbers.parquet",)

    def _verify_rows(self) -> None:
        _ = self.lexical, self.catalogue
        if not len(self) == self.vectors.size == len(self.document_of_row) == len(self._offsets) - 1:
            raise DamagedIndex(f"{self._folder} holds files of different numbers of rows; run `trivet rag index` again")

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


class _FormerLexical(Lexical):
    """Postings that hold weights, computed when the index was made."""

    def __init__(self, folder: Path, *, rows: int) -> None:
        super().__init__([], Whole(rows, 0, 0.0))
        self._hashes, self._starts, self._rows, self._weighed = (
            np.asarray(np.load(folder / f"{field}.npy", mmap_mode="r", allow_pickle=False))
            for field in ("hashes", "starts", "rows", "weights")
        )

    def _read(self, words: Sequence[str]) -> list[Term | None]:
        return [self._weighed_term(hash_of(word)) for word in words]

    def _weighed_term(self, hashed: int) -> Term | None:
        at = int(self._hashes.searchsorted(np.uint64(hashed)))
        if at == len(self._hashes) or int(self._hashes[at]) != hashed:
            return None
        span = slice(*self._starts[at : at + 2].tolist())
        rows, weights = self._rows[span], self._weighed[span]
        # a weight may be below 0 without an idf that says so, hence 0
        return Term(0.0, len(rows), float(weights.max()), 1, np.empty(0, np.uint8), rows, weights)


class _FormerVectors(Vectors):
    """One FAISS file."""

    def __init__(self, path: Path) -> None:
        faiss = open_faiss()

        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:  # a damaged length asks for more memory than there is
            raise OSError(f"{path} cannot be read as a FAISS file: {error}") from error
        super().__init__([], dimension=self._index.d)
        self.lists, self.probes = getattr(self._index, "nlist", None), getattr(self._index, "nprobe", None)
        self.size = self._index.ntotal

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._index.reconstruct_batch(rows) if len(rows) else np.empty((0, self.dimension), np.float32)

    def _everywhere(self, query: NDArray[np.float32], k: int) -> Nearest:
        return self._fetched(query, k, None, probes=self.lists)

    def _nearby(self, query: NDArray[np.float32], k: int) -> Nearest:
        return self._fetched(query, k, None, probes=self.probes)

    def _among(self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_]) -> Nearest:
        return self._fetched(query, k, allowed, probes=self.lists)

    def _fetched(
        self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None, *, probes: int | None
    ) -> Nearest:
        faiss = open_faiss()

        selector = None if allowed is None else faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        if self.lists is None:
            parameters: Any = faiss.SearchParameters(sel=selector)
        else:
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=probes)
        scores, rows = self._index.search(query[None], k, params=parameters)
        found = rows[0] >= 0  # FAISS pads with -1
        return Nearest(rows[0][found], scores[0][found])
