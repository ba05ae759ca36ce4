"""Searches over the rows of an index, whatever engine keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from storage.lexical import Best, Posting
from storage.vectors import Nearest


class Dense(Protocol):
    """Dense search over the rows of an index."""

    size: int
    dimension: int

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """The `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly."""
        ...

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of `rows`: (len(rows), dimension)."""
        ...


class Words(Protocol):
    """BM25 over the rows of an index."""

    size: int

    def search(self, query: Sequence[str], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Best:
        """The `k` best of the rows that hold a word of the query, and that `allowed` (a flag per row) admits."""
        ...

    def posting(self, word: str) -> Posting | None:
        """Where a word stands; None for a word that no row holds."""
        ...
