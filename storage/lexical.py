"""BM25 on disk: the Okapi scores of rank-bm25, computed when the index is made.

rank-bm25 weighs the terms; counting and search are sparse here, because it searches a dict per row for every word.

Files: `hashes.npy` (of each term, sorted), `terms.npy` (UTF-8, end to end), `ends.npy` (where each term ends),
`starts.npy` (where each term's postings start), `rows.npy` and `weights.npy` (a posting: row, and what the term adds
to its score).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP = 64
"""Rows of a group, whose best score is taken first when the top rows are looked for."""


class Postings(NamedTuple):
    """The inverted index of token lists; fields as the files."""

    hashes: NDArray[np.uint64]
    terms: NDArray[np.uint8]
    ends: NDArray[np.int64]
    starts: NDArray[np.int64]
    """One more than there are terms."""
    rows: NDArray[np.int64]
    """Not int32: NumPy adds at such positions a third more slowly."""
    weights: NDArray[np.float64]
    """Not float32: its error would pass 1e-6 in a score of 20."""


class Best(NamedTuple):
    """Rows by falling score; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


class Posting(NamedTuple):
    """Where a word stands, by rising row, and what it adds to the score of each of these rows."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


def build_postings(tokens: Iterable[Sequence[str]]) -> tuple[Postings, int]:
    """The postings of one token list per row, and the number of rows; the same lists give the same arrays."""
    terms, occurrences, lengths = _count(tokens)
    vocabulary = sorted((term.encode() for term in terms), key=lambda term: (_hash(term), term))
    place = {term: at for at, term in enumerate(vocabulary)}
    placed = np.array([place[term.encode()] for term in terms], np.int64)
    # one number per occurrence that sorts by term, then by row
    count = max(len(lengths), 1)
    row_of = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    postings, frequency = np.unique(placed[occurrences] * count + row_of, return_counts=True)
    term, row = np.divmod(postings, count)
    rows_per_term = np.bincount(term, minlength=len(vocabulary))
    postings = Postings(
        hashes=np.array([_hash(term) for term in vocabulary], np.uint64),
        terms=np.frombuffer(b"".join(vocabulary), np.uint8),
        ends=np.cumsum([len(word) for word in vocabulary], dtype=np.int64),
        starts=np.concatenate([[0], np.cumsum(rows_per_term)]).astype(np.int64),
        rows=row,
        weights=_weights(term, row, frequency, rows_per_term, lengths),
    )
    return postings, len(lengths)


def write_postings(postings: Postings, create: Callable[[str], AbstractContextManager[IO[bytes]]]) -> None:
    """Write each array as `{field}.npy` into a file that `create` opens."""
    for field, values in postings._asdict().items():
        with create(f"{field}.npy") as file:
            np.save(file, values, allow_pickle=False)


class Lexical:
    """Open postings; pages are read from disk when a query needs them."""

    def __init__(self, folder: Path, *, rows: int) -> None:
        self.size = rows
        self._hashes, self._terms, self._ends, self._starts, self._rows, self._weights = (
            np.asarray(np.load(folder / f"{field}.npy", mmap_mode="r", allow_pickle=False))
            for field in Postings._fields
        )

    def scores(self, query: Sequence[str]) -> NDArray[np.float64]:
        """Every row's score; a word that stands twice in the query counts twice."""
        return self._scores(self._spans(query))

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        spans = self._spans(query)
        scores = self._scores(spans)
        above = 0.0
        if any(self._weights[span.start] <= 0 for span in spans):
            # only in small indexes: a score may be 0 or less, so it does not tell which rows hold a word
            held = np.zeros(self.size, np.bool_)
            for span in spans:
                held[self._rows[span]] = True
            scores[~held], above = -np.inf, -np.inf
        if allowed is not None:
            scores[~allowed] = -np.inf
        return best_rows(scores, k, above=above)

    def posting(self, word: str) -> Posting | None:
        """None for a word that no row holds."""
        spans = self._spans([word])
        return Posting(self._rows[spans[0]], self._weights[spans[0]]) if spans else None

    def _spans(self, query: Sequence[str]) -> list[slice]:
        words = [word.encode() for word in query]
        hashes = np.array([_hash(word) for word in words], np.uint64)
        places = [self._place(word, at) for word, at in zip(words, self._hashes.searchsorted(hashes), strict=True)]
        return [slice(self._starts[at], self._starts[at + 1]) for at in places if at is not None]

    def _place(self, word: bytes, at: int) -> int | None:
        """The place of `word`, at or behind `at`: other words may have the same hash."""
        while at < len(self._hashes) and self._hashes[at] == _hash(word):
            if self._terms[self._ends[at - 1] if at else 0 : self._ends[at]].tobytes() == word:
                return at
            at += 1
        return None

    def _scores(self, spans: list[slice]) -> NDArray[np.float64]:
        scores = np.zeros(self.size)
        for span in spans:
            np.add.at(scores, self._rows[span], self._weights[span])  # twice as fast as `scores[rows] += …`
        return scores


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


def _hash(term: bytes) -> int:
    return int.from_bytes(blake2b(term, digest_size=8).digest())


def _count(tokens: Iterable[Sequence[str]]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct terms as met, each occurrence as a position in them, and the number of tokens per row."""
    known: dict[str, int] = {}
    occurrences, lengths = array("q"), array("q")
    for words in tokens:
        occurrences.extend(known.setdefault(word, len(known)) for word in words)
        lengths.append(len(words))
    return list(known), np.array(occurrences, np.int64), np.array(lengths, np.int64)


def _weights(
    term: NDArray[np.int64],
    row: NDArray[np.int64],
    frequency: NDArray[np.int64],
    rows_per_term: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[np.float64]:
    """What each posting adds to the score of its row: its term's weight, times less for a repetition in a long row."""
    if not len(term):
        return np.empty(0)
    from rank_bm25 import BM25Okapi

    class Counted(BM25Okapi):
        def _initialize(self, corpus: object) -> dict[int, int]:  # noqa: ARG002  it gets none
            self.corpus_size, self.avgdl = len(lengths), float(lengths.mean())
            return dict(enumerate(rows_per_term.tolist()))

    okapi = Counted([])
    idf = np.array(list(okapi.idf.values()), np.float64)  # by the number of the term
    penalty = 1 - okapi.b + okapi.b * lengths / okapi.avgdl
    return idf[term] * (frequency * (okapi.k1 + 1) / (frequency + okapi.k1 * penalty[row]))
