"""Searches of one generation of an index in PostgreSQL: the server ranks vectors, and filters before it ranks.

A filter is a flag per row here, and an int4multirange for each segment there. BM25: storage.remote_words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.centres import Centres
from storage.manifest import Manifest, Pointer
from storage.pg_copying import numbers_of
from storage.pg_tables import PostgresTables
from storage.records import Ref
from storage.remote_index import Owners, firsts_of, near_centres, ranges_of
from storage.remote_words import Fetched, FetchedWords
from storage.storage_errors import DamagedIndex
from storage.vectors import NOTHING, Nearest, require_dimension

MORE = 32
"""Candidates besides the `k` that are wanted: they are found with the query in half precision, and ordered without."""
SEARCHED = "unnest(%(segments)s::bigint[], %(allowed)s::int4multirange[]) WITH ORDINALITY AS s(segment, allowed, at)"
NEAREST = """
SELECT at, row, -(vector::vector <#> %(query)s::vector) AS score FROM (
    SELECT s.at, v.row, v.vector FROM {source}
    ORDER BY v.vector <#> %(query)s::vector::halfvec, s.at, v.row LIMIT %(candidates)s) AS candidate
ORDER BY score DESC, at, row LIMIT %(k)s
"""
EVERYWHERE = NEAREST.format(source=f"{SEARCHED} JOIN vectors v USING (segment)")
NEARBY = NEAREST.format(
    source=f"{SEARCHED} JOIN vectors v ON v.segment = s.segment AND v.list = ANY(%(lists)s::integer[])"
)
# OFFSET 0 keeps the planner from reading all vectors and joining the ranges to them
AMONG = NEAREST.format(
    source=f"{SEARCHED} CROSS JOIN LATERAL unnest(s.allowed) AS span CROSS JOIN LATERAL (SELECT row, vector "
    "FROM vectors WHERE segment = s.segment AND row >= lower(span) AND row < upper(span) OFFSET 0) AS v"
)
RECONSTRUCTED = """
SELECT halfvec_send(v.vector)
FROM unnest(%s::bigint[], %s::integer[]) WITH ORDINALITY AS r(segment, row, at) JOIN vectors v USING (segment, row)
ORDER BY r.at
"""
POSTINGS = """
SELECT term, segment, held, rows, frequencies, lengths
FROM postings WHERE term = ANY(%s::bigint[]) AND segment = ANY(%s::bigint[])
"""
OWNERS = "SELECT segment, documents, rows FROM segments WHERE segment = ANY(%s)"
CHUNKS = "SELECT chunk FROM chunks WHERE segment = %s AND row >= %s AND row < %s ORDER BY row"


class PostgresGeneration:
    """What the server keeps of one generation, pinned."""

    def __init__(
        self,
        tables: PostgresTables,
        pointer: Pointer,
        manifest: Manifest,
        *,
        segments: dict[str, int],
        close: Callable[[], None],
    ) -> None:
        """segments: their numbers by digest. close: lets go of the pin."""
        self._tables = tables
        self.pointer, self.manifest, self.close = pointer, manifest, close
        self._texts = [segments[part.text.digest] for part in manifest.parts]
        self._vectors = [segments[part.vectors.digest] for part in manifest.parts]

    def dense(self, centres: Centres | None) -> PostgresVectors:
        """Dense search."""
        return PostgresVectors(self._tables, self.manifest, self._vectors, centres)

    def words(self) -> FetchedWords:
        """BM25 search."""
        return FetchedWords(self.manifest, self._postings)

    def _postings(self, terms: Sequence[int], parts: Sequence[int]) -> list[Fetched]:
        segments = {self._texts[part]: part for part in parts}
        with self._tables.cursor() as cursor:
            found = cursor.execute(POSTINGS, [terms, list(segments)]).fetchall()
        return [
            Fetched(term, segments[segment], *(numbers_of(sent, held) for sent in lists))
            for term, segment, held, *lists in found
        ]

    def owners(self) -> list[Owners]:
        """The documents of the rows of each segment."""
        with self._tables.cursor() as cursor:
            found = cursor.execute(OWNERS, [self._texts])
            of = {segment: Owners(documents, rows) for segment, documents, rows in found}
        return [of[segment] for segment in self._texts]

    def chunks(self, part: int, first: int, end: int) -> list[bytes]:
        """Chunks of a segment, by their rows there. Raises DamagedIndex."""
        with self._tables.cursor() as cursor:
            found = [chunk for (chunk,) in cursor.execute(CHUNKS, [self._texts[part], first, end])]
        if len(found) != end - first:
            raise DamagedIndex(f"generation {self.pointer.generation} is no longer there; open the index again")
        return found

    def blob(self, ref: Ref) -> bytes | None:
        """A file that is read whole."""
        with self._tables.cursor() as cursor:
            found = cursor.execute("SELECT data FROM blobs WHERE digest = %s", [ref.digest]).fetchone()
        return None if found is None else found[0]


class _Searched:
    """The segments of a generation, for queries over rows."""

    def __init__(self, tables: PostgresTables, manifest: Manifest, segments: Sequence[int]) -> None:
        self._tables, self._segments = tables, segments
        self._firsts, self.size = firsts_of(manifest), manifest.chunks

    def _within(self, allowed: NDArray[np.bool_] | None) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Parameters that name the segments and rows to search, and where each of these segments starts."""
        if allowed is None:
            return {"segments": self._segments, "allowed": [None] * len(self._segments)}, self._firsts
        ranges = ranges_of(allowed, self._firsts)
        spans = ["{" + ",".join(f"[{first},{end})" for first, end in each) + "}" for each in ranges.values()]
        return {"segments": [self._segments[at] for at in ranges], "allowed": spans}, self._firsts[list(ranges)]

    def _asked(self, query: str, values: dict[str, Any], firsts: NDArray[np.int64]) -> tuple[list[int], list[float]]:
        """Rows and scores, best first."""
        with self._tables.cursor() as cursor:
            found = cursor.execute(query.encode(), values).fetchall()
        return [int(firsts[at - 1]) + row for at, row, _ in found], [score for _, _, score in found]


class PostgresVectors(_Searched):
    """Dense search by pgvector, exact; in the lists of the nearest centres where the index has centres."""

    def __init__(
        self, tables: PostgresTables, manifest: Manifest, segments: Sequence[int], centres: Centres | None
    ) -> None:
        super().__init__(tables, manifest, segments)
        self.dimension = manifest.dimension
        self._centres = centres if centres is not None and len(centres.vectors) else None

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """The `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly.

        Raises ValueError if the query has another dimension.
        """
        require_dimension(query, self)
        if k < 1 or not self.size:
            return NOTHING
        within, firsts = self._within(allowed)
        values = within | {"query": _vector(query), "k": k, "candidates": k + MORE}
        if allowed is None and self._centres is not None:
            rows, scores = self._asked(NEARBY, values | {"lists": near_centres(self._centres, query)}, firsts)
            if len(rows) >= min(k, self.size):  # else the probed lists hold too few
                return Nearest(np.array(rows, np.int64), np.array(scores, np.float32))
        rows, scores = self._asked(EVERYWHERE if allowed is None else AMONG, values, firsts)
        return Nearest(np.array(rows, np.int64), np.array(scores, np.float32))

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of `rows`: (len(rows), dimension)."""
        if not len(rows):
            return np.empty((0, self.dimension), np.float32)
        parts = self._firsts.searchsorted(rows, "right") - 1
        own = (rows - self._firsts[parts]).tolist()
        with self._tables.cursor() as cursor:
            found = cursor.execute(RECONSTRUCTED, [[self._segments[at] for at in parts.tolist()], own]).fetchall()
        sent = b"".join(data[4:] for (data,) in found)  # each begins with its dimension
        return np.frombuffer(sent, ">f2").astype(np.float32).reshape(len(rows), self.dimension)


def _vector(values: NDArray[np.float32]) -> str:
    return "[" + ",".join(map(repr, values.astype(np.float64).tolist())) + "]"
