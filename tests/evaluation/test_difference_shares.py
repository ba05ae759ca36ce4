"""What a difference is due to, by numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.results.difference_shares import shares
from tasks.evaluation.results.inspect_logs import Told


def told(**items: tuple[float | None, str]) -> list[Told]:
    """Samples of items by score and reply."""
    return [
        Told(
            Sample(item=item, repeat=0, status="unscored" if score is None else "scored", score=score),
            ["?"],
            [reply] if reply else [],
        )
        for item, (score, reply) in items.items()
    ]


def test_parts_add_up_to_the_difference() -> None:
    before = told(a=(1, "x"), b=(1, "x"), c=(0, "x"), d=(1, "x"), only=(1, "x"))
    after = told(a=(0, "x"), b=(0, "y"), c=(1, "y"), d=(0, "y"))
    replies, grading = shares(before, after)
    assert (replies.due_to, replies.value, replies.changed) == ("replies", -0.25, 3)  # b and d lost, c won, of four
    assert (grading.due_to, grading.value, grading.changed) == ("grading", -0.25, 1)
    for share in (replies, grading):
        assert share.low is not None
        assert share.high is not None
        assert share.low < share.value < share.high


def test_the_larger_part_stands_first() -> None:
    first, second = shares(told(a=(1, "x"), b=(0.5, "x")), told(a=(1, "y"), b=(0, "x")))
    assert (first.due_to, first.value, first.changed) == ("grading", -0.25, 1)
    assert (second.due_to, second.value, second.changed) == ("replies", 0, 0)


def test_repeats_of_an_item_count_as_its_mean() -> None:
    two = told(a=(1, "x")) + told(a=(0, "y"))
    other = told(a=(1, "x")) + told(a=(1, "y"))
    grading, _ = shares(two, other)
    assert (grading.due_to, grading.value) == ("grading", 0.5)
    replies, _ = shares(two, told(a=(1, "x")) + told(a=(1, "z")))
    assert (replies.due_to, replies.value) == ("replies", 0.5)


def test_where_both_changed_the_first_replies_are_graded_again() -> None:
    """a: only graded otherwise; b: lost by its reply; c: won by grading; d: both, which cancel."""
    before = told(a=(1, "x"), b=(1, "x"), c=(0, "x"), d=(0, "x"))
    after = told(a=(0, "x"), b=(0, "y"), c=(1, "y"), d=(0, "y"))
    asked: list[str] = []

    def regrade(samples: Iterable[Sample]) -> Iterator[Sample]:
        for sample in samples:
            asked.append(sample.item)
            yield sample.model_copy(update={"score": {"b": 1, "c": 1, "d": 1}[sample.item]})

    by = {share.due_to: share for share in shares(before, after, regrade)}
    assert asked == ["b", "c", "d"]
    assert (by["grading"].value, by["grading"].changed) == ((-1 + 0 + 1 + 1) / 4, 3)
    assert (by["replies"].value, by["replies"].changed) == ((0 - 1 + 0 - 1) / 4, 2)


def test_a_reply_that_cannot_be_graded_again_counts_as_another_reply() -> None:
    def regrade(samples: Iterable[Sample]) -> Iterator[Sample]:
        return (sample.model_copy(update={"status": "unscored", "score": None}) for sample in samples)

    replies, grading = shares(told(a=(1, "x")), told(a=(0, "y")), regrade)
    assert (replies.due_to, replies.value, grading.value) == ("replies", -1, 0)


def test_unscored_items_are_left_out() -> None:
    grading, replies = shares(told(a=(None, "x"), b=(1, "x")), told(a=(1, "x"), b=(0, "x")))
    assert (grading.due_to, grading.value, replies.value) == ("grading", -1, 0)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (told(a=(1, "x")), told(b=(1, "x")), "no item in common"),
        (told(a=(1, "")), told(a=(1, "x")), "no longer kept"),
    ],
)
def test_what_cannot_be_told_is_said(before: list[Told], after: list[Told], said: str) -> None:
    with pytest.raises(ResultsUnusable, match=said):
        shares(before, after)
