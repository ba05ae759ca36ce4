"""Selectors that learn nothing: demonstrations at random, or the most similar ones of the pool, most similar last.

Source: "RICES" of Yang et al. 2021, arXiv:2109.05014, and Alayrac et al. 2022, arXiv:2204.14198 (Flamingo): nearest
neighbours as demonstrations, in the order of increasing similarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from tasks.lever.banks import EmbeddingBank, require
from tasks.lever.evaluation import refuse_small_pools
from tasks.lever.pools import DECIMALS, generator_of
from tasks.lever.records import Pools

Chosen = dict[str, tuple[int, ...]]
"""Query → positions in its pool, in the order in which the demonstrations are shown."""

QUERIES_AT_ONCE = 512


def choose_at_random(pools: Pools, queries: Sequence[str], *, shots: int, seed: int) -> Chosen:
    """Distinct positions, uniformly; a query's own do not depend on the other queries. Raises PoolTooSmall."""
    refuse_small_pools(pools, queries, shots=shots)
    chosen: Chosen = {}
    for query in queries:
        drawn = generator_of(query, seed=seed, purpose=f"random {shots}")
        chosen[query] = tuple(drawn.choice(len(pools.pools[query]), shots, replace=False).tolist())
    return chosen


def choose_most_similar(
    pools: Pools,
    queries: Sequence[str],
    *,
    of_queries: EmbeddingBank,
    of_candidates: EmbeddingBank,
    shots: int,
) -> Chosen:
    """The largest inner products of the pool, the largest last; of equal ones the smaller id is the more similar one.

    Raises PoolTooSmall, and FileUnusable for an id without an embedding and for banks of two encoders.
    """
    refuse_small_pools(pools, queries, shots=shots)
    require(of_candidates, where="candidates", encoder=of_queries.encoder, dimension=of_queries.dimension)
    chosen: Chosen = {}
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        part = queries[start : start + QUERIES_AT_ONCE]
        pooled = list(dict.fromkeys(chain.from_iterable(pools.pools[query] for query in part)))
        row = {name: number for number, name in enumerate(pooled)}
        asked = of_queries.rows(part).numpy().astype(np.float64)
        shown = of_candidates.rows(pooled).numpy().astype(np.float64)
        for query, vector in zip(part, asked, strict=True):
            pool = pools.pools[query]
            scores = np.round(shown[[row[name] for name in pool]] @ vector, DECIMALS)
            best = sorted(range(len(pool)), key=lambda at: (-scores[at], pool[at]))[:shots]
            chosen[query] = tuple(reversed(best))
    return chosen
