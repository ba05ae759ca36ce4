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

from storage.arrays import narrow_integers

_OKAPI: Any = BM25Okapi([["any"]])
K1, B, EPSILON = _OKAPI.k1, _OKAPI.b, _OKAPI.epsilon
"""The constants of rank-bm25: saturation, weight of the length, and the share of the mean idf that common words get."""
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
    """Position of each term's first posting; two more than there are terms, so that every term also has an end."""
    lengths: NDArray[Any]
    rows: NDArray[Any]
    frequencies: NDArray[Any]


class BestRows(NamedTuple):
    """The best rows (k,) and their scores (k,), by falling score; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


class Posting(NamedTuple):
    """The rows that hold a word, rising, and what the word adds to the score of each."""

    rows: NDArray[np.uint32]
    weights: NDArray[np.float64]
    idf: float


def count_postings(tokens: Iterable[Sequence[str]]) -> Postings:
    """Return the postings of one token list per row; the same lists give the same arrays."""
    number_of: dict[str, int] = {}
    occurrences, lengths = array("q"), array("q")
    for words in tokens:
        occurrences.extend([number_of.setdefault(word, len(number_of)) for word in words])
        lengths.append(len(words))
    counts = np.array(lengths, np.int64)
    hashes = np.array([hash_of(term) for term in number_of], np.uint64)
    vocabulary, term_of = np.unique(hashes, return_inverse=True)
    # one number per occurrence that sorts by term, then by row
    count = max(len(counts), 1)
    row_of = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    postings, frequencies = np.unique(term_of[np.array(occurrences, np.int64)] * count + row_of, return_counts=True)
    term, row = np.divmod(postings, count)
    rows_per_term = np.bincount(term, minlength=len(vocabulary))
    ends = np.cumsum(rows_per_term, dtype=np.int64)
    return Postings(
        hashes=np.append(vocabulary, LAST).astype(np.uint64),
        starts=narrow_integers(np.concatenate([[0], ends, ends[-1:] if len(ends) else [0]]).astype(np.int64)),
        lengths=narrow_integers(counts),
        rows=narrow_integers(row),
        frequencies=narrow_integers(frequencies),
    )


class IndexCounts(NamedTuple):
    """The counts of the whole index that BM25 scores need."""

    rows: int
    tokens: int
    mean_idf: float
    """Mean of Okapi's idf over all terms, which may be below 0; 0 where there are no terms."""

    @classmethod
    def of(cls, segments: Sequence[Postings]) -> IndexCounts:
        """Return the counts of all segments together, worked out for a slice of their terms at a time."""
        rows = sum(len(segment.lengths) for segment in segments)
        tokens = sum(int(segment.lengths.sum(dtype=np.int64)) for segment in segments)
        total, terms = 0.0, 0
        bounds = [np.uint64(min(number * 2**64 // SLICES, 2**64 - 1)) for number in range(SLICES + 1)]
        for low, high in pairwise(bounds):
            hashes, counts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
            for segment in segments:
                begin, end = segment.hashes[:-1].searchsorted(np.array([low, high]))  # LAST is no term
                hashes.append(segment.hashes[begin:end])
                counts.append(np.diff(segment.starts[begin : end + 1].astype(np.int64)))
            _, term_numbers = np.unique(np.concatenate(hashes), return_inverse=True)
            # the number of rows that hold each term
            frequencies = np.bincount(term_numbers, weights=np.concatenate(counts)).astype(np.float64)
            total += float((np.log(rows - frequencies + 0.5) - np.log(frequencies + 0.5)).sum())
            terms += len(frequencies)
        return cls(rows, tokens, total / max(terms, 1))


class Lexical:
    """Open postings of all segments; pages are read from disk when a query needs them."""

    def __init__(self, segments: Sequence[Postings], whole: IndexCounts) -> None:
        self.size = whole.rows
        self._whole, self._segments = whole, segments
        self._firsts = np.cumsum([0, *(len(segment.lengths) for segment in segments)], dtype=np.uint32)
        self.posting = lru_cache(maxsize=max(CACHED_ROWS // max(self.size, 1), 32))(self._read)
        """Return a word's Posting, None where no row holds it; k1 and b are rank-bm25's unless they are given."""

    def scores(self, query: Sequence[str]) -> NDArray[np.float64]:
        """Return every row's score; a word that stands twice in the query counts twice."""
        return self._add_up(self._find_postings(query))

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> BestRows:
        """Return the `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        postings = self._find_postings(query)
        scores, above = self._add_up(postings), 0.0
        if not all(posting.idf > 0 for posting in postings):
            # only in small indexes: a score may be 0 or less, so it does not tell which rows hold a word
            matching = np.zeros(self.size, np.bool_)
            for posting in postings:
                matching[posting.rows] = True
            scores[~matching], above = -np.inf, -np.inf
        if allowed is not None:
            scores[~allowed] = -np.inf
        return best_rows(scores, k, above=above)

    def _find_postings(self, query: Sequence[str]) -> list[Posting]:
        """Return the words of the query that stand in a row, as often as the query holds them, the rarest first."""
        # one order, whatever the query's, so that the sums are the same to the last bit
        postings = [posting for word in query if (posting := self.posting(word)) is not None]
        return sorted(postings, key=lambda posting: len(posting.rows))

    def _add_up(self, postings: Iterable[Posting]) -> NDArray[np.float64]:
        scores = np.zeros(self.size)
        for posting in postings:
            np.add.at(scores, posting.rows, posting.weights)  # twice as fast as `scores[rows] += …`
        return scores

    def _read(self, word: str, k1: float = K1, b: float = B) -> Posting | None:
        """Return the rows that hold a word with their scores by BM25, over all segments; None where none does."""
        code = np.uint64(hash_of(word))
        rows, frequencies = list[NDArray[Any]](), list[NDArray[Any]]()
        for segment, first in zip(self._segments, self._firsts, strict=False):  # a first more: where the last one ends
            place = segment.hashes.searchsorted(code)
            if segment.hashes[place] == code:
                begin, end = segment.starts[place : place + 2].tolist()
                rows.append(segment.rows[begin:end] + first)
                frequencies.append(segment.frequencies[begin:end])
        if not rows:
            return None
        row_numbers, counted = np.concatenate(rows), np.concatenate(frequencies).astype(np.float64)
        idf = math.log(self.size - len(row_numbers) + 0.5) - math.log(len(row_numbers) + 0.5)
        idf = idf if idf >= 0 else EPSILON * self._whole.mean_idf
        mean = self._whole.tokens / max(self.size, 1) or 1.0  # rows without any word: nothing to divide by
        norms = k1 * (1 - b + b * self._lengths[row_numbers] / mean)  # by which a row's length dampens a frequency
        return Posting(row_numbers, counted / (norms + counted) * (idf * (k1 + 1)), idf)

    @cached_property
    def _lengths(self) -> NDArray[Any]:
        return np.concatenate([segment.lengths for segment in self._segments]) if self._segments else np.empty(0)


def best_rows(scores: NDArray[np.float64], k: int, *, above: float) -> BestRows:
    """Return the `k` highest of the scores over `above`, with their rows.

    The k-th best of the groups' maxima cannot exceed the k-th best score: what lies below it is never sorted.
    """
    groups = len(scores) // GROUP
    if 0 < k < groups:
        maxima = scores[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        floor = np.partition(maxima, groups - k)[groups - k]
        above = max(above, np.nextafter(floor, -np.inf))  # a little less, so that those equal to the floor stay
    rows = np.flatnonzero(scores > above)
    order = np.lexsort((rows, -scores[rows]))[: max(k, 0)]
    return BestRows(rows[order], scores[rows[order]])


def postings_of(arrays: Mapping[str, NDArray[Any]]) -> Postings:
    """Return the postings among the arrays of a segment's text file."""
    return Postings(*(arrays[field] for field in Postings._fields))


def hash_of(term: str) -> int:
    """Return a term's 64-bit hash, equal on every machine; never LAST, which ends the hashes of a segment."""
    return min(int.from_bytes(blake2b(term.encode(), digest_size=8).digest()), 2**64 - 2)
