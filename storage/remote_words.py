"""BM25 of an index that an engine keeps: the engine finds the postings of the words that are asked for, and the scores
are computed here, from numbers of one generation, so that they are those of a folder.

Full-text search of an engine weighs by all rows of its tables, also those of other generations. In SQL, weighing took
several times as long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.lexical import EPSILON, K1, B, Best, Posting, best_rows, hash_of
from storage.manifest import Manifest
from storage.remote_index import firsts_of


class Fetched(NamedTuple):
    """Where a term stands in a segment."""

    term: int
    part: int
    """Position of the segment in the manifest."""
    rows: NDArray[Any]
    """Of the segment."""
    frequencies: NDArray[Any]
    lengths: NDArray[Any]
    """Words of each of these rows."""


Fetch = Callable[[Sequence[int], Sequence[int]], Iterable[Fetched]]
"""(terms, positions of segments) → their postings."""


class FetchedWords:
    """BM25 by the formula of storage.lexical."""

    def __init__(self, manifest: Manifest, fetch: Fetch) -> None:
        self._firsts, self.size, self._fetch = firsts_of(manifest), manifest.chunks, fetch
        self._every = [at for at, part in enumerate(manifest.parts) if part.rows]
        self._mean_idf = manifest.mean_idf
        self._mean = sum(part.tokens for part in manifest.parts) / max(manifest.chunks, 1) or 1.0

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        times, scores, held = Counter(map(term_of, query)), np.zeros(self.size), np.zeros(self.size, np.bool_)
        for term, (rows, weights) in self._postings(list(times)).items():
            np.add.at(scores, rows, weights * times[term])
            held[rows] = True
        scores[~held if allowed is None else ~(held & allowed)] = -np.inf
        return best_rows(scores, k, above=-np.inf)

    def posting(self, word: str) -> Posting | None:
        """Where a word stands; None for a word that no row holds."""
        return self._postings([term_of(word)]).get(term_of(word))

    def _postings(self, terms: Sequence[int]) -> dict[int, Posting]:
        found: dict[int, list[Fetched]] = {}
        for one in self._fetch(terms, self._every) if terms and self._every else ():
            found.setdefault(one.term, []).append(one)
        return {term: self._weighed(sorted(each, key=lambda one: one.part)) for term, each in found.items()}

    def _weighed(self, held: list[Fetched]) -> Posting:
        rows = np.concatenate([one.rows + self._firsts[one.part] for one in held])
        frequencies = np.concatenate([one.frequencies for one in held]).astype(np.float64)
        lengths = np.concatenate([one.lengths for one in held])
        idf = math.log(self.size - len(rows) + 0.5) - math.log(len(rows) + 0.5)
        weight = (idf if idf >= 0 else EPSILON * self._mean_idf) * (K1 + 1)
        return Posting(rows, frequencies / (frequencies + K1 * (1 - B + B * lengths / self._mean)) * weight)


def term_of(word: str) -> int:
    """The hash of a term as a 64-bit number with a sign, as databases know them."""
    return int(np.uint64(hash_of(word)).view(np.int64))
