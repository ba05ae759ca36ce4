"""Searches of one generation of an index in PostgreSQL: the server ranks, and filters before it ranks.

A filter is a flag per row here, and an int4multirange for each segment there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.generations import Manifest, Pointer
from storage.lexical import Best, Posting
from storage.pg_copying import numbers_of
from storage.records import Ref
from storage.remote_index import Okapi, Owners, firsts_of, near_centres, ranges_of, term_of
from storage.storage_errors import DamagedIndex
from storage.vectors import Centres, Nearest

if TYPE_CHECKING:
    from storage.pg_index import PostgresEngine

SEARCHED = "unnest(%(segments)s::bigint[], %(allowed)s::int4multirange[]) WITH ORDINALITY AS s(segment, allowed, at)"
NEAREST = """
SELECT s.at, v.row, -(v.vector::vector <#> %(query)s::vector)
FROM {source}
ORDER BY v.vector::vector <#> %(query)s::vector, s.at, v.row LIMIT %(k)s
"""
# the server's cast, not one of the query to half precision, which would move scores by 1e-5
EVERYWHERE = NEAREST.format(source=f"{SEARCHED} JOIN vectors v USING (segment)")
NEARBY = NEAREST.format(
    source=f"{SEARCHED} JOIN vectors v ON v.segment = s.segment AND v.list = ANY(%(lists)s::integer[])"
)
AMONG = NEAREST.format(
    source=f"{SEARCHED} CROSS JOIN LATERAL unnest(s.allowed) AS span "
    "JOIN vectors v ON v.segment = s.segment AND v.row >= lower(span) AND v.row < upper(span)"
)
RECONSTRUCTED = """
SELECT halfvec_send(v.vector)
FROM unnest(%s::bigint[], %s::integer[]) WITH ORDINALITY AS r(segment, row, at) JOIN vectors v USING (segment, row)
ORDER BY r.at
"""
HELD = """
SELECT term, sum(held) FROM postings WHERE term = ANY(%s::bigint[]) AND segment = ANY(%s::bigint[]) GROUP BY term
"""
RANKED = f"""
SELECT s.at, h.row, sum(a.weight * h.frequency / (h.frequency + %(base)s + %(slope)s * h.length)) AS score
FROM unnest(%(terms)s::bigint[], %(weights)s::float8[]) AS a(term, weight)
JOIN postings p USING (term) JOIN {SEARCHED} USING (segment)
CROSS JOIN LATERAL unnest(p.rows, p.frequencies, p.lengths) AS h(row, frequency, length)
WHERE s.allowed IS NULL OR h.row <@ s.allowed
GROUP BY s.at, h.row ORDER BY score DESC, s.at, h.row LIMIT %(k)s
"""
POSTING = """
SELECT segment, array_send(rows), array_send(frequencies), array_send(lengths)
FROM postings WHERE term = %s AND segment = ANY(%s::bigint[])
"""
CHUNKS = "SELECT chunk FROM chunks WHERE segment = %s AND row >= %s AND row < %s ORDER BY row"


class PostgresGeneration:
    """What the server keeps of one generation, pinned."""

    def __init__(
        self,
        engine: PostgresEngine,
        pointer: Pointer,
        manifest: Manifest,
        *,
        segments: dict[str, int],
        close: Callable[[], None],
    ) -> None:
        """segments: their numbers by digest. close: lets go of the pin."""
        self._engine = engine
        self.pointer, self.manifest, self.close = pointer, manifest, close
        self._texts = [segments[part.text.digest] for part in manifest.parts]
        self._vectors = [segments[part.vectors.digest] for part in manifest.parts]

    def dense(self, centres: Centres | None) -> PostgresVectors:
        """Dense search."""
        return PostgresVectors(self._engine, self.manifest, self._vectors, centres)

    def words(self) -> PostgresWords:
        """BM25 search."""
        return PostgresWords(self._engine, self.manifest, self._texts)

    def owners(self) -> list[Owners]:
        """The documents of the rows of each segment."""
        return self._engine.owners(self._texts)

    def chunks(self, part: int, first: int, end: int) -> list[bytes]:
        """Chunks of a segment, by their rows there. Raises DamagedIndex."""
        with self._engine.cursor() as cursor:
            found = [chunk for (chunk,) in cursor.execute(CHUNKS, [self._texts[part], first, end])]
        if len(found) != end - first:
            raise DamagedIndex(f"generation {self.pointer.generation} is no longer there; open the index again")
        return found

    def blob(self, ref: Ref) -> bytes | None:
        """A file that is read whole."""
        with self._engine.cursor() as cursor:
            found = cursor.execute("SELECT data FROM blobs WHERE digest = %s", [ref.digest]).fetchone()
        return None if found is None else found[0]


class _Searched:
    """The segments of a generation, for queries over rows."""

    def __init__(self, engine: PostgresEngine, manifest: Manifest, segments: Sequence[int]) -> None:
        self._engine, self._segments = engine, segments
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
        with self._engine.cursor() as cursor:
            found = cursor.execute(query.encode(), values).fetchall()
        return [int(firsts[at - 1]) + row for at, row, _ in found], [score for _, _, score in found]


class PostgresVectors(_Searched):
    """Dense search by pgvector, exact; in the lists of the nearest centres where the index has centres."""

    def __init__(
        self, engine: PostgresEngine, manifest: Manifest, segments: Sequence[int], centres: Centres | None
    ) -> None:
        super().__init__(engine, manifest, segments)
        self.dimension = manifest.dimension
        self._centres = centres if centres is not None and len(centres.vectors) else None

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """The `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly.

        Raises ValueError if the query has another dimension.
        """
        if self.size and query.shape != (self.dimension,):
            raise ValueError(f"the query has shape {query.shape}, this index holds vectors of {self.dimension} numbers")
        if k < 1 or not self.size:
            return Nearest(np.empty(0, np.int64), np.empty(0, np.float32))
        within, firsts = self._within(allowed)
        values = within | {"query": _vector(query), "k": k}
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
        with self._engine.cursor() as cursor:
            found = cursor.execute(RECONSTRUCTED, [[self._segments[at] for at in parts.tolist()], own]).fetchall()
        sent = b"".join(data[4:] for (data,) in found)  # each begins with its dimension
        return np.frombuffer(sent, ">f2").astype(np.float32).reshape(len(rows), self.dimension)


def _vector(values: NDArray[np.float32]) -> str:
    return "[" + ",".join(map(repr, values.astype(np.float64).tolist())) + "]"


class PostgresWords(_Searched):
    """BM25 by the formula of storage.lexical, computed by the server from postings that hold lengths too."""

    def __init__(self, engine: PostgresEngine, manifest: Manifest, segments: Sequence[int]) -> None:
        super().__init__(engine, manifest, segments)
        self._okapi = Okapi.of(manifest)
        self._starts = dict(zip(segments, self._firsts.tolist(), strict=False))

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        times = Counter(map(term_of, query))
        within, firsts = self._within(allowed)
        with self._engine.cursor() as cursor:
            held = cursor.execute(HELD, [list(times), self._segments]).fetchall()
        if k < 1 or not held:
            return Best(np.empty(0, np.int64), np.empty(0))
        weights = [times[term] * self._okapi.weight(int(rows)) for term, rows in held]
        values = within | {"terms": [term for term, _ in held], "weights": weights}
        rows, scores = self._asked(
            RANKED, values | {"base": self._okapi.base, "slope": self._okapi.slope, "k": k}, firsts
        )
        return Best(np.array(rows, np.int64), np.array(scores))

    def posting(self, word: str) -> Posting | None:
        """Where a word stands; None for a word that no row holds."""
        with self._engine.cursor() as cursor:
            found = cursor.execute(POSTING, [term_of(word), self._segments]).fetchall()
        if not found:
            return None
        found.sort(key=lambda one: self._starts[one[0]])
        rows = np.concatenate([self._starts[segment] + numbers_of(sent) for segment, sent, _, _ in found])
        frequencies = np.concatenate([numbers_of(sent) for _, _, sent, _ in found])
        lengths = np.concatenate([numbers_of(sent) for _, _, _, sent in found])
        return Posting(rows, self._okapi.shares(frequencies, lengths) * self._okapi.weight(len(rows)))
