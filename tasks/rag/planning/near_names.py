"""Which of many names a misspelt one may stand for: those that share enough pairs of letters with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class NearNames:
    """Names by the pairs of neighbouring letters that they hold."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        letters = np.frombuffer("\0".join((*names, "")).encode("utf-32-le", "surrogatepass"), np.uint32)
        ends = letters == 0
        self._lengths = np.diff(np.flatnonzero(ends), prepend=-1) - 1
        inside = ~(ends[:-1] | ends[1:])
        pairs, owners = _paired(letters)[inside], np.cumsum(ends)[:-1][inside]
        self._pairs, number = np.unique(pairs, return_inverse=True)
        held = np.unique(number * max(len(names), 1) + owners)  # each name once for each of its pairs
        self._owners = held % max(len(names), 1)
        self._starts = np.searchsorted(held // max(len(names), 1), np.arange(len(self._pairs) + 1))

    def alike(self, name: str, *, percent: float) -> list[str]:
        """In their order, all names whose `rapidfuzz.fuzz.ratio` to `name` is at least `percent`, and some others.

        An edit of n + m letters that leaves `percent` of them changes at most a share 1 - percent / 100. Taking a
        letter out of a name breaks two of its pairs at most, putting one in breaks one: the others are in both names.
        """
        letters = np.frombuffer(name.encode("utf-32-le", "surrogatepass"), np.uint32)
        pairs = _paired(letters)
        places = np.minimum(self._pairs.searchsorted(pairs), max(len(self._pairs) - 1, 0))
        found = places[self._pairs[places] == pairs].tolist() if len(self._pairs) else []
        owners = [self._owners[self._starts[at] : self._starts[at + 1]] for at in found]
        shared = np.bincount(np.concatenate([np.empty(0, np.int64), *owners]), minlength=len(self._names))
        both, edits = self._lengths + len(letters), 1 - percent / 100
        needed = both * (0.5 - 1.5 * edits) - 1
        near = (shared >= needed - 1e-9) & (abs(self._lengths - len(letters)) <= both * edits + 1e-9)
        return [self._names[at] for at in np.flatnonzero(near).tolist()]


def _paired(letters: NDArray[np.uint32]) -> NDArray[np.uint64]:
    return (letters[:-1].astype(np.uint64) << np.uint64(32)) | letters[1:]
