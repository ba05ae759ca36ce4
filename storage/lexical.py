"""BM25 over segments: the Okapi scores of rank-bm25 for the whole index, computed from counts when a query comes.

A segment holds, in its text file, `hashes` (of each term, sorted), `starts` (where each term's postings start),
`rows` and `frequencies` (a posting: row of the segment, and how often the term stands there) and `lengths` (words of
each row). A term is its 64-bit hash: of ten million terms two are taken for one with a chance of 3 in a million.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
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
TRIED = 8
"""Rows that are looked up in all words, for each that is wanted, to learn early what the best ones have."""
WEIGHED_UP_TO = 500_000
"""Rows up to which weights are kept beside the frequencies of a word: they take twice the memory."""
KEPT_BYTES, KEPT_BYTES_PER_ROW, MOST_KEPT_BYTES = 64 << 20, 96, 256 << 20
"""Memory for the words that were asked for last: so much, and so much for each row, up to so much."""
DENSE_FROM = 8
"""A word that stands in more than one of so many rows is kept as a number for each row of a large index."""
SLACK = 1 + 1e-9
"""So that rounding does not put a row below others that has as much as it can have."""
WORD_BYTES = 500
"""Of a word in memory, without its arrays."""
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
    """The best rows (k,) and their scores (k,), by falling score; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


class Posting(NamedTuple):
    """Where a word stands, by rising row, and what it adds to the score of each of these rows."""

    rows: NDArray[Any]
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
    """A word of a query, and where it stands; what is read of it is kept in memory."""

    idf: float
    held: int
    """In how many rows it stands."""
    most: float
    """What it adds to a row at the most."""
    most_often: int
    """How often it stands in a row at the most."""
    frequencies: NDArray[Any]
    """How often it stands in each of its rows, or, where there are many, in each row of the index."""
    rows: NDArray[Any] | None
    """By rising row; None where `frequencies` are of all rows."""
    weights: NDArray[np.float64] | None
    """What it adds to each of its rows; None where that is computed when it is needed."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of its arrays in memory."""
        return sum(values.nbytes for values in (self.rows, self.frequencies, self.weights) if values is not None)


class Lexical:
    """Open postings of all segments; pages are read from disk when a query needs them.

    What was read of a word is kept, put together from all segments, until others need the place.
    """

    def __init__(self, segments: Sequence[Postings], whole: Whole) -> None:
        self.size = whole.rows
        self._whole, self._segments = whole, segments
        self._firsts = np.cumsum([0, *(len(one.lengths) for one in segments)], dtype=np.int64)
        self._scratch = threading.local()
        self._kept: OrderedDict[str, Term | None] = OrderedDict()
        self._kept_bytes = 0
        self._kept_at_most = min(KEPT_BYTES + KEPT_BYTES_PER_ROW * self.size, MOST_KEPT_BYTES)
        self._keeping = threading.Lock()

    def scores(self, query: Sequence[str]) -> NDArray[np.float64]:
        """Every row's score; a word that stands twice in the query counts twice."""
        return self._scores(self._found(query))

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        terms = self._found(query)
        weighs = all(term.idf > 0 for term in terms)
        if weighs and k > 0 and self.size >= PRUNED_FROM:
            return self._pruned(terms, k, allowed)
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
        """Where a word stands and what it adds to the score; None for a word that no row holds."""
        return next((self._posting(term) for term in self._found([word])), None)

    def _scores(self, terms: Iterable[Term]) -> NDArray[np.float64]:
        scores = np.zeros(self.size)
        for term in terms:
            rows, weights = self._posting(term)
            np.add.at(scores, rows, weights)  # twice as fast as `scores[rows] += …`
        return scores

    def _pruned(self, terms: list[Term], k: int, allowed: NDArray[np.bool_] | None) -> Best:
        """As a search through all scores, without most postings of frequent words (MaxScore, Turtle and Flood 1995).

        Words are taken from the rarest on, until what the others can add is less than what the k-th best row has: then
        only rows with one of the words taken can be among the best, and the others are looked up for these alone.
        """
        rest = [sum(term.most for term in terms[at:]) * SLACK for at in range(len(terms) + 1)]
        scores, touched = self._cleared(), list[NDArray[np.int64]]()
        least, at = 0.0, 0
        while at < len(terms) and (least <= rest[at] or terms[at].held <= sum(map(len, touched)) // LOOK_UP_COST):
            rows, weights = self._posting(terms[at])
            if allowed is not None:
                inside = allowed[rows]
                rows, weights = rows[inside], weights[inside]
            np.add.at(scores, rows, weights)
            touched.append(rows)
            at += 1
            if at < len(terms):
                least = max(least, self._reached(scores, rows, terms[at:], k))
        found, sums = self._looked_up(*_taken(scores, touched, least - rest[at]), terms[at:], least)
        best = np.lexsort((found, -sums))[:k]
        return Best(found[best].astype(np.int64), sums[best])

    def _looked_up(
        self, found: NDArray[Any], sums: NDArray[np.float64], waiting: list[Term], least: float
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Rows and their scores with the words that wait, without those that cannot reach the least."""
        norms = self._norms[found]
        for at, term in enumerate(waiting):
            still = sums >= least - _most_beside(norms, waiting[at:])
            found, sums, norms = found[still], sums[still], norms[still]
            sums += _weighed(term.idf, self._frequencies_at(term, found), norms)
        return found, sums

    def _reached(self, scores: NDArray[np.float64], rows: NDArray[Any], waiting: list[Term], k: int) -> float:
        """What the k-th best row has at least, by the best of these rows."""
        if len(rows) < k:
            return 0.0
        tried = min(len(rows), TRIED * k)
        near = rows[np.argpartition(scores[rows], len(rows) - tried)[len(rows) - tried :]]
        near.sort()
        reached, norms = scores[near], self._norms[near]
        for term in waiting:
            reached += _weighed(term.idf, self._frequencies_at(term, near), norms)
        return float(np.partition(reached, tried - k)[tried - k])

    def _cleared(self) -> NDArray[np.float64]:
        """A zero for each row, this thread's; to be given back as zeros."""
        if not hasattr(self._scratch, "scores"):
            self._scratch.scores = np.zeros(self.size)
        return self._scratch.scores

    def _found(self, query: Sequence[str]) -> list[Term]:
        """The words of the query that stand in a row, as often as the query holds them, the rarest first."""
        with self._keeping:
            known = {word: self._kept[word] for word in query if word in self._kept}
            for word in known:
                self._kept.move_to_end(word)
        if missing := [word for word in dict.fromkeys(query) if word not in known]:
            known |= self._keep(dict(zip(missing, self._read(missing), strict=True)))
        # one order for all ways to add them up, so that the sums are the same to the last bit
        return sorted((term for word in query if (term := known[word]) is not None), key=attrgetter("held"))

    def _keep(self, read: dict[str, Term | None]) -> dict[str, Term | None]:
        """The same, which stays in memory; what was not asked for the longest makes place for it."""
        with self._keeping:
            for word, term in read.items():
                if word not in self._kept:
                    self._kept[word] = term
                    self._kept_bytes += WORD_BYTES + (term.memory_bytes if term else 0)
            while self._kept_bytes > self._kept_at_most and self._kept:
                _, term = self._kept.popitem(last=False)
                self._kept_bytes -= WORD_BYTES + (term.memory_bytes if term else 0)
        return read

    def _read(self, words: Sequence[str]) -> list[Term | None]:
        """Each word from all segments; None for a word that stands nowhere."""
        hashes = np.array([hash_of(word) for word in words], np.uint64)
        begins = np.zeros((len(self._segments), len(words)), np.int64)
        ends = np.zeros_like(begins)
        for at, one in enumerate(self._segments):
            places = one.hashes.searchsorted(hashes)
            begins[at] = one.starts.take(places)
            ends[at] = one.starts.take(places + (one.hashes.take(places) == hashes))
        return [self._term(begins[:, at], ends[:, at]) for at in range(len(words))]

    def _term(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Term | None:
        counts = ends - begins
        if not (held := int(counts.sum())):
            return None
        idf, spans = self._idf(held), list(zip(self._segments, begins.tolist(), ends.tolist(), strict=True))
        frequencies = np.concatenate([one.frequencies[begin:end] for one, begin, end in spans])
        rows = np.concatenate([one.rows[begin:end] for one, begin, end in spans], dtype=np.uint32)
        rows += np.repeat(self._firsts[:-1].astype(np.uint32), counts)
        if self.size <= WEIGHED_UP_TO:
            weights = _weighed(idf, frequencies, self._norms[rows])
            return Term(idf, held, float(weights.max()), int(frequencies.max()), frequencies, rows, weights)
        most, most_often = self._most(idf, frequencies, rows), int(frequencies.max())
        if held * DENSE_FROM <= self.size:
            return Term(idf, held, most, most_often, frequencies, rows, None)
        of_all = np.zeros(self.size, frequencies.dtype)
        of_all[rows] = frequencies
        return Term(idf, held, most, most_often, of_all, None, None)

    def _most(self, idf: float, frequencies: NDArray[Any], rows: NDArray[Any]) -> float:
        """The greatest weight of a word, without the weights of rows that hold it too rarely to have it."""
        first = int(frequencies.argmax())
        often, norm = float(frequencies[first]), self._norms[rows[first]]
        # at the least norm a row with less would stay below often / (often + norm)
        able = np.flatnonzero(frequencies >= often / norm * self._least_norm * (2 - SLACK))
        return float(_weighed(idf, frequencies[able], self._norms[rows[able]]).max())

    def _idf(self, held: int) -> float:
        idf = math.log(self.size - held + 0.5) - math.log(held + 0.5)
        return idf if idf >= 0 else EPSILON * self._whole.mean_idf

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Per row, how much its length takes from a repetition."""
        lengths = np.concatenate([one.lengths for one in self._segments]) if self._segments else np.empty(0)
        mean = self._whole.tokens / max(self.size, 1) or 1.0
        return K1 * (1 - B + B * lengths / mean)

    @cached_property
    def _least_norm(self) -> float:
        return float(self._norms.min(initial=K1))

    def _posting(self, term: Term) -> Posting:
        rows, frequencies = term.rows, term.frequencies
        if rows is None:
            rows = np.flatnonzero(frequencies != 0)  # of flags: 20 times as fast as of numbers
            frequencies = frequencies[rows]
        if term.weights is not None:
            return Posting(rows, term.weights)
        return Posting(rows, _weighed(term.idf, frequencies, self._norms[rows]))

    def _frequencies_at(self, term: Term, rows: NDArray[Any]) -> NDArray[Any]:
        """How often the word stands in each of these rows."""
        if term.rows is None:
            return term.frequencies[rows]
        places = term.rows.searchsorted(rows.astype(term.rows.dtype))
        places[places == term.held] = 0
        return (term.rows[places] == rows) * term.frequencies[places]


def _weighed(idf: float, frequencies: NDArray[Any], norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a word adds to rows that hold it so often."""
    counted = frequencies.astype(np.float64)
    weights = norms + counted
    np.divide(counted, weights, out=weights)
    weights *= idf * (K1 + 1)
    return weights


def _most_beside(norms: NDArray[np.float64], waiting: list[Term]) -> NDArray[np.float64]:
    """What the words can add to rows of these norms at the most."""
    most = np.zeros_like(norms)
    for term in waiting:
        most += np.minimum(term.idf * (K1 + 1) * term.most_often / (term.most_often + norms), term.most)
    return most * SLACK


def _taken(
    scores: NDArray[np.float64], touched: list[NDArray[Any]], enough: float
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The rows that have enough, and their scores; all touched rows have none afterwards."""
    near, reached = [np.empty(0, np.uint32)], [np.empty(0)]
    for rows in touched:
        sums = scores[rows]
        kept = (sums >= enough) & (sums > 0)
        near.append(rows[kept])
        reached.append(sums[kept])
        scores[rows] = 0.0  # so that a row comes once
    return np.concatenate(near), np.concatenate(reached)


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
    """64-bit hash of a term, equal on every machine; never LAST, the largest, which ends the hashes of a segment."""
    return min(int.from_bytes(blake2b(term.encode(), digest_size=8).digest()), 2**64 - 2)
