"""Rankings become one ranking: reciprocal rank fusion, and maximal marginal relevance against repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
