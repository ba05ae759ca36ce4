"""What is shown without learning: the nearest candidates, random ones, and what the samplers of Lever-Plus take.

All but `similarity_pool` choose among all candidates: whoever replaces them has to beat them there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tasks.lever.data.candidate_pools import DECIMALS, Banks, Pair, draw_pools, generator_of, nearest
from tasks.lever.lever_records import (
    MMR,
    RANDOM,
    SEED_CHOICES,
    SIMILARITY,
    SIMILARITY_CLASS,
    SIMILARITY_POOL,
    SIMILARITY_VOTE,
    UNTRAINED,
    ZERO_SHOT,
    PoolRecipe,
    Sampler,
)

Shown = Mapping[str, tuple[str, ...]]
"""Query → ids of its demonstrations, in the order in which they are shown."""
Choose = Callable[..., Shown]
"""`shots` → what is shown to each query."""
DIVERSE_AMONG = 64
VOTERS = 8
CLASSES = "classes of candidates"
"""What `SIMILARITY_VOTE` needs beside embeddings."""
NEEDED: dict[str, set[str]] = {
    SIMILARITY: {"joint"},
    SIMILARITY_VOTE: {"joint", CLASSES},
    MMR: {"joint"},
    SIMILARITY_POOL: {"joint"},
    "TextSimSampler": {"texts"},
    "ImgSimSampler": {"images"},
    "MixSampler": {"images", "texts"},
    SIMILARITY_CLASS: {"classes"},
}
"""Selector → that without which it cannot choose: names of embeddings, as of `Banks`, and `CLASSES`."""


def possible_with(known: Collection[str]) -> tuple[str, ...]:
    """Selectors without training that this allows; `known`: as the values of `NEEDED`."""
    return tuple(name for name in UNTRAINED if NEEDED.get(name, set()) <= {*known})


def untrained(
    queries: Sequence[str],
    candidates: Sequence[str],
    banks: Banks,
    *,
    pools: Mapping[str, Sequence[str]],
    classes: Mapping[str, str],
    seed: int,
) -> dict[str, Choose]:
    """Selector → its choice for these queries, for each that can choose; `classes`: candidate → class, or nothing."""
    joint: Any = banks.get("joint")  # missing only where nothing that needs it is given
    classed: Any = banks.get("classes")
    made: dict[str, Choose] = {
        ZERO_SHOT: partial(choose_none, queries),
        RANDOM: partial(choose_at_random, queries, candidates, seed=seed),
        SIMILARITY: partial(choose_nearest, queries, candidates, joint),
        SIMILARITY_VOTE: partial(choose_by_vote, queries, candidates, joint, classes),
        MMR: partial(choose_diverse, queries, candidates, joint),
        SIMILARITY_POOL: partial(choose_nearest_of_pool, queries, pools, joint),
        SIMILARITY_CLASS: partial(choose_nearest, queries, candidates, classed),
    }
    for one in SEED_CHOICES:
        made[one] = partial(choose_by_sampler, queries, candidates, banks, sampler=one, seed=seed)
    return {name: made[name] for name in possible_with({*banks, *([CLASSES] if classes else [])})}


def choose_none(queries: Sequence[str], *, shots: int) -> Shown:
    """Zero-shot: nothing is shown. Raises ValueError for any other number of shots."""
    if shots:
        raise ValueError(f"{shots} shots of {ZERO_SHOT}: it shows none")
    return dict.fromkeys(queries, ())


def choose_at_random(queries: Sequence[str], candidates: Sequence[str], *, shots: int, seed: int) -> Shown:
    """Distinct candidates, uniformly, never the query; what a query gets does not depend on the other queries."""
    ids = sorted(candidates)
    chosen: dict[str, tuple[str, ...]] = {}
    for query in queries:
        others = [name for name in ids if name != query]
        drawn = generator_of(query, seed=seed, purpose=f"random {shots}").choice(len(others), shots, replace=False)
        chosen[query] = tuple(others[at] for at in drawn)
    return chosen


def choose_nearest(queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, shots: int) -> Shown:
    """The largest inner products among all candidates but the query, the largest last; ties by id.

    Source: RICES of Flamingo (arXiv 2204.14198) and OpenFlamingo; of image and question together, as PICa has them
    (Yang et al., arXiv 2109.05014). Raises FileUnusable for unknown ids, PoolTooSmall.
    """
    found = nearest(queries, candidates, vectors, count=shots)
    return {query: tuple(reversed(names)) for query, names in found.items()}


def choose_by_vote(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, classes: Mapping[str, str], *, shots: int
) -> Shown:
    """The nearest candidates of the class that most of the `VOTERS` nearest have, the nearest last.

    Of classes with as many votes, that of the nearest. Source: the rule of Cover and Hart 1967, doi
    10.1109/TIT.1967.1053964. Raises FileUnusable for unknown ids, PoolTooSmall.
    """
    near = nearest(queries, candidates, vectors, count=min(VOTERS, len(candidates) - 1))
    voted = {query: Counter(classes[name] for name in names).most_common(1)[0][0] for query, names in near.items()}
    chosen: dict[str, tuple[str, ...]] = {}
    for one in sorted({*voted.values()}):
        asking = [query for query in queries if voted[query] == one]
        held = [name for name in candidates if classes[name] == one]
        chosen |= choose_nearest(asking, held, vectors, shots=shots)
    return {query: chosen[query] for query in queries}


def choose_nearest_of_pool(
    queries: Sequence[str], pools: Mapping[str, Sequence[str]], vectors: Pair, *, shots: int
) -> Shown:
    """The largest inner products of each pool, the largest last; ties by id. Raises FileUnusable for unknown ids."""
    of_queries, of_candidates = vectors
    pooled = sorted({name for query in queries for name in pools[query]})
    row, rows = {name: number for number, name in enumerate(pooled)}, of_candidates.rows(pooled).numpy()
    chosen: dict[str, tuple[str, ...]] = {}
    for query, vector in zip(queries, of_queries.rows(queries).numpy().astype(np.float64), strict=True):
        pool = sorted(pools[query])
        scores = np.round(rows[[row[name] for name in pool]].astype(np.float64) @ vector, DECIMALS)
        best = np.argsort(-scores, kind="stable")[:shots]
        chosen[query] = tuple(pool[at] for at in reversed(best))
    return chosen


def choose_diverse(queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, shots: int) -> Shown:
    """Maximal marginal relevance: near the query, and unlike what is picked, alike weighed; the first pick last.

    Among the `DIVERSE_AMONG` nearest of all candidates.
    Source: Carbonell and Goldstein 1998, doi 10.1145/290941.291025.
    """
    near = nearest(queries, candidates, vectors, count=min(DIVERSE_AMONG, len(candidates) - 1))
    (of_queries, of_candidates), chosen = vectors, dict[str, tuple[str, ...]]()
    for query, names in near.items():
        rows = of_candidates.rows(list(names)).numpy().astype(np.float64)
        to_query = rows @ of_queries.rows([query]).numpy().astype(np.float64)[0]
        picked, alike = list[int](), np.zeros(len(names))
        for _ in range(shots):
            worth = np.round(to_query - alike, DECIMALS)
            worth[picked] = -np.inf
            picked.append(int(worth.argmax()))
            to_picked = rows @ rows[picked[-1]]
            alike = to_picked if len(picked) == 1 else np.maximum(alike, to_picked)
        chosen[query] = tuple(names[at] for at in reversed(picked))
    return chosen


def choose_by_sampler(
    queries: Sequence[str], candidates: Sequence[str], banks: Banks, *, sampler: Sampler, shots: int, seed: int
) -> Shown:
    """What this sampler draws when it may draw only `shots`: its first last. Raises PoolTooSmall, FileUnusable."""
    drawn = draw_pools(queries, candidates, banks, recipe=PoolRecipe(sampler=sampler, size=shots), seed=seed)
    return {query: tuple(reversed(names)) for query, names in drawn.pools.items()}
