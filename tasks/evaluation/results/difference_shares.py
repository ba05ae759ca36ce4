"""What the difference of two runs on a task is due to: other replies, or other grading of the same replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from storage.records import Record
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.results.inspect_logs import Told
from tasks.measure.estimates import is_binary
from tasks.measure.paired_tests import paired_test

DueTo = Literal["replies", "grading"]


class Share(Record):
    """A part of the mean paired difference; all parts together are the difference."""

    due_to: DueTo
    """grading: the replies to the item are the same to the letter, so nothing else can have changed its score."""
    value: float
    low: float | None
    """Lower end of the 95 % interval; None for a single item with a non-binary score."""
    high: float | None
    changed: int
    """Items whose score is another one."""


@dataclass
class _Item:
    scores: list[float] = field(default_factory=list)
    replies: list[int | None] = field(default_factory=list)
    """A hash of the texts of each repeat; None where they are not kept."""

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)


def shares(before: Iterable[Told], after: Iterable[Told]) -> list[Share]:
    """The larger part first, over the items that both runs scored; no model is asked and nothing is graded again.

    Raises ResultsUnusable if there is no such item, or if the replies to one are not kept.
    """
    first, second = _by_item(before), _by_item(after)
    paired = [(first[name], second[name]) for name in first if name in second]
    paired = [(one, other) for one, other in paired if one.scores and other.scores]
    if not paired:
        raise ResultsUnusable("the two runs scored no item in common")
    if any(None in one.replies for pair in paired for one in pair):
        raise ResultsUnusable("the replies of one of the runs are no longer kept")
    binary = is_binary(each.mean for pair in paired for each in pair)
    found: list[Share] = []
    parts: tuple[DueTo, ...] = ("replies", "grading")
    for part in parts:
        gains = [
            other.mean - one.mean if (one.replies == other.replies) == (part == "grading") else 0.0
            for one, other in paired
        ]
        interval = paired_test(gains, binary=binary, seed=0).interval
        found.append(
            Share(
                due_to=part,
                value=sum(gains) / len(gains),
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                changed=sum(gain != 0 for gain in gains),
            )
        )
    return sorted(found, key=lambda share: -abs(share.value))


def _by_item(told: Iterable[Told]) -> dict[str, _Item]:
    items: dict[str, _Item] = {}
    for sample, _, replies in told:
        item = items.setdefault(sample.item, _Item())
        if sample.status == "scored" and sample.score is not None:
            item.scores.append(sample.score)
        item.replies.append(hash(tuple(replies)) if replies else None)
    return items
