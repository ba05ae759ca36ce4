"""BM25 over segments: the Okapi scores of rank-bm25 for the whole index, computed from counts when a query comes.

A segment holds, in its text file, `hashes` (of each term, sorted), `starts` (where each term's postings start),
`rows` and `frequencies` (a posting: row of the segment, and how often the term stands there) and `lengths` (words of
each row). A term is its 64-bit hash: of ten million terms two are taken for one with a chance of 3 in a million.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from storage.arrays import smallest

_OKAPI: Any = BM25Okapi([["any"]])
K1, B, EPSILON = _OKAPI.k1, _OKAPI.b, _OKAPI.epsilon
"""rank-bm25's: saturation, weight of the length, and the share of the mean idf that words of most rows get."""
GROUP = 64
"""Rows of a group, whose best score is taken first when the top rows are looked for."""
LAST = np.uint64(2**64 - 1)
"""Ends the hashes of each segment, so that a search always lands on one."""
CACHED_ROWS = 64 << 20
"""Words are kept in memory while their number times that of the rows stays below this, and 32 in any case: some
hundred MB, since few words stand in every third row."""
SLICES = 16
"""Parts in which the vocabulary is merged; as many times less memory."""


class Postings(NamedTuple):
    """The inverted index of the token lists of a segment; fields as the arrays of its file."""

    hashes: NDArray[np.uint64]
    """One more than there are terms: `LAST` at the end."""
    starts: NDArray[Any]
    """Two more than there are terms."""
    lengths: NDArray[Any]
    rows: NDArray[Any]
    frequencies: NDArray[Any]


class BestRows(NamedTuple):
    """The best rows (k,) and their scores (k,), by falling score; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


class Posting(NamedTuple):
    """Where a word stands, by rising row, and what it adds to the score of each of these rows."""

    rows: NDArray[np.uint32]
    weights: NDArray[np.float64]
    idf: float


def count_postings(tokens: Iterable[Sequence[str]]) -> Postings:
    """The postings of one token list per row; the same lists give the same arrays."""
    known: dict[str, int] = {}
    occurrences, lengths = array("q"), array("q")
    for words in tokens:
        occurrences.extend([known.setdefault(word, len(known)) for word in words])
        lengths.append(len(words))
    counts = np.array(lengths, np.int64)
    hashes = np.array([hash_of(term) for term in known], np.uint64)
    vocabulary, placed = np.unique(hashes, return_inverse=True)
    # one number per occurrence that sorts by term, then by row
    count = max(len(counts), 1)
    row_of = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    postings, frequencies = np.unique(placed[np.array(occurrences, np.int64)] * count + row_of, return_counts=True)
    term, row = np.divmod(postings, count)
    rows_per_term = np.bincount(term, minlength=len(vocabulary))
    ends = np.cumsum(rows_per_term, dtype=np.int64)
    return Postings(
        hashes=np.append(vocabulary, LAST).astype(np.uint64),
        starts=smallest(np.concatenate([[0], ends, ends[-1:] if len(ends) else [0]]).astype(np.int64)),
        lengths=smallest(counts),
        rows=smallest(row),
        frequencies=smallest(frequencies),
    )


class Whole(NamedTuple):
    """What BM25 must know of the whole index."""

    rows: int
    tokens: int
    mean_idf: float
    """Of all terms, by Okapi's formula, which may be below 0; 0 where there are no terms."""

    @classmethod
    def of(cls, segments: Sequence[Postings]) -> Whole:
        """Counted from all segments, a slice of their terms at a time."""
        rows = sum(len(one.lengths) for one in segments)
        tokens = sum(int(one.lengths.sum(dtype=np.int64)) for one in segments)
        total, terms = 0.0, 0
        bounds = [np.uint64(min(at * 2**64 // SLICES, 2**64 - 1)) for at in range(SLICES + 1)]
        for low, high in pairwise(bounds):
            hashes, held = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
            for one in segments:
                begin, end = one.hashes[:-1].searchsorted(np.array([low, high]))
                hashes.append(one.hashes[begin:end])
                held.append(np.diff(one.starts[begin : end + 1].astype(np.int64)))
            _, at = np.unique(np.concatenate(hashes), return_inverse=True)
            frequencies = np.bincount(at, weights=np.concatenate(held)).astype(np.float64)  # rows that hold each term
            total += float((np.log(rows - frequencies + 0.5) - np.log(frequencies + 0.5)).sum())
            terms += len(frequencies)
        return cls(rows, tokens, total / max(terms, 1))


class Lexical:
    """Open postings of all segments; pages are read from disk when a query needs them."""

    def __init__(self, segments: Sequence[Postings], whole: Whole) -> None:
        self.size = whole.rows
        self._whole, self._segments = whole, segments
        self._firsts = np.cumsum([0, *(len(one.lengths) for one in segments)], dtype=np.uint32)
        self.posting = lru_cache(maxsize=max(CACHED_ROWS // max(self.size, 1), 32))(self._read)
        """Where a word stands and what it adds to the score; None for a word that no row holds."""

    def scores(self, query: Sequence[str]) -> NDArray[np.float64]:
        """Every row's score; a word that stands twice in the query counts twice."""
        return self._add_up(self._find_postings(query))

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> BestRows:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        postings = self._find_postings(query)
        scores, above = self._add_up(postings), 0.0
        if not all(posting.idf > 0 for posting in postings):
            # only in small indexes: a score may be 0 or less, so it does not tell which rows hold a word
            held = np.zeros(self.size, np.bool_)
            for posting in postings:
                held[posting.rows] = True
            scores[~held], above = -np.inf, -np.inf
        if allowed is not None:
            scores[~allowed] = -np.inf
        return best_rows(scores, k, above=above)

    def _find_postings(self, query: Sequence[str]) -> list[Posting]:
        """The words of the query that stand in a row, as often as the query holds them, the rarest first."""
        # one order, whatever the query's, so that the sums are the same to the last bit
        postings = [posting for word in query if (posting := self.posting(word)) is not None]
        return sorted(postings, key=lambda posting: len(posting.rows))

    def _add_up(self, postings: Iterable[Posting]) -> NDArray[np.float64]:
        scores = np.zeros(self.size)
        for posting in postings:
            np.add.at(scores, posting.rows, posting.weights)  # twice as fast as `scores[rows] += …`
        return scores

    def _read(self, word: str) -> Posting | None:
        """A word from all segments."""
        code = np.uint64(hash_of(word))
        rows, frequencies = list[NDArray[Any]](), list[NDArray[Any]]()
        for one, first in zip(self._segments, self._firsts, strict=False):
            place = one.hashes.searchsorted(code)
            if one.hashes[place] == code:
                begin, end = one.starts[place : place + 2].tolist()
                rows.append(one.rows[begin:end] + first)
                frequencies.append(one.frequencies[begin:end])
        if not rows:
            return None
        where, counted = np.concatenate(rows), np.concatenate(frequencies).astype(np.float64)
        idf = math.log(self.size - len(where) + 0.5) - math.log(len(where) + 0.5)
        idf = idf if idf >= 0 else EPSILON * self._whole.mean_idf
        return Posting(where, counted / (self._norms[where] + counted) * (idf * (K1 + 1)), idf)

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Per row, how much its length takes from a repetition."""
        lengths = np.concatenate([one.lengths for one in self._segments]) if self._segments else np.empty(0)
        mean = self._whole.tokens / max(self.size, 1) or 1.0
        return K1 * (1 - B + B * lengths / mean)


def best_rows(scores: NDArray[np.float64], k: int, *, above: float) -> BestRows:
    """The `k` highest scores over `above`.

    The k-th best of the groups' maxima cannot exceed the k-th best score: what lies below it is never sorted.
    """
    groups = len(scores) // GROUP
    if 0 < k < groups:
        maxima = scores[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        floor = np.partition(maxima, groups - k)[groups - k]
        above = max(above, np.nextafter(floor, -np.inf))
    rows = np.flatnonzero(scores > above)
    order = np.lexsort((rows, -scores[rows]))[: max(k, 0)]
    return BestRows(rows[order], scores[rows[order]])


def postings_of(arrays: Mapping[str, NDArray[Any]]) -> Postings:
    """The postings among the arrays of a segment's text file."""
    return Postings(*(arrays[field] for field in Postings._fields))


def hash_of(term: str) -> int:
    """64-bit hash of a term, equal on every machine; never LAST, the largest, which ends the hashes of a segment."""
    return min(int.from_bytes(blake2b(term.encode(), digest_size=8).digest()), 2**64 - 2)
