"""Searches of one generation of an index in LanceDB.

LanceDB filters and ranks vectors. Of BM25 it gives the postings of the words that are asked for, from its index of
terms, and they are weighed here: its own full-text search has other scores, of all generations together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage import lance_tables
from storage.centres import Centres
from storage.manifest import Manifest, Pointer
from storage.records import Ref
from storage.remote_index import Owners, firsts_of, near_centres, ranges_of
from storage.remote_words import Fetched, FetchedWords
from storage.storage_errors import DamagedIndex
from storage.vectors import NOTHING, Nearest, require_dimension

RANGES = 200
"""Ranges of rows that one search is asked for: a filter is a text that is parsed."""
MORE = 32
"""Candidates besides the `k` that are wanted: LanceDB rounds the query to half precision, here it is not."""
Reachable = Callable[[], AbstractContextManager[None]]


class LanceGeneration:
    """One generation, at versions of its tables that stay."""

    def __init__(self, tables: Mapping[str, Any], pointer: Pointer, manifest: Manifest, reachable: Reachable) -> None:
        """reachable: turns what LanceDB refuses into EngineAway."""
        self._tables, self._reachable = tables, reachable
        self.pointer, self.manifest = pointer, manifest
        self._texts = [lance_tables.number_of(part.text.digest) for part in manifest.parts]

    def close(self) -> None:
        """Nothing holds a version but its age."""

    def dense(self, centres: Centres | None) -> LanceVectors:
        """Dense search."""
        table = self._tables.get(lance_tables.vectors_name(self.manifest.dimension))
        return LanceVectors(table, self.manifest, centres, self._reachable)

    def words(self) -> FetchedWords:
        """BM25 search."""
        return FetchedWords(self.manifest, self._postings)

    def _postings(self, terms: Sequence[int], parts: Sequence[int]) -> list[Fetched]:
        segments = {self._texts[part]: part for part in parts}
        where = f"term IN ({_listed(terms)}) AND segment IN ({_listed(segments)})"
        columns = ["term", "segment", "rows", "frequencies", "lengths"]
        with self._reachable():
            found = lance_tables.found(self._tables["postings"], where=where, columns=columns)
        named = zip(found["term"].to_pylist(), found["segment"].to_pylist(), strict=True)
        return [
            Fetched(term, segments[segment], *(found[name][at].values.to_numpy() for name in columns[2:]))
            for at, (term, segment) in enumerate(named)
        ]

    def owners(self) -> list[Owners]:
        """The documents of the rows of each segment."""
        with self._reachable():
            kept = lance_tables.rows(self._tables["owners"], columns=["segment", "documents", "rows"])
        of = {row["segment"]: Owners(row["documents"], row["rows"]) for row in kept}
        return [of[segment] for segment in self._texts]

    def chunks(self, part: int, first: int, end: int) -> list[bytes]:
        """Chunks of a segment, by their rows there. Raises DamagedIndex."""
        where = f"segment = {self._texts[part]} AND row >= {first} AND row < {end}"
        with self._reachable():
            kept = lance_tables.rows(self._tables["chunks"], where=where, columns=["row", "chunk"])
        if len(kept) != end - first:
            raise DamagedIndex(f"generation {self.pointer.generation} is no longer there; open the index again")
        return [row["chunk"] for row in sorted(kept, key=lambda row: row["row"])]

    def blob(self, ref: Ref) -> bytes | None:
        """A file that is read whole."""
        where = f"segment = {lance_tables.number_of(ref.digest)}"
        with self._reachable():
            kept = lance_tables.rows(self._tables["blobs"], where=where, columns=["data"])
        return kept[0]["data"] if kept else None


class LanceVectors:
    """Dense search by LanceDB, exact; in the lists of the nearest centres where the index has centres."""

    def __init__(self, table: Any, manifest: Manifest, centres: Centres | None, reachable: Reachable) -> None:
        self._table, self._reachable = table, reachable
        self._firsts, self.size, self.dimension = firsts_of(manifest), manifest.chunks, manifest.dimension
        self._segments = [lance_tables.number_of(part.vectors.digest) for part in manifest.parts]
        self._starts = dict(zip(self._segments, self._firsts.tolist(), strict=False))
        self._centres = centres if centres is not None and len(centres.vectors) else None

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """The `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly.

        Raises ValueError if the query has another dimension.
        """
        require_dimension(query, self)
        if k < 1 or not self.size:
            return NOTHING
        everywhere = f"segment IN ({_listed(self._segments)})"
        if allowed is None and self._centres is not None:
            lists = _listed(near_centres(self._centres, query))
            near = self._nearest(query, k, [f"{everywhere} AND list IN ({lists})"])
            if len(near.rows) >= min(k, self.size):  # else these lists hold too few
                return near
        return self._nearest(query, k, [everywhere] if allowed is None else self._filters(allowed))

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of `rows`: (len(rows), dimension)."""
        if not len(rows):
            return np.empty((0, self.dimension), np.float32)
        flags = np.zeros(self.size, np.bool_)
        flags[rows] = True
        columns = ["segment", "row", "vector"]
        with self._reachable():
            kept = [lance_tables.found(self._table, where=one, columns=columns) for one in self._filters(flags)]
        held, vectors = (np.concatenate(each) for each in zip(*map(self._read, kept), strict=True))
        order = np.argsort(held)
        return vectors[order[held[order].searchsorted(rows)]]

    def _nearest(self, query: NDArray[np.float32], k: int, filters: Sequence[str]) -> Nearest:
        """The best of what each filter finds."""
        columns = ["segment", "row", "vector", "_distance"]
        rows, scores = np.empty(0, np.int64), np.empty(0, np.float32)
        for where in filters:
            with self._reachable():
                asked = self._table.search(query).distance_type("dot").where(where, prefilter=True)
                held, vectors = self._read(asked.select(columns).limit(k + MORE).to_arrow())
            rows, scores = np.concatenate([rows, held]), np.concatenate([scores, vectors @ query])
            best = np.lexsort((rows, -scores))[:k]
            rows, scores = rows[best], scores[best]
        return Nearest(rows, scores)

    def _filters(self, allowed: NDArray[np.bool_]) -> list[str]:
        """The rows of a flag per row, a few ranges to a filter."""
        said = [
            f"(segment = {self._segments[part]} AND row >= {first} AND row < {end})"
            for part, ranges in ranges_of(allowed, self._firsts).items()
            for first, end in ranges
        ]
        return [" OR ".join(said[at : at + RANGES]) for at in range(0, len(said), RANGES)]

    def _read(self, found: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows of the index, and their vectors."""
        starts = [self._starts[segment] for segment in found["segment"].to_pylist()]
        held = np.array(starts, np.int64) + found["row"].to_numpy()
        values = found["vector"].combine_chunks().flatten().to_numpy()
        return held, values.astype(np.float32).reshape(-1, self.dimension)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
