"""Selectors and their evaluation: rules without learning, trained networks, and an oracle that tries all pointers.

Without learning: the nearest candidates, near and diverse ones, random ones, and what the samplers of Lever-Plus take.
All but `similarity_pool` choose among all candidates: whoever replaces them has to beat them there. Each names the
nearest last: it is shown next to the question.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.pointer import PointerSelector
from tasks import progress
from tasks.lever import lever_records as records
from tasks.lever.data.candidate_pools import DECIMALS, Banks, Pair, draw_pools, find_nearest, generator_of
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.judge.judging import Judging, Judgment, PromptedQuery
from tasks.lever.learning.training_inputs import Setting, predict_greedily
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_options import OracleSettings

Demonstrations = Mapping[str, tuple[str, ...]]
"""Query → ids of its demonstrations, in the order in which they are shown."""
Choose = Callable[..., Demonstrations]
"""Called with `shots`, returns the demonstrations of each query."""
DIVERSE_AMONG = 64
"""Nearest candidates among which `MMR`, `DISTINCT` and `DPP` choose, or all that are shown where these are more."""
VOTERS = 8
"""Nearest candidates whose classes vote in `SIMILARITY_VOTE`."""
CLASSES = "classes of candidates"
"""Entry of `NEEDED` for selectors that need the classes of the candidates beside embeddings."""
NEEDED: dict[str, set[str]] = {
    records.SIMILARITY: {"joint"},
    records.SIMILARITY_VOTE: {"joint", CLASSES},
    records.MMR: {"joint"},
    records.DISTINCT: {"joint", "images", "texts"},  # of texts alone, equal questions are equal candidates
    records.DPP: {"joint"},
    records.SIMILARITY_POOL: {"joint"},
    "TextSimSampler": {"texts"},
    "ImgSimSampler": {"images"},
    "MixSampler": {"images", "texts"},
}
"""What each selector cannot choose without: names of embeddings, as of `Banks`, and `CLASSES`."""


def available_selectors(available: Collection[str]) -> tuple[str, ...]:
    """Return the selectors without training that these embeddings and classes, named as in `NEEDED`, allow."""
    return tuple(name for name in records.UNTRAINED if NEEDED.get(name, set()) <= {*available})


def untrained_selectors(
    queries: Sequence[str],
    candidates: Sequence[str],
    banks: Banks,
    *,
    pools: Mapping[str, Sequence[str]],
    classes: Mapping[str, str],
    seed: int,
    tuned: Mapping[str, float] | None = None,
) -> dict[str, Choose]:
    """Return the selectors without training that can choose for these queries, by name.

    classes: the class of each candidate; empty where items have none. tuned: weights of rules, as in `Verdict`.
    """

    def choose_by_sampler(sampler: records.Sampler, *, shots: int) -> Demonstrations:
        """Choose what a sampler draws for a pool of `shots`, its first last. Raises PoolTooSmall, FileUnusable."""
        drawn = draw_pools(
            queries, candidates, banks, recipe=records.PoolRecipe(sampler=sampler, size=shots), seed=seed
        )
        return {query: tuple(reversed(names)) for query, names in drawn.pools.items()}

    choosers: dict[str, Choose] = {
        records.ZERO_SHOT: lambda **_: dict.fromkeys(queries, ()),
        records.RANDOM: partial(choose_at_random, queries, candidates, seed=seed),
        records.SIMILARITY_POOL: lambda *, shots: {
            query: choose_nearest([query], pools[query], banks["joint"], shots=shots)[query] for query in queries
        },
    }
    choosers |= {sampler: partial(choose_by_sampler, sampler) for sampler in records.SEED_CHOICES}
    for name in records.RIVALS:
        weight = (tuned or {}).get(name, WEIGHTS.get(name, (0.0,))[-1])
        rule = records.SelectionRule.model_validate({"name": name, "weight": weight, "classes": classes})
        choosers[name] = partial(choose_by_rule, rule, queries, candidates, banks)
    return {name: choosers[name] for name in available_selectors({*banks, *([CLASSES] if classes else [])})}


def choose_by_rule(
    rule: records.SelectionRule, queries: Sequence[str], candidates: Sequence[str], banks: Banks, *, shots: int
) -> Demonstrations:
    """Choose by a rule, its first choice last. Raises FileUnusable for missing embeddings, PoolTooSmall."""
    if missing := NEEDED[rule.name] - {*banks, CLASSES, "images"}:
        raise FileUnusable(f"{rule.title} needs the embeddings of {', '.join(sorted(missing))}; export them as well")
    among = queries, candidates, banks["joint"]
    match rule.name:
        case "similarity":
            return choose_nearest(*among, shots=shots)
        case "similarity_vote":
            return choose_by_vote(*among, rule.classes, shots=shots)
        case "mmr":
            return choose_diverse(*among, shots=shots, weight=rule.weight)
        case "distinct_questions":
            return choose_distinct(*among, banks["texts"][1], shots=shots)
        case "dpp":
            return choose_spread(*among, shots=shots, weight=rule.weight)


def choose_at_random(queries: Sequence[str], candidates: Sequence[str], *, shots: int, seed: int) -> Demonstrations:
    """Draw distinct candidates of each query, never itself, by its own generator. Raises ValueError for too few."""
    ids = sorted(candidates)
    demonstrations: dict[str, tuple[str, ...]] = {}
    for query in queries:
        eligible = [name for name in ids if name != query]
        drawn = generator_of(query, seed=seed, purpose=f"random {shots}").choice(len(eligible), shots, replace=False)
        demonstrations[query] = tuple(eligible[at] for at in drawn)
    return demonstrations


def choose_nearest(queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, shots: int) -> Demonstrations:
    """Choose the nearest of all candidates but the query, by inner product, the nearest last; ties by id.

    Source: RICES of Flamingo (arXiv 2204.14198) and OpenFlamingo; of image and question together, as PICa has them
    (Yang et al., arXiv 2109.05014). Raises FileUnusable for unknown ids, PoolTooSmall.
    """
    neighbours = find_nearest(queries, candidates, vectors, count=shots)
    return {query: tuple(reversed(names)) for query, names in neighbours.items()}


def choose_by_vote(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, classes: Mapping[str, str], *, shots: int
) -> Demonstrations:
    """Choose the nearest candidates of the class that most of the `VOTERS` nearest have, the nearest last.

    Of classes with as many votes, that of the nearest; of one with too few members all, behind the nearest of others.
    Source: Cover and Hart 1967, doi 10.1109/TIT.1967.1053964. Raises FileUnusable for unknown ids, PoolTooSmall.
    """
    near = find_nearest(queries, candidates, vectors, count=min(VOTERS, len(candidates) - 1))  # − 1: never itself
    if unknown := {name for names in near.values() for name in names} - classes.keys():
        raise FileUnusable(f"candidate {min(unknown)} has no class; give the candidates of the training")
    # of equal counts `most_common` takes the class that was met first, which is that of the nearer candidate
    voted = {query: Counter(classes[name] for name in names).most_common(1)[0][0] for query, names in near.items()}
    demonstrations: dict[str, tuple[str, ...]] = {}
    for label in sorted({*voted.values()}):
        voters = [query for query in queries if voted[query] == label]
        members = [name for name in candidates if classes.get(name) == label]
        count = min(shots, len(members) - bool({*members} & {*voters}))
        of_class = find_nearest(voters, members, vectors, count=count)
        # of a class with fewer members all, and before them the nearest of other classes
        others = find_nearest(voters, candidates, vectors, count=shots) if count < shots else of_class
        for query, names in of_class.items():
            demonstrations[query] = tuple(reversed(list(dict.fromkeys([*names, *others[query]]))[:shots]))
    return {query: demonstrations[query] for query in queries}


WEIGHTS: dict[str, tuple[float, ...]] = {records.MMR: (0.3, 0.5, 0.7, 1.0), records.DPP: (0.02, 0.05, 0.1, 0.2)}
"""Weights of unlikeness that are tried on the validation queries; the last where nothing was tried."""


def choose_diverse(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, shots: int, weight: float = 1.0
) -> Demonstrations:
    """Choose, among the `DIVERSE_AMONG` nearest, by maximal marginal relevance: near, unlike the picks; the first last.

    weight: of the likeness to the most similar pick, taken off the nearness to the query.
    Source: Carbonell and Goldstein 1998, doi 10.1145/290941.291025.
    """
    return _pick_in_turn(
        queries, candidates, vectors, shots=shots, penalty=lambda rows, picked: weight * (rows @ picked.T).max(1)
    )


def choose_spread(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, shots: int, weight: float
) -> Demonstrations:
    """Choose a determinantal point process's mode greedily among the `DIVERSE_AMONG` nearest, the first pick last.

    weight: of the log-volume that the picks span, against the sum of their nearness to the query.
    Source: Chen et al. 2018, arXiv:1709.05135; for demonstrations Ye et al. 2023, arXiv:2302.05698.
    """

    def penalty(rows: Values, picked: Values) -> Values:
        inside = rows @ np.linalg.qr(picked.T)[0]  # (N, picks) the part of each row that the picks span already
        residual = np.square(rows).sum(1) - np.square(inside).sum(1)
        return -weight * np.log(residual.clip(min=SMALLEST_VOLUME))

    return _pick_in_turn(queries, candidates, vectors, shots=shots, penalty=penalty)


def choose_distinct(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, texts: EmbeddingBank, *, shots: int
) -> Demonstrations:
    """Choose the nearest of all candidates with a question that no nearer choice has, the nearest last.

    texts: vectors of the candidates' questions; equal questions have equal ones. Where the `DIVERSE_AMONG` nearest have
    fewer questions than shots, the nearest of the others follow.
    """
    near = find_nearest(queries, candidates, vectors, count=_count_near(candidates, shots))
    names = sorted({name for ranked in near.values() for name in ranked})
    question_of = {name: row.tobytes() for name, row in zip(names, texts.rows(names).numpy(), strict=True)}
    demonstrations: dict[str, tuple[str, ...]] = {}
    for query, ranked in near.items():
        first_with = {question_of[name]: name for name in reversed(ranked)}
        firsts = sorted(first_with.values(), key=ranked.index)
        demonstrations[query] = tuple(reversed(list(dict.fromkeys([*firsts, *ranked]))[:shots]))
    return demonstrations


Values = NDArray[np.float64]
SMALLEST_VOLUME = 1e-9
"""Squared distance from what is picked below which a candidate counts as a copy."""


def _count_near(candidates: Sequence[str], shots: int) -> int:
    return max(shots, min(DIVERSE_AMONG, len(candidates) - 1))  # − 1: never itself


def _pick_in_turn(
    queries: Sequence[str],
    candidates: Sequence[str],
    vectors: Pair,
    *,
    shots: int,
    penalty: Callable[[Values, Values], Values],
) -> Demonstrations:
    """Pick what is near the query less a penalty (N,) of rows (N, d) given picked rows (picks, d), the first last."""
    near = find_nearest(queries, candidates, vectors, count=_count_near(candidates, shots))
    (of_queries, of_candidates), demonstrations = vectors, dict[str, tuple[str, ...]]()
    for query, names in near.items():
        rows = of_candidates.rows(list(names)).numpy().astype(np.float64)
        to_query = rows @ of_queries.rows([query]).numpy().astype(np.float64)[0]
        picked = list[int]()
        for _ in range(shots):
            relevance = np.round(to_query - (penalty(rows, rows[picked]) if picked else 0.0), DECIMALS)
            relevance[picked] = -np.inf
            picked.append(int(relevance.argmax()))
        demonstrations[query] = tuple(names[at] for at in reversed(picked))
    return demonstrations


Judge = Callable[[Sequence[PromptedQuery]], Sequence[Judgment]]
"""One judgment for each question, in order."""
ALL_UP_TO_SHOTS = 2
"""Most shots for which all ordered pointers are tried: 992 in a pool of 32, 4,032 in one of 64."""
BEST_OF = 500
"""Pointers that are drawn and tried where there are more shots."""
FIRST_ROUND, LARGEST_ROUND = 1, 256
"""Pointers of a query that are judged together; each round has twice as many as the one before."""
PERFECT = 1 - 1e-9
"""Accuracy from which a pointer counts as entirely right."""


def measure_selectors(
    setting: Setting,
    pools: records.Pools,
    selectors: Mapping[str, PointerSelector],
    *,
    banks: Banks,
    shots: Sequence[int],
    trained_shots: int,
    oracle: OracleSettings,
    seed: int,
    verdict: records.Verdict,
) -> tuple[records.SelectorResult, ...]:
    """Evaluate every selector with every number of shots on the test queries, zero-shot, and the oracle if it may ask.

    verdict: which of the last trained selector and a rule is `selected`, and the weights of rules.
    """
    queries = [item.id for item in setting.dataset.test]
    about: Any = {"pools": pools.pools, "classes": classes_of(setting), "seed": seed, "tuned": verdict.tuned}
    choosers = show_nearest_last(untrained_selectors(queries, setting.dataset.candidates, banks, **about), setting)
    choosers |= {name: choose_by_selector(network, setting, pools, queries) for name, network in selectors.items()}
    judge = _with_progress(setting.judging, "evaluate")
    results = judge_selectors(choosers, queries, pools, judge, shots=sorted({0, *shots}))  # 0: zero-shot, always a row
    source = verdict.stage if verdict.is_learned else verdict.rule.name
    results += tuple(
        result.model_copy(update={"selector": records.SELECTED}) for result in results if result.selector == source
    )
    if oracle.most_judgments == 0:
        return results
    judge, limit = _with_progress(setting.judging, "search best"), oracle.most_judgments
    oracle_result = search_best(
        queries, pools, judge, shots=trained_shots, seed=seed, results=results, most_judgments=limit
    )
    return (*results, oracle_result)


def classes_of(setting: Setting) -> dict[str, str]:
    """Return the class of each candidate; empty where items have none."""
    judging = setting.judging
    names = setting.dataset.candidates if judging.task.choices else ()
    return {name: judging.items[name].shown_answer for name in names}


def show_nearest_last(rules: Mapping[str, Choose], setting: Setting) -> dict[str, Choose]:
    """Return rules in the order of picks that shows the nearest next to the question, as RICES does."""
    in_order = setting.judging.task.prompts.in_order

    def choose(rule: Choose, *, shots: int) -> Demonstrations:
        return {query: in_order(names) for query, names in rule(shots=shots).items()}

    return {name: partial(choose, rule) for name, rule in rules.items()}


def choose_by_selector(
    selector: PointerSelector, setting: Setting, pools: records.Pools, queries: Sequence[str]
) -> Choose:
    """Return a trained selector as one that chooses for these queries from their pools."""
    of_queries = {query: pools.pools[query] for query in queries}

    def choose(*, shots: int) -> Demonstrations:
        predictions = predict_greedily(selector, setting.queries, setting.candidates, of_queries, shots=shots)
        return {query: prediction.demonstrations for query, prediction in predictions.items()}

    return choose


def judge_selectors(
    choosers: Mapping[str, Choose], queries: Sequence[str], pools: records.Pools, judge: Judge, *, shots: Sequence[int]
) -> tuple[records.SelectorResult, ...]:
    """Return a result for each number of shots and selector, in this order, judged at once; 0 is for `zero_shot` alone.

    Raises PoolTooSmall, and as `judge` does.
    """
    demonstrations = {
        (name, count): choose(shots=count)
        for count in shots
        for name, choose in choosers.items()
        if (count == 0) == (name == records.ZERO_SHOT)
    }
    prompts = [PromptedQuery(query, of_query[query]) for of_query in demonstrations.values() for query in queries]
    outcomes = iter(judge_prompts(prompts, pools, judge))
    return tuple(
        records.SelectorResult(selector=name, shots=count, outcomes=tuple(next(outcomes) for _ in queries))
        for name, count in demonstrations
    )


def judge_prompts(prompts: Sequence[PromptedQuery], pools: records.Pools, judge: Judge) -> list[records.Outcome]:
    """Judge each prompt and return the outcomes, in order; the pointer is empty where not all shown is in the pool."""
    outcomes = list[records.Outcome]()
    for prompt, judgment in zip(prompts, judge(prompts), strict=True):
        pool, demonstrations = pools.pools[prompt.query], prompt.demonstrations
        pointer = tuple(map(pool.index, demonstrations)) if {*demonstrations} <= {*pool} else ()
        outcomes.append(
            records.Outcome(query=prompt.query, pointer=pointer, shown=demonstrations, **judgment._asdict())
        )
    return outcomes


def _with_progress(judging: Judging, stage: str) -> Judge:
    """Return the judge as a function that reports prompts and answers as the progress of this stage."""

    def judge(prompts: Sequence[PromptedQuery]) -> Sequence[Judgment]:
        progress.expect(stage, len(set(prompts)))
        return judging.judge(prompts, lambda count: progress.advance(stage, count))

    return judge


def find_unanswered(results: Sequence[records.SelectorResult]) -> dict[str, str]:
    """Return, by `SELECTOR, N shots, query ID`, why the judge did not answer what it may answer another time."""
    reasons: dict[str, str] = {}
    for result in results:
        shots = f"{result.shots} shot{'s' if result.shots != 1 else ''}"
        for outcome in result.outcomes:
            if outcome.retryable:
                reasons[f"{result.selector}, {shots}, query {outcome.query}"] = outcome.failed or ""
    return reasons


def search_best(
    queries: Sequence[str],
    pools: records.Pools,
    judge: Judge,
    *,
    shots: int,
    seed: int,
    results: Iterable[records.SelectorResult] = (),
    most_judgments: int | None = None,
) -> records.SelectorResult:
    """Find for each query the pointer with the highest accuracy, of equals the one that was tried first.

    All ordered pointers of a pool are tried, or `BEST_OF` of them; a query is done with its first entirely right one.
    results: of other selectors; those of as many shots count as tried, so that none is better than the oracle.
    most_judgments: limit of the search; the best so far counts, and `search` says whether it is a lower bound.
    """
    best = {
        query: records.Outcome(query=query, pointer=(), shown=(), failed="no pointer was judged") for query in queries
    }
    scored: dict[str, set[tuple[str, ...]]] = {query: set() for query in queries}

    def add(outcome: records.Outcome) -> None:
        """Note what was scored for a query, and the outcome if it is the query's best."""
        if outcome.accuracy is not None:
            scored[outcome.query].add(outcome.shown)
        best_so_far = best[outcome.query]
        if not best_so_far.shown or _accuracy_of(outcome) > _accuracy_of(best_so_far):
            best[outcome.query] = outcome  # a failure too, which says whether the judge may answer another time

    def is_settled(query: str) -> bool:
        """Return whether no other pointer can be better: one is entirely right, or all of the pool were scored."""
        pool = pools.pools[query]
        # what is shown from outside the pool may be the best, but is none of the pointers to be tried
        count = sum(map(set(pool).issuperset, scored[query]))
        return _accuracy_of(best[query]) >= PERFECT or count == math.perm(len(pool), shots)

    def draw_untried(query: str) -> Iterator[PromptedQuery]:
        """Yield prompts with random pointers of a query's pool that have no score yet."""
        pool, rng = pools.pools[query], generator_of(query, seed=seed, purpose=f"oracle {shots}")
        for pointer in _draw_pointers(len(pool), shots=shots, rng=rng):
            demonstrations = tuple(pool[at] for at in pointer)
            if demonstrations not in scored[query]:
                yield PromptedQuery(query, demonstrations)

    for outcome in (tried for result in results if result.shots == shots for tried in result.outcomes):
        if outcome.accuracy is not None:
            add(outcome)
    untried = {query: draw_untried(query) for query in queries}
    judged, size = 0, FIRST_ROUND
    while prompts := [prompt for query in queries if not is_settled(query) for prompt in islice(untried[query], size)]:
        affordable = prompts[: None if most_judgments is None else max(0, most_judgments - judged)]
        for outcome in judge_prompts(affordable, pools, judge):
            add(outcome)
        judged += len(affordable)
        if len(affordable) < len(prompts):
            break
        size = min(2 * size, LARGEST_ROUND)
    return records.SelectorResult(
        selector=records.ORACLE,
        shots=shots,
        outcomes=tuple(best.values()),
        search=records.Search(judged=judged, settled=sum(map(is_settled, queries)), queries=len(queries)),
    )


def _draw_pointers(size: int, *, shots: int, rng: np.random.Generator) -> Iterator[records.Pointer]:
    """Yield all ordered pointers in random order, or `BEST_OF` distinct ones where there are too many."""
    if shots <= ALL_UP_TO_SHOTS or math.perm(size, shots) <= BEST_OF:
        pointers = tuple(permutations(range(size), shots))
        for number in rng.permutation(len(pointers)).astype(np.int32):
            yield pointers[number]
    else:
        drawn = set[records.Pointer]()
        while len(drawn) < BEST_OF:
            pointer: records.Pointer = tuple(rng.choice(size, shots, replace=False).tolist())
            if pointer not in drawn:
                drawn.add(pointer)
                yield pointer


def _accuracy_of(outcome: records.Outcome) -> float:
    return -1.0 if outcome.accuracy is None else outcome.accuracy
