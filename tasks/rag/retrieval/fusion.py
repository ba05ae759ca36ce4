"""Rankings become one ranking: fused by rank, chosen against repetition, shared between documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")


class Fused(NamedTuple):
    """A row, what it got, and its 1-based rank in each ranking that holds it."""

    row: int
    score: float
    ranks: dict[str, int]


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[int]], *, weights: Mapping[str, float], rank_constant: int = 60
) -> list[Fused]:
    """All rows of `rankings`, best first; a row gets `weight / (rank_constant + rank)` from each ranking.

    rankings: name → rows, best first. weights: by the same names; 1 where absent. Ties: the lower row first.
    Source: Cormack, Clarke, Büttcher 2009, "Reciprocal rank fusion outperforms Condorcet", k = 60.
    """
    ranks: dict[int, dict[str, int]] = {}
    for name, rows in rankings.items():
        for rank, row in enumerate(rows, start=1):
            ranks.setdefault(row, {})[name] = rank
    fused = [
        Fused(row, sum(weights.get(name, 1.0) / (rank_constant + rank) for name, rank in found.items()), found)
        for row, found in ranks.items()
    ]
    return sorted(fused, key=lambda one: (-one.score, one.row))


def alternate(rankings: Iterable[Sequence[Item]], *, same: Callable[[Item], Hashable]) -> list[Item]:
    """The first of each ranking, then the second of each …; what stands in several comes once.

    same: what equal items have in common.
    """
    first: dict[Hashable, Item] = {}
    for turn in zip_longest(*rankings):
        for one in turn:
            if one is not None:
                first.setdefault(same(one), one)
    return list(first.values())


def balanced(found: Sequence[Fused], sides: Sequence[Callable[[Fused], bool]], count: int, *, of: int) -> list[Fused]:
    """The first `count` in their order, but at least `count // of` from each side that has as many, one if it has any.

    sides: each tells its own. of: parts that `count` is shared into, no fewer than sides.
    """
    share = max(count // of, 1)
    owed = [one.row for side in sides for one in list(filter(side, found))[:share]]
    kept = set(list(dict.fromkeys(owed))[:count])
    for one in found:
        if len(kept) >= count:
            break
        kept.add(one.row)
    return [one for one in found if one.row in kept]


def spread(found: Sequence[Fused], owner: Callable[[Fused], int], count: int, *, most: int) -> list[Fused]:
    """The first `count` with at most `most` of one owner; where that leaves room, the best of what was passed over."""
    met = Counter[int]()
    kept: set[int] = set()
    for one in found:
        met[owner(one)] += 1
        if met[owner(one)] <= most and len(kept) < count:
            kept.add(one.row)
    for one in found:
        if len(kept) >= count:
            break
        kept.add(one.row)
    return [one for one in found if one.row in kept]


class Chosen(NamedTuple):
    """A candidate's position in the pool, and what it added when it was chosen."""

    position: int
    score: float


def maximal_marginal_relevance(
    relevance: NDArray[np.float32], vectors: NDArray[np.float32], *, count: int, trade_off: float
) -> list[Chosen]:
    """`count` candidates in the order in which they add most: relevant, and unlike those before them.

    relevance: similarity of each candidate to the question, (candidates,). vectors: (candidates, dimension), unit.
    trade_off: 1 is relevance alone, 0 is difference alone. Ties: the earlier candidate first.
    Source: Carbonell and Goldstein 1998, "The use of MMR".
    """
    gain = trade_off * relevance.astype(np.float64)
    likeness = np.zeros(len(relevance))  # to the most alike of those chosen; none yet, so no penalty
    open_positions = np.ones(len(relevance), np.bool_)
    chosen: list[Chosen] = []
    for _ in range(min(count, len(relevance))):
        score = np.where(open_positions, gain - (1 - trade_off) * likeness, -np.inf)
        best = int(np.argmax(score))
        chosen.append(Chosen(best, float(score[best])))
        open_positions[best] = False
        alike = (vectors @ vectors[best]).astype(np.float64)
        likeness = alike if len(chosen) == 1 else np.maximum(likeness, alike)
    return chosen
