"""BM25 over segments: the Okapi scores of rank-bm25 for the whole index, computed from counts when a query comes.

A segment holds, in its text file, `hashes` (of each term, sorted), `starts` (where each term's postings start),
`rows` and `frequencies` (a posting: row of the segment, and how often the term stands there) and `lengths` (words of
each row). A term is its 64-bit hash: of ten million terms two are taken for one with a chance of 3 in a million.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
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
PRUNED_FROM = 200_000
"""Rows from which on rare words choose the rows for which frequent ones are looked up."""
LOOK_UP_COST = 4
"""Of a row in the postings of a word, in postings that are read one after the other."""
LOOKED_UP_FROM = 40_000
"""Postings that take longer to be read than the best rows take to be looked up in those of all words."""
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


class Best(NamedTuple):
    """Rows by falling score; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


class Posting(NamedTuple):
    """Where a word stands, by rising row, and what it adds to the score of each of these rows."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


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
            frequencies = _rows_per_term(segments, low, high)
            total += float((np.log(rows - frequencies + 0.5) - np.log(frequencies + 0.5)).sum())
            terms += len(frequencies)
        return cls(rows, tokens, total / max(terms, 1))


def _rows_per_term(segments: Sequence[Postings], low: np.uint64, high: np.uint64) -> NDArray[np.float64]:
    """In how many rows each term stands, of the terms whose hashes lie between these."""
    hashes, held = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for one in segments:
        begin, end = one.hashes[:-1].searchsorted(np.array([low, high]))
        hashes.append(one.hashes[begin:end])
        held.append(np.diff(one.starts[begin : end + 1].astype(np.int64)))
    _, at = np.unique(np.concatenate(hashes), return_inverse=True)
    return np.bincount(at, weights=np.concatenate(held)).astype(np.float64)


class Term(NamedTuple):
    """A word of a query, and where its postings lie in each segment."""

    idf: float
    begins: Sequence[int]
    ends: Sequence[int]
    rows: int
    """In how many rows it stands."""


class Lexical:
    """Open postings of all segments; pages are read from disk when a query needs them."""

    def __init__(self, segments: Sequence[Postings], whole: Whole) -> None:
        self.size = whole.rows
        self._whole, self._segments = whole, segments
        self._firsts = np.cumsum([0, *(len(one.lengths) for one in segments)], dtype=np.int64)
        self._scratch = threading.local()

    def scores(self, query: Sequence[str]) -> NDArray[np.float64]:
        """Every row's score; a word that stands twice in the query counts twice."""
        return self._scores(self._found(query))

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        terms = self._found(query)
        weighs = all(term.idf > 0 for term in terms)
        if allowed is None and weighs and k > 0 and self.size >= PRUNED_FROM:
            return self._pruned(terms, k)
        scores, above = self._scores(terms), 0.0
        if not weighs:
            # only in small indexes: a score may be 0 or less, so it does not tell which rows hold a word
            held = np.zeros(self.size, np.bool_)
            for term in terms:
                held[self._posting(term).rows] = True
            scores[~held], above = -np.inf, -np.inf
        if allowed is not None:
            scores[~allowed] = -np.inf
        return best_rows(scores, k, above=above)

    def posting(self, word: str) -> Posting | None:
        """None for a word that no row holds."""
        return next((self._posting(term) for term in self._found([word])), None)

    def _scores(self, terms: Iterable[Term]) -> NDArray[np.float64]:
        scores = np.zeros(self.size)
        for term in terms:
            rows, weights = self._posting(term)
            np.add.at(scores, rows, weights)  # twice as fast as `scores[rows] += …`
        return scores

    def _pruned(self, terms: list[Term], k: int) -> Best:
        """As a search through all scores, without most postings of frequent words (MaxScore, Turtle and Flood 1995).

        Words are taken from the rarest on, until what the others can add is less than what the k-th best row has: then
        only rows with one of the words taken can be among the best, and the others are looked up for these alone.
        """
        waiting = list(terms)
        scores, touched = self._cleared(), list[NDArray[np.int64]]()
        least = 0.0
        while waiting and _hopeful(scores, touched, least - _most(waiting)) * LOOK_UP_COST >= waiting[0].rows:
            rows, weights = self._posting(waiting.pop(0))
            np.add.at(scores, rows, weights)
            touched.append(rows)
            if len(rows) >= k:
                best = np.sort(rows[np.argpartition(scores[rows], len(rows) - k)[len(rows) - k :]])
                reached = scores[best]
                for term in waiting if waiting and waiting[0].rows > LOOKED_UP_FROM else ():
                    reached = reached + self._weights_at(term, best)
                least = max(least, float(reached.min()))
        found, sums = _taken(scores, touched, least - _most(waiting))
        for at, term in enumerate(waiting):
            sums += self._weights_at(term, found)
            still = sums >= least - _most(waiting[at + 1 :])
            found, sums = found[still], sums[still]
        best = np.lexsort((found, -sums))[:k]
        return Best(found[best], sums[best])

    def _cleared(self) -> NDArray[np.float64]:
        """A zero for each row, this thread's; to be given back as zeros."""
        if not hasattr(self._scratch, "scores"):
            self._scratch.scores = np.zeros(self.size)
        return self._scratch.scores

    def _found(self, query: Sequence[str]) -> list[Term]:
        """The words of the query that stand in a row, as often as the query holds them, the rarest first."""
        hashes = np.array([hash_of(word) for word in query], np.uint64)
        begins = np.zeros((len(self._segments), len(query)), np.int64)
        ends = np.zeros_like(begins)
        for at, one in enumerate(self._segments):
            places = one.hashes.searchsorted(hashes)
            begins[at] = one.starts[places]
            ends[at] = one.starts[places + (one.hashes[places] == hashes)]
        held = (ends - begins).sum(axis=0).tolist()
        # one order for all ways to add them up, so that the sums are the same to the last bit
        order = sorted((at for at, count in enumerate(held) if count), key=held.__getitem__)
        return [Term(self._idf(held[at]), begins[:, at].tolist(), ends[:, at].tolist(), held[at]) for at in order]

    def _idf(self, held: int) -> float:
        idf = math.log(self.size - held + 0.5) - math.log(held + 0.5)
        return idf if idf >= 0 else EPSILON * self._whole.mean_idf

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Per row, how much its length takes from a repetition."""
        lengths = np.concatenate([one.lengths for one in self._segments]) if self._segments else np.empty(0)
        mean = self._whole.tokens / max(self.size, 1) or 1.0
        return K1 * (1 - B + B * lengths / mean)

    def _posting(self, term: Term) -> Posting:
        spans = list(zip(self._segments, term.begins, term.ends, strict=True))
        rows = np.concatenate([one.rows[begin:end] for one, begin, end in spans], dtype=np.int64)
        rows += np.repeat(self._firsts[:-1], [end - begin for _, begin, end in spans])
        frequencies = np.concatenate([one.frequencies[begin:end] for one, begin, end in spans])
        return Posting(rows, self._weights(term, frequencies, rows))

    def _weights(self, term: Term, frequencies: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        counted = frequencies.astype(np.float64)
        weights = self._norms[rows]
        weights += counted
        np.divide(counted, weights, out=weights)
        weights *= term.idf * (K1 + 1)
        return weights

    def _weights_at(self, term: Term, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the word adds to each of these rows, which rise; 0 where it does not stand."""
        where = self._firsts.searchsorted(rows, "right") - 1
        own = rows - self._firsts[where]
        bounds = [0, *(np.flatnonzero(np.diff(where)) + 1).tolist(), len(rows)] if len(rows) else []
        frequencies = np.zeros(len(rows))
        for (first, last), at in zip(pairwise(bounds), where[bounds[:-1]].tolist(), strict=True):
            one, begin, end = self._segments[at], term.begins[at], term.ends[at]
            if begin < end:
                stored, wanted = one.rows[begin:end], own[first:last].astype(one.rows.dtype)
                places = stored.searchsorted(wanted)
                places[places == end - begin] = 0
                frequencies[first:last] = (stored[places] == wanted) * one.frequencies[begin:end][places]
        return self._weights(term, frequencies, rows)


def _taken(
    scores: NDArray[np.float64], touched: list[NDArray[np.int64]], enough: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows that have enough, rising, and their scores; all touched rows have none afterwards."""
    near, reached = [np.empty(0, np.int64)], [np.empty(0)]
    for rows in touched:
        sums = scores[rows]
        kept = (sums >= enough) & (sums > 0)
        near.append(rows[kept])
        reached.append(sums[kept])
        scores[rows] = 0.0  # so that a row comes once
    found = np.concatenate(near)
    order = np.argsort(found)
    return found[order], np.concatenate(reached)[order]


def _hopeful(scores: NDArray[np.float64], touched: list[NDArray[np.int64]], enough: float) -> int:
    """How many rows have enough; as good as all where a row needs nothing."""
    return sum(int(np.count_nonzero(scores[rows] >= enough)) for rows in touched) if enough > 0 else len(scores)


def _most(terms: Iterable[Term]) -> float:
    """What the words can add to a row at the most."""
    return sum(term.idf for term in terms) * (K1 + 1)


def best_rows(scores: NDArray[np.float64], k: int, *, above: float) -> Best:
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
    return Best(rows[order], scores[rows[order]])


def postings_of(arrays: Mapping[str, NDArray[Any]]) -> Postings:
    """The postings among the arrays of a segment's text file."""
    return Postings(*(arrays[field] for field in Postings._fields))


def hash_of(term: str) -> int:
    return min(int.from_bytes(blake2b(term.encode(), digest_size=8).digest()), 2**64 - 2)
