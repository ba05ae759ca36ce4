"""A generation that an engine keeps, open: what all engines have in common.

The engine answers searches and gives chunks. Files that are read whole (the catalogue, the numbers, the centres) are
fetched when they are needed, into the folder that stands for its address, and compared with their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from storage import files
from storage.catalogue import Catalogue
from storage.centres import Centres
from storage.index_generation import Index
from storage.manifest import FILES, Manifest, Pointer, name_of
from storage.records import Ref
from storage.row_searches import Dense, Words
from storage.storage_errors import DamagedIndex

BLOCK = 32
"""Chunks that are fetched at once: hits lie beside each other, and a chunk has about two KB."""
BLOCKS_KEPT = 256


class Owners(NamedTuple):
    """The documents of a segment in the order of their rows, and how many rows each has."""

    documents: Sequence[str]
    rows: Sequence[int]


class Kept(Protocol):
    """What an engine keeps of one generation, pinned."""

    pointer: Pointer
    manifest: Manifest
    close: Callable[[], None]
    """Lets go of the generation."""

    def dense(self, centres: Centres | None) -> Dense:
        """Dense search."""
        ...

    def words(self) -> Words:
        """BM25 search."""
        ...

    def owners(self) -> Sequence[Owners]:
        """Of each segment, in the order of the manifest."""
        ...

    def chunks(self, part: int, first: int, end: int) -> Sequence[bytes]:
        """Chunks of a segment, by their rows there."""
        ...

    def blob(self, ref: Ref) -> bytes | None:
        """A file that is read whole."""
        ...


class EngineIndex(Index):
    """One generation that an engine keeps, open."""

    def __init__(self, kept: Kept, folder: Path, address: str) -> None:
        """folder: stands for `address` (storage.engines), and holds the files that were fetched."""
        self._kept, self._folder, self._address = kept, folder, address
        self.generation, self.digest, self.manifest = kept.pointer.generation, kept.pointer.manifest, kept.manifest
        self._block = lru_cache(BLOCKS_KEPT)(kept.chunks)
        self._sweep()

    def close(self) -> None:
        """Let the generation be removed once it is neither current nor previous."""
        self._kept.close()

    @cached_property
    def vectors(self) -> Dense:
        """Dense search."""
        return self._kept.dense(None if self.centres_file is None else Centres.open(self.centres_file))

    @cached_property
    def lexical(self) -> Words | None:
        """BM25 search; None if the index was made without."""
        return None if self.manifest.tokenizer is None else self._kept.words()

    def chunk(self, row: int) -> bytes:
        """The chunk as JSON; its neighbours are fetched with it."""
        row = range(len(self))[row]
        part = int(self._firsts.searchsorted(row, "right")) - 1
        own = row - int(self._firsts[part])
        first = own - own % BLOCK
        return self._block(part, first, min(first + BLOCK, self.manifest.parts[part].rows))[own - first]

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        """Per row, the position of its document in the catalogue."""
        owners = self._kept.owners()
        places = [self._place[document] for one in owners for document in one.documents]
        return np.repeat(np.array(places, np.int32), [rows for one in owners for rows in one.rows])

    def verify(self, names: object = None) -> None:  # noqa: ARG002
        """Fetch every file that is read whole, and ask for the last chunk. Raises DamagedIndex."""
        for part in self.manifest.parts:
            self._fetch(part.catalogue)
            self._fetch(part.numbers)
        if len(self) != len(self.document_of_row) or (len(self) and not self.chunk(len(self) - 1)):
            raise DamagedIndex(self._damage("lacks rows"))

    @property
    def centres_file(self) -> Path | None:
        """The file of storage.vectors.Centres; None for an index that has none."""
        return None if self.manifest.centres is None else self._fetch(self.manifest.centres)

    @property
    def _number_files(self) -> tuple[Path, ...]:
        return tuple(self._fetch(part.numbers) for part in self.manifest.parts)

    @cached_property
    def _catalogue(self) -> Catalogue:
        for part in self.manifest.parts:
            self._fetch(part.catalogue)
        return super()._catalogue

    def _fetch(self, ref: Ref) -> Path:
        """Where the file of `ref` lies, once it is here."""
        path = self._folder / name_of(ref)
        if not path.exists() or path.stat().st_size != ref.size:
            data = self._kept.blob(ref)
            if data is None or hashlib.sha256(data).hexdigest() != ref.digest:
                raise DamagedIndex(self._damage(f"{'lacks' if data is None else 'has another'} {ref.kind}"))
            files.write(path, data, durable=False)
        return path

    def _sweep(self) -> None:
        """Remove fetched files of other generations; a reader that still needs one fetches it again."""
        folder = self._folder / FILES
        for path in folder.iterdir() if folder.is_dir() else ():
            if f"{FILES}/{path.name}" not in self.manifest.files:
                path.unlink(missing_ok=True)

    def _damage(self, what: str) -> str:
        return f"generation {self.generation} at {self._address} {what}; run `trivet rag index` again to replace it"


def segments_of(manifest: Manifest) -> list[str]:
    """Digests of the texts and vectors of a generation."""
    return sorted({digest for part in manifest.parts for digest in (part.text.digest, part.vectors.digest)})


def blobs_of(manifest: Manifest) -> list[Ref]:
    """The files of a generation that are read whole."""
    found = [ref for part in manifest.parts for ref in (part.numbers, part.catalogue)]
    return found if manifest.centres is None else [*found, manifest.centres]


def firsts_of(manifest: Manifest) -> NDArray[np.int64]:
    """Row at which each segment starts, and where the last one ends."""
    return np.cumsum([0, *(part.rows for part in manifest.parts)], dtype=np.int64)


def near_centres(centres: Centres, query: NDArray[np.float32]) -> list[int]:
    """The lists that a search scans."""
    probes = min(centres.probes, len(centres.vectors))
    return np.argpartition(-(centres.vectors @ query), probes - 1)[:probes].tolist()


def ranges_of(allowed: NDArray[np.bool_], firsts: NDArray[np.int64]) -> Mapping[int, list[tuple[int, int]]]:
    """The rows of a flag per row as ranges (first, end) of rows in each segment; segments without any are left out.

    firsts: row at which each segment starts, and where the last one ends.
    """
    bounds = np.flatnonzero(np.diff(allowed.astype(np.int8), prepend=0, append=0))
    cuts = np.unique(np.concatenate([bounds, firsts]))  # a range ends with its segment
    starts, ends = cuts[:-1], cuts[1:]
    inside = allowed[starts] if len(starts) else np.empty(0, np.bool_)
    found: dict[int, list[tuple[int, int]]] = {}
    for first, end in zip(starts[inside].tolist(), ends[inside].tolist(), strict=True):
        part = int(firsts.searchsorted(first, "right")) - 1
        found.setdefault(part, []).append((first - int(firsts[part]), end - int(firsts[part])))
    return found
