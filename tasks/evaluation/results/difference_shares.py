"""What the difference of two runs on a task is due to: other replies, or other grading of the same replies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from storage.records import Record
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.results.inspect_logs import Told
from tasks.evaluation.results.regrading import Regrade
from tasks.measure.estimates import is_binary
from tasks.measure.paired_tests import paired_test

DueTo = Literal["replies", "grading"]


class Share(Record):
    """A part of the mean paired difference; all parts together are the difference."""

    due_to: DueTo
    """grading: what the first run's replies get from the second run's graders, less what they got."""
    value: float
    low: float | None
    """Lower end of the 95 % interval; None for a single item with a non-binary score."""
    high: float | None
    changed: int
    """Items whose score is another one."""


@dataclass
class _Item:
    samples: list[Sample] = field(default_factory=list)
    """Those with a score."""
    replies: list[int | None] = field(default_factory=list)
    """A hash of the texts of each repeat; None where they are not kept."""

    @property
    def mean(self) -> float:
        return mean_score(self.samples)


def shares(before: Iterable[Told], after: Iterable[Told], regrade: Regrade | None = None) -> list[Share]:
    """The larger part first, over the items that both runs scored; no model is asked.

    regrade: grades replies of the first run, where the second run has others, as the second run did; None where both
    runs grade alike. Raises ResultsUnusable if no item was scored in both, or the replies to one are not kept.
    """
    first, second = _by_item(before), _by_item(after)
    paired = [(first[name], second[name]) for name in first if name in second]
    paired = [(one, other) for one, other in paired if one.samples and other.samples]
    if not paired:
        raise ResultsUnusable("the two runs scored no item in common")
    if any(None in one.replies for pair in paired for one in pair):
        raise ResultsUnusable("the replies of one of the runs are no longer kept")
    changed = [one for one, other in paired if one.replies != other.replies] if regrade else []
    again = _regraded(changed, regrade) if regrade else {}
    grading = [
        (other.mean if one.replies == other.replies else again.get(one.samples[0].item, one.mean)) - one.mean
        for one, other in paired
    ]
    replies = [other.mean - one.mean - gain for (one, other), gain in zip(paired, grading, strict=True)]
    found = [_share("replies", replies), _share("grading", grading)]
    return sorted(found, key=lambda share: -abs(share.value))


def mean_score(samples: Sequence[Sample]) -> float:
    return sum(sample.score or 0 for sample in samples) / len(samples)


def _regraded(items: Sequence[_Item], regrade: Regrade) -> dict[str, float]:
    """Item → its mean score by the graders of the other run; none where one of its replies gets no score there."""
    again: dict[str, list[Sample]] = {}
    for sample in regrade(sample for item in items for sample in item.samples):
        again.setdefault(sample.item, []).append(sample)
    return {name: mean_score(of) for name, of in again.items() if all(one.score is not None for one in of)}


def _share(due_to: DueTo, gains: Sequence[float]) -> Share:
    interval = paired_test(gains, binary=is_binary(abs(gain) for gain in gains), seed=0).interval
    return Share(
        due_to=due_to,
        value=sum(gains) / len(gains),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        changed=sum(gain != 0 for gain in gains),
    )


def _by_item(told: Iterable[Told]) -> dict[str, _Item]:
    items: dict[str, _Item] = {}
    for sample, _, replies in told:
        item = items.setdefault(sample.item, _Item())
        if sample.status == "scored" and sample.score is not None:
            item.samples.append(sample)
        item.replies.append(hash(tuple(replies)) if replies else None)
    return items
