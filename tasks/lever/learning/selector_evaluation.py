"""Results of one seed: the judge's accuracy on held-out queries, per selector and number of shots.

An answer that the judge could not give is neither right nor wrong: it is counted, and in no mean.
"""

from __future__ import annotations

from pydantic import Field

from storage.records import Record
from tasks.lever.lever_records import Sampler

SIMILARITIES = ("similarity", "similarity_text", "similarity_image", "similarity_class")
"""Image and question together, the question, the image, what the encoder takes the image for."""
TRAINED = ("sft", "rce", "grpo")
ORACLE = "oracle"
SELECTORS = ("random", *SIMILARITIES, *TRAINED, ORACLE)
"""In the order in which tables show them; others, such as ablations, stand before the oracle."""

Pointer = tuple[int, ...]
"""Positions in a pool, in the order in which they are shown."""


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
