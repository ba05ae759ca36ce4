"""The best that could have been chosen: all ordered pointers of a pool are tried, or some hundred of them.

A query is done with its first entirely right pointer, so that most cost a handful of judgments, not a thousand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from tasks.lever.data.candidate_pools import generator_of
from tasks.lever.learning.selector_evaluation import (
    ORACLE,
    Judge,
    Outcome,
    Pointer,
    Search,
    SelectorResult,
    judge_pointers,
)
from tasks.lever.lever_records import Pools

ALL_UP_TO_SHOTS = 2
"""Most shots for which all ordered pointers are tried: 992 in a pool of 32, 4,032 in one of 64."""
BEST_OF = 500
"""Pointers that are drawn and tried where there are more shots."""
FIRST_ROUND, LARGEST_ROUND = 1, 256
"""Pointers of a query that are judged together; each round has twice as many as the one before."""
PERFECT = 1 - 1e-9


def search_best(
    queries: Sequence[str],
    pools: Pools,
    judge: Judge,
    *,
    shots: int,
    seed: int,
    known: Iterable[SelectorResult] = (),
    most_judgments: int | None = None,
) -> SelectorResult:
    """For each query the pointer with the highest accuracy, of equals the one that was tried first.

    known: results of other selectors; what they found is taken over, so that no selector is better than the oracle,
    however few judgments are left. most_judgments: where the search ends; the best so far counts. `search` of the
    result tells of how many queries the best is known, and so whether the accuracy is a lower bound.
    Raises what `judge` raises.
    """
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in (one for result in known if result.shots == shots for one in result.outcomes):
        found[outcome.query].append(outcome)
    searches = {query: _Search(query, found[query], pools, shots=shots, seed=seed) for query in queries}
    judged, size = 0, FIRST_ROUND
    while asked := [(query, pointer) for query, search in searches.items() for pointer in search.take(size)]:
        affordable = asked[: None if most_judgments is None else max(0, most_judgments - judged)]
        for outcome in judge_pointers(affordable, pools, judge):
            searches[outcome.query].add(outcome)
        judged += len(affordable)
        if len(affordable) < len(asked):
            break
        size = min(2 * size, LARGEST_ROUND)
    settled = sum(search.is_settled for search in searches.values())
    return SelectorResult(
        selector=ORACLE,
        shots=shots,
        outcomes=tuple(search.best for search in searches.values()),
        search=Search(judged=judged, settled=settled, queries=len(queries)),
    )


class _Search:
    """The pointers of one query: those to be tried, and the best so far."""

    def __init__(self, query: str, found: Iterable[Outcome], pools: Pools, *, shots: int, seed: int) -> None:
        size = len(pools.pools[query])
        self._all = math.perm(size, shots)
        self._scored = 0
        self.best = Outcome(query=query, pointer=(), shown=(), failed="no pointer was judged")
        known = {outcome.pointer: outcome for outcome in found if outcome.accuracy is not None}
        for outcome in known.values():
            self.add(outcome)
        rng = generator_of(query, seed=seed, purpose=f"oracle {shots}")
        self._untried = (one for one in _pointers(size, shots=shots, rng=rng) if one not in known)

    @property
    def is_settled(self) -> bool:
        """True when the best is known."""
        return _accuracy(self.best) >= PERFECT or self._scored == self._all

    def take(self, count: int) -> list[Pointer]:
        """The next pointers to try; none when it is done."""
        return [] if self.is_settled else list(islice(self._untried, count))

    def add(self, outcome: Outcome) -> None:
        self._scored += outcome.accuracy is not None
        if not self.best.pointer or _accuracy(outcome) > _accuracy(self.best):
            self.best = outcome


def _pointers(size: int, *, shots: int, rng: np.random.Generator) -> Iterator[Pointer]:
    """All ordered pointers in random order, or as many of them as are affordable."""
    count = math.perm(size, shots)
    if shots <= ALL_UP_TO_SHOTS or count <= BEST_OF:
        for number in rng.permutation(count).astype(np.int32):
            yield _pointer(int(number), size, shots=shots)
    else:
        drawn = set[Pointer]()
        while len(drawn) < BEST_OF:
            pointer: Pointer = tuple(rng.choice(size, shots, replace=False).tolist())
            if pointer not in drawn:
                drawn.add(pointer)
                yield pointer


def _pointer(number: int, size: int, *, shots: int) -> Pointer:
    """The ordered pointer of this number, in lexical order."""
    left, picked = list(range(size)), list[int]()
    for remaining in range(shots - 1, -1, -1):
        place, number = divmod(number, math.perm(len(left) - 1, remaining))
        picked.append(left.pop(place))
    return tuple(picked)


def _accuracy(outcome: Outcome) -> float:
    return -1.0 if outcome.accuracy is None else outcome.accuracy
