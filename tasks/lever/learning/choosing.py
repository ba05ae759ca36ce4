"""Demonstrations chosen by chance, by similarity, by a trained selector or by trying all, and how good each is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice, permutations

import numpy as np

from models.pointer import PointerSelector
from storage.artifacts import Artifacts
from tasks import progress
from tasks.lever.data.candidate_pools import DECIMALS, generator_of
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.judge.judging import Asked, Judging, Judgment
from tasks.lever.learning.training_inputs import Prediction, Setting, likeliest
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall
from tasks.lever.lever_options import OracleSettings
from tasks.lever.lever_records import ORACLE, Embedded, Outcome, Pointer, Pools, Search, SelectorResult

Choose = Callable[..., Mapping[str, Pointer]]
"""`shots` → the pointer of each query."""
Judge = Callable[[Sequence[Asked]], Sequence[Judgment]]
"""One judgment for each question, in order."""
PREDICTED_AT_ONCE = 256
"""Queries in a batch of `predict`."""
ALL_UP_TO_SHOTS = 2
"""Most shots for which all ordered pointers are tried: 992 in a pool of 32, 4,032 in one of 64."""
BEST_OF = 500
"""Pointers that are drawn and tried where there are more shots."""
FIRST_ROUND, LARGEST_ROUND = 1, 256
"""Pointers of a query that are judged together; each round has twice as many as the one before."""
PERFECT = 1 - 1e-9


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
    """Every selector with every number of shots on the test queries. banks: baseline → (queries, candidates)."""
    queries = [item.id for item in setting.dataset.test]
    choosers: dict[str, Choose] = {"random": partial(choose_at_random, pools, queries, seed=seed)}
    for name, (one, other) in banks.items():
        choosers[name] = partial(choose_most_similar, pools, queries, of_queries=one, of_candidates=other)
    asked = {query: pools.pools[query] for query in queries}
    choosers |= {name: partial(_choose, selector, setting, asked) for name, selector in selectors.items()}
    results = evaluate(choosers, queries, pools, _watched(setting.judging, "evaluate"), shots=shots)
    if oracle.most_judgments == 0:
        return results
    judge, most = _watched(setting.judging, "search best"), oracle.most_judgments
    best = search_best(queries, pools, judge, shots=trained_shots, seed=seed, known=results, most_judgments=most)
    return (*results, best)


def evaluate(
    choosers: Mapping[str, Choose], queries: Sequence[str], pools: Pools, judge: Judge, *, shots: Sequence[int]
) -> tuple[SelectorResult, ...]:
    """A result for each selector and number of shots, all judged at once. Raises PoolTooSmall, and as `judge` does."""
    for query in queries:
        if (size := len(pools.pools[query])) < (most := max(shots)):
            raise PoolTooSmall(
                f"query {query}: {size} candidates, {most} are to be shown; lower the shots or draw larger pools"
            )
    chosen = {(name, count): choose(shots=count) for count in shots for name, choose in choosers.items()}
    asked = [(query, pointers[query]) for pointers in chosen.values() for query in queries]
    outcomes = iter(judge_pointers(asked, pools, judge))
    return tuple(
        SelectorResult(selector=name, shots=count, outcomes=tuple(next(outcomes) for _ in queries))
        for name, count in chosen
    )


def judge_pointers(asked: Sequence[tuple[str, Pointer]], pools: Pools, judge: Judge) -> list[Outcome]:
    """What the judge makes of each query with a pointer into its pool, in order."""
    questions = [Asked(query, tuple(pools.pools[query][at] for at in pointer)) for query, pointer in asked]
    return [
        Outcome(query=query, pointer=pointer, shown=question.demonstrations, **judgment._asdict())
        for (query, pointer), question, judgment in zip(asked, questions, judge(questions), strict=True)
    ]


def _watched(judging: Judging, stage: str) -> Judge:
    """The judge; its questions and answers are reported as the progress of this stage."""

    def judge(asked: Sequence[Asked]) -> Sequence[Judgment]:
        progress.expect(stage, len(set(asked)))
        return judging.judge(asked, lambda count: progress.advance(stage, count))

    return judge


def banks_of(embedded: Embedded, artifacts: Artifacts) -> dict[str, tuple[EmbeddingBank, EmbeddingBank]]:
    """Name of each similarity baseline that these embeddings allow → vectors of the queries and of the candidates."""
    refs = {
        "similarity": (embedded.queries, embedded.candidates),
        "similarity_text": (embedded.texts, embedded.texts),
        "similarity_image": (embedded.images, embedded.images),
        "similarity_class": (embedded.classes, embedded.classes),
    }
    kept = {ref: EmbeddingBank.from_bytes(artifacts.get(ref)) for pair in refs.values() for ref in pair if ref}
    return {name: (kept[one], kept[other]) for name, (one, other) in refs.items() if one and other}


def unanswered(results: Sequence[SelectorResult]) -> dict[str, str]:
    """Queries that the judge may answer another time → why it did not."""
    return {
        f"{result.selector}, {result.shots} shot{'s' if result.shots != 1 else ''}, query {one.query}": one.failed or ""
        for result in results
        for one in result.outcomes
        if one.retryable
    }


def _choose(
    selector: PointerSelector, setting: Setting, pools: Mapping[str, Sequence[str]], *, shots: int
) -> dict[str, Pointer]:
    found = likeliest(selector, setting.queries, setting.candidates, pools, shots=shots)
    return {query: one.pointer for query, one in found.items()}


def choose_at_random(pools: Pools, queries: Sequence[str], *, shots: int, seed: int) -> dict[str, Pointer]:
    """Distinct positions, uniformly; a query's own do not depend on the other queries."""
    chosen: dict[str, Pointer] = {}
    for query in queries:
        drawn = generator_of(query, seed=seed, purpose=f"random {shots}")
        chosen[query] = tuple(drawn.choice(len(pools.pools[query]), shots, replace=False).tolist())
    return chosen


def choose_most_similar(
    pools: Pools, queries: Sequence[str], *, of_queries: EmbeddingBank, of_candidates: EmbeddingBank, shots: int
) -> dict[str, Pointer]:
    """The largest inner products of each pool, the largest last; ties by id. Raises FileUnusable for unknown ids."""
    pooled = list(dict.fromkeys(chain.from_iterable(pools.pools[query] for query in queries)))
    row, vectors = {name: number for number, name in enumerate(pooled)}, of_candidates.rows(pooled).numpy()
    chosen: dict[str, Pointer] = {}
    for query, vector in zip(queries, of_queries.rows(queries).numpy().astype(np.float64), strict=True):
        pool = pools.pools[query]
        scores = np.round(vectors[[row[name] for name in pool]].astype(np.float64) @ vector, DECIMALS)
        best = sorted(range(len(pool)), key=lambda at: (-scores[at], pool[at]))[:shots]
        chosen[query] = tuple(reversed(best))
    return chosen


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

    All ordered pointers of a pool are tried, or `BEST_OF` of them; a query is done with its first entirely right one.

    known: results of other selectors, which count as tried: no selector is better than the oracle.
    most_judgments: limit of the search; the best so far counts, and `search` says whether it is a lower bound.
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
    if shots <= ALL_UP_TO_SHOTS or math.perm(size, shots) <= BEST_OF:
        pointers = _all_pointers(size, shots)
        for number in rng.permutation(len(pointers)).astype(np.int32):
            yield pointers[number]
    else:
        drawn = set[Pointer]()
        while len(drawn) < BEST_OF:
            pointer: Pointer = tuple(rng.choice(size, shots, replace=False).tolist())
            if pointer not in drawn:
                drawn.add(pointer)
                yield pointer


@cache
def _all_pointers(size: int, shots: int) -> tuple[Pointer, ...]:
    return tuple(permutations(range(size), shots))


def _accuracy(outcome: Outcome) -> float:
    return -1.0 if outcome.accuracy is None else outcome.accuracy


def predict(
    selector: PointerSelector,
    queries: EmbeddingBank,
    candidates: EmbeddingBank,
    *,
    shots: int,
    pools: Mapping[str, Sequence[str]] | None = None,
    pool_size: int = 64,
) -> dict[str, Prediction]:
    """The likeliest demonstrations of every query.

    pools: candidates of each query; None: its `pool_size` most similar ones, itself left out by id.
    Raises PoolTooSmall, and FileUnusable for vectors of another width, or ids without a vector.
    """
    if candidates.dimension != queries.dimension:
        raise FileUnusable(
            f"the candidates have {candidates.dimension} numbers each, the queries {queries.dimension}; "
            "export them with the same encoder"
        )
    if candidates.encoder and queries.encoder and candidates.encoder != queries.encoder:
        raise FileUnusable(
            f"the candidates: embedded by {candidates.encoder}, and {queries.encoder} is needed; embed again"
        )
    if pools is not None and (missing := [query for query in queries.ids if query not in pools]):
        raise FileUnusable(
            f"{len(missing)} queries have no pool ({', '.join(missing[:5])}); give queries that have one"
        )
    found: dict[str, Prediction] = {}
    for start in range(0, len(queries.ids), PREDICTED_AT_ONCE):
        ids = queries.ids[start : start + PREDICTED_AT_ONCE]
        pooled = {one: pools[one] for one in ids} if pools else _nearest(queries, candidates, ids, pool_size)
        found |= likeliest(selector, queries, candidates, pooled, shots=shots)
    return found


def _nearest(
    queries: EmbeddingBank, candidates: EmbeddingBank, ids: Sequence[str], size: int
) -> dict[str, tuple[str, ...]]:
    """One candidate more than wanted is looked up, since a query may be among them."""
    similar = queries.rows(ids) @ candidates.vectors.mT
    best = similar.topk(min(size + 1, len(candidates.ids)), dim=-1).indices.tolist()
    return {
        query: tuple(name for row in rows if (name := candidates.ids[row]) != query)[:size]
        for query, rows in zip(ids, best, strict=True)
    }
