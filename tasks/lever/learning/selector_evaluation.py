"""How well selectors choose: the judge's accuracy on held-out queries, per selector and number of shots.

An answer that the judge could not give is neither right nor wrong: it is counted, and in no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pydantic import Field

from storage.records import Record
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_records import Pools, Sampler

if TYPE_CHECKING:
    from tasks.lever.judge.judging import Asked, Judgment

SIMILARITIES = ("similarity", "similarity_text", "similarity_image", "similarity_class")
"""Image and question together, the question, the image, what the encoder takes the image for."""
TRAINED = ("sft", "rce", "grpo")
ORACLE = "oracle"
SELECTORS = ("random", *SIMILARITIES, *TRAINED, ORACLE)
"""In the order in which tables show them; others, such as ablations, stand before the oracle."""

Pointer = tuple[int, ...]


class Choose(Protocol):
    """Query → positions in its pool, in the order in which they are shown."""

    def __call__(self, *, shots: int) -> Mapping[str, Pointer]: ...


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

    Raises PoolTooSmall where a pool has fewer candidates than shots, and what `judge` raises.
    """
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
    from tasks.lever.judge.judging import Asked

    questions = [Asked(query, tuple(pools.pools[query][at] for at in pointer)) for query, pointer in asked]
    return [
        Outcome(query=query, pointer=pointer, shown=question.demonstrations, **judgment._asdict())
        for (query, pointer), question, judgment in zip(asked, questions, judge(questions), strict=True)
    ]
