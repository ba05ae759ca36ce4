"""How well selectors choose: the judge's accuracy on held-out queries, per selector and number of shots.

An answer that the judge could not give is neither right nor wrong: it is counted, and in no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, sqrt
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from storage.records import Record
from tasks.lever.lever_errors import PointerUnusable, PoolTooSmall
from tasks.lever.lever_records import Pools, Sampler

if TYPE_CHECKING:
    from typing import Self

    from tasks.lever.judge.judging import Asked, Judgment

SIMILARITIES = ("similarity", "similarity_text", "similarity_image", "similarity_class")
"""Image and question together, the question, the image, what the encoder takes the image for."""
TRAINED = ("sft", "rce", "grpo")
ORACLE = "oracle"
SELECTORS = ("random", *SIMILARITIES, *TRAINED, ORACLE)
"""In the order in which tables show them; others, such as ablations, stand before the oracle."""

Pointer = tuple[int, ...]
Choose = Callable[[int], Mapping[str, Pointer]]
"""Shots → query → positions in its pool, in the order in which they are shown."""
Judge = Callable[[Sequence["Asked"]], Sequence["Judgment"]]
"""One judgment for each question, in order."""


class Outcome(Record):
    """What the judge made of one query with the demonstrations that a selector chose."""

    query: str
    pointer: Pointer
    """Positions in the pool."""
    shown: tuple[str, ...]
    """Ids of the demonstrations, in the order in which they are shown."""
    answer: str | None = None
    accuracy: float | None = Field(default=None, ge=0, le=1)
    """VQA accuracy; None where the judge failed."""
    correct: int | None = Field(default=None, ge=0, le=1)
    """1 where the accuracy reaches the threshold."""
    failed: str | None = None
    """Why there is no answer."""
    retryable: bool = False
    """True when the judge may answer another time."""
    key: str | None = None
    """Key of the answer in the response store."""

    @model_validator(mode="after")
    def _is_scored_or_not(self) -> Self:
        if (self.accuracy is None) != (self.correct is None):
            raise ValueError(f"query {self.query}: accuracy {self.accuracy}, correct {self.correct}; both or neither")
        return self


class Search(Record):
    """Extent of an oracle's search."""

    judged: int
    """Pointers that were judged, over all queries."""
    settled: int
    """Queries whose best is known: it is entirely right, or all pointers were judged."""
    queries: int

    @property
    def is_lower_bound(self) -> bool:
        """True when some query may have a better pointer than was found."""
        return self.settled < self.queries


class SelectorResult(Record):
    """One selector with one number of shots on all queries."""

    selector: str
    shots: int
    outcomes: tuple[Outcome, ...]
    search: Search | None = None
    """Extent of the search; oracles only."""

    @property
    def unscored(self) -> int:
        """Queries on which the judge failed."""
        return sum(one.accuracy is None for one in self.outcomes)


class Conditions(Record):
    """What figures depend on beside the seed; only figures under equal conditions are summarised together."""

    dataset: str
    judge: str
    encoder: str
    sampler: Sampler
    pool_size: int
    threshold: float
    """VQA accuracy from which an answer counts as right."""
    trained_shots: int
    """Shots that the selectors were trained for, and that count: the others are reported."""


class Evaluated(Record):
    """What one seed found."""

    conditions: Conditions
    seed: int
    results: tuple[SelectorResult, ...]


def evaluate(
    choosers: Mapping[str, Choose], queries: Sequence[str], pools: Pools, judge: Judge, *, shots: Sequence[int]
) -> tuple[SelectorResult, ...]:
    """A result for each selector and number of shots; the judge is asked once, for all of them together.

    Raises PoolTooSmall where a pool has fewer candidates than shots, PointerUnusable for a choice that is none, and
    what `judge` raises.
    """
    refuse_small_pools(pools, queries, shots=max(shots, default=0))
    chosen = {(name, count): choose(count) for count in shots for name, choose in choosers.items()}
    for (name, count), pointers in chosen.items():
        for query in queries:
            refuse_unusable(name, query, pointers.get(query), pools, shots=count)
    asked = [(query, pointers[query]) for pointers in chosen.values() for query in queries]
    outcomes = iter(judge_pointers(asked, pools, judge))
    return tuple(
        SelectorResult(selector=name, shots=count, outcomes=tuple(next(outcomes) for _ in queries))
        for name, count in chosen
    )


def judge_pointers(asked: Sequence[tuple[str, Pointer]], pools: Pools, judge: Judge) -> list[Outcome]:
    """What the judge makes of each query with a pointer into its pool, in order."""
    from tasks.lever.judge.judging import Asked

    questions = [Asked(query, tuple(pools.pools[query][at] for at in pointer)) for query, pointer in asked]
    judged = zip(asked, questions, judge(questions), strict=True)
    return [_outcome(pointer, question, judgment) for (_, pointer), question, judgment in judged]


def refuse_small_pools(pools: Pools, queries: Iterable[str], *, shots: int) -> None:
    """Raise PoolTooSmall when a query has fewer candidates than are to be shown."""
    for query in queries:
        if (size := len(pools.pools[query])) < shots:
            raise PoolTooSmall(
                f"query {query}: {size} candidates, {shots} are to be shown; lower the shots or draw larger pools"
            )


def refuse_unusable(selector: str, query: str, pointer: Pointer | None, pools: Pools, *, shots: int) -> None:
    """Raise PointerUnusable unless the pointer is `shots` distinct positions in the query's pool."""
    size = len(pools.pools[query])
    if pointer is None:
        raise PointerUnusable(f"{selector} chose nothing for query {query}; it must choose for every one")
    if len(pointer) != shots or len(set(pointer)) < shots or not all(0 <= at < size for at in pointer):
        raise PointerUnusable(
            f"{selector} chose {list(pointer)} for query {query}: {shots} distinct positions below {size} are expected"
        )


def mean(values: Sequence[float]) -> float | None:
    """The mean, None without values; equal to the last bit in any order."""
    return fsum(values) / len(values) if values else None


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean, dividing by n - 1; None for fewer than two values."""
    if (middle := mean(values)) is None or len(values) < 2:
        return None
    return sqrt(fsum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values))


def _outcome(pointer: Pointer, question: Asked, judgment: Judgment) -> Outcome:
    return Outcome(
        query=question.query,
        pointer=pointer,
        shown=question.demonstrations,
        answer=judgment.answer,
        accuracy=judgment.accuracy,
        correct=judgment.correct,
        failed=judgment.failed,
        retryable=judgment.retryable,
        key=judgment.key,
    )
