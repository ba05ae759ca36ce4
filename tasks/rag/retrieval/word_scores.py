"""How well chunks answer by their words: first the document that the words speak of, then the chunk within it.

A word that stands in every chunk of its document says which document, not which chunk: the issuer's name, the year, the
title in each heading. So a chunk gets what the best chunks of its document have of each word, and beyond that only the
words that single it out there. BM25's own scores are the material, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.lexical import Lexical


def word_scores(
    lexical: Lexical, words: Mapping[str, float], document_of_row: NDArray[np.int32], *, repeated_share: float
) -> NDArray[np.float64]:
    """Every row's score; rows without any word of the question in their document have 0.

    words: each with what it counts. repeated_share: what a word of every chunk of the document counts for a chunk.
    """
    sizes = np.bincount(document_of_row)
    chunks, documents = np.zeros(len(document_of_row)), np.zeros(len(sizes))
    for word, share in words.items():
        posting = lexical.posting(word)
        if posting is None or not share:
            continue
        owners = _Owners.of(document_of_row[posting.rows])
        # in small indexes a frequent word weighs nothing or less; it tells nothing apart
        weights = np.maximum(posting.weights, 0)[owners.order] * share
        alone = _rarity(sizes[owners.documents], np.ones_like(owners.held))
        singling = repeated_share + _rarity(sizes[owners.documents], owners.held) / alone
        chunks[posting.rows[owners.order]] += weights * np.repeat(singling, owners.held)
        documents[owners.documents] += np.maximum.reduceat(weights, owners.starts)
    return chunks + documents[document_of_row]


class _Owners(NamedTuple):
    """The documents that a posting's rows belong to, run by run."""

    order: NDArray[np.int64] | slice
    """Brings the rows of a document together; they nearly always are."""
    documents: NDArray[np.int32]
    starts: NDArray[np.int64]
    held: NDArray[np.int64]
    """Rows of each document."""

    @classmethod
    def of(cls, owner: NDArray[np.int32]) -> _Owners:
        order: NDArray[np.int64] | slice = slice(None)
        steps = np.diff(owner)
        if (steps < 0).any():
            order = np.argsort(owner, kind="stable")
            steps = np.diff(owner[order])
        starts = np.concatenate([[0], np.flatnonzero(steps) + 1])
        return cls(order, owner[order][starts], starts, np.diff(starts, append=len(owner)))


def _rarity(size: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.float64]:
    """Okapi's idf within documents of `size` chunks of which `held` have the word; always above 0."""
    return np.log1p((size - held + 0.5) / (held + 0.5))
