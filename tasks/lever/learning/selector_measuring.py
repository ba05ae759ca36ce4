"""All selectors of one seed on the held-out queries: chance, similarity, what was trained, and the best there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from models.pointer import PointerSelector
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks import progress
from tasks.lever.data.banks import EmbeddingBank, require
from tasks.lever.data.candidate_pools import DECIMALS, generator_of
from tasks.lever.judge.judging import Asked, Judging, Judgment
from tasks.lever.judge.oracle import search_best
from tasks.lever.learning import selector_measuring as baselines
from tasks.lever.learning.selector_evaluation import Choose, Judge, SelectorResult, evaluate, refuse_small_pools
from tasks.lever.learning.training_inputs import Setting, choose
from tasks.lever.lever_options import OracleSettings
from tasks.lever.lever_records import Embedded, Pools

Chosen = dict[str, tuple[int, ...]]
"""Query → positions in its pool, in the order in which the demonstrations are shown."""

QUERIES_AT_ONCE = 512


def measure(
    setting: Setting,
    pools: Pools,
    selectors: Mapping[str, PointerSelector],
    *,
    banks: Mapping[str, tuple[EmbeddingBank, EmbeddingBank]],
    shots: Sequence[int],
    trained_shots: int,
    oracle: OracleSettings,
    seed: int,
) -> tuple[SelectorResult, ...]:
    """Every selector with every number of shots on the test queries; whoever watches sees how far the judge is.

    banks: name of a similarity baseline → vectors of the queries and of the candidates.
    """
    queries = [item.id for item in setting.dataset.test]
    choosers = _choosers(setting, pools, selectors, queries, banks=banks, seed=seed)
    results = evaluate(choosers, queries, pools, _watched(setting.judging, "evaluate"), shots=shots)
    if oracle.most_judgments == 0:
        return results
    best = search_best(
        queries,
        pools,
        _watched(setting.judging, "search best"),
        shots=trained_shots,
        seed=seed,
        known=results,
        most_judgments=oracle.most_judgments,
    )
    return (*results, best)


def _watched(judging: Judging, stage: str) -> Judge:
    """The judge; what it is asked and what it has answered counts for this stage."""

    def judge(asked: Sequence[Asked]) -> Sequence[Judgment]:
        progress.expect(stage, len(set(asked)))
        return judging.judge(asked, lambda count: progress.advance(stage, count))

    return judge


def _choosers(
    setting: Setting,
    pools: Pools,
    selectors: Mapping[str, PointerSelector],
    queries: Sequence[str],
    *,
    banks: Mapping[str, tuple[EmbeddingBank, EmbeddingBank]],
    seed: int,
) -> dict[str, Choose]:
    choosers: dict[str, Choose] = {
        "random": lambda shots: baselines.choose_at_random(pools, queries, shots=shots, seed=seed)
    }
    for name, (of_queries, of_candidates) in banks.items():
        choosers[name] = lambda shots, of_queries=of_queries, of_candidates=of_candidates: (
            baselines.choose_most_similar(
                pools, queries, of_queries=of_queries, of_candidates=of_candidates, shots=shots
            )
        )
    for name, selector in selectors.items():
        choosers[name] = lambda shots, selector=selector: choose(selector, setting, pools, queries, shots=shots)
    return choosers


def banks_of(embedded: Embedded, artifacts: Artifacts) -> dict[str, tuple[EmbeddingBank, EmbeddingBank]]:
    """What similarity can be told from, under the names of the baselines."""
    one_bank = {
        "similarity_text": embedded.texts,
        "similarity_image": embedded.images,
        "similarity_class": embedded.classes,
    }
    banks = {"similarity": (_bank(embedded.queries, artifacts), _bank(embedded.candidates, artifacts))}
    for name, ref in one_bank.items():
        if ref is not None:
            bank = _bank(ref, artifacts)
            banks[name] = (bank, bank)
    return banks


def _bank(ref: Ref, artifacts: Artifacts) -> EmbeddingBank:
    return EmbeddingBank.from_bytes(artifacts.get(ref))


def unanswered(results: Sequence[SelectorResult]) -> dict[str, str]:
    """Queries that the judge may answer another time."""
    return {
        f"{result.selector}, {result.shots} shot{'s' if result.shots != 1 else ''}, query {one.query}": one.failed or ""
        for result in results
        for one in result.outcomes
        if one.retryable
    }


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
