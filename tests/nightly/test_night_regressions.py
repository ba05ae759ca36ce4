"""What counts as worse: beyond noise, beyond what the suite lets pass, and only against equal data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from storage.evaluated import Dataset, EvalSettings, Evaluated, Run, Sample, Task
from storage.evaluations import Evaluations
from tasks.nightly.night_comparing import Found, change
from tasks.nightly.night_records import Change
from tests.nightly.nights import TWO, measure, run

ITEMS = 10


class Kept:
    """Samples by run, as the tables give them."""

    def __init__(self, right: dict[int, int], *, detail: bool = False) -> None:
        self._right = {run(number): count for number, count in right.items()}
        self._detail = detail

    def samples(self, run: str, task: str) -> Iterator[Sample]:
        for item in range(ITEMS if run in self._right else 0):
            score = float(item < self._right[run])
            if self._detail:
                yield Sample(item=str(item), detail={"page": {"mrr@10": score}})
            else:
                yield Sample(item=str(item), detail={}, score=score)


def found(number: int, value: float, *, limit: int | None = None, data: str = "a", kind: Any = "benchmark") -> Found:
    """A figure of the night of that number."""
    at = Evaluated(
        run=Run(id=run(number), kind=kind, started_at=TWO, status="completed", version="0"),
        dataset=Dataset(name="Sums", source="own", checksum=data * 64, count=ITEMS),
        settings=EvalSettings(name="Sums", parameters={"limit": limit, "seed": 0}),
        results=(),
        task=Task(task="Sums", version="1", family="math", metrics={}, counts={}, usage={}),
    )
    metric = "page.mrr@10" if kind == "rag" else "accuracy"
    return Found(TWO + timedelta(days=number), measure(value, number, metric=metric), at)


def changed(now: Found, earlier: Sequence[Found], right: dict[int, int], **rules: Any) -> Change:
    kept = cast(Evaluations, Kept(right, detail=now.at.run.kind == "rag"))
    return change("small", now.measure.metric, now, earlier, evaluations=kept, **rules)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (9, 2, "worse"),  # seven lost, none won: McNemar 2 / 2⁷
        (9, 4, "within noise"),  # five: 2 / 2⁵ is .062
        (2, 9, "better"),
        (5, 5, "within noise"),
    ],
)
def test_a_drop_is_one_beyond_noise_only(before: int, after: int, verdict: str) -> None:
    one = changed(found(2, after / ITEMS), [found(1, before / ITEMS)], {1: before, 2: after})
    assert (one.verdict, one.paired, one.difference) == (verdict, True, pytest.approx((after - before) / ITEMS))


def test_a_drop_that_the_suite_lets_pass_is_none() -> None:
    assert changed(found(2, 0.2), [found(1, 0.9)], {1: 9, 2: 2}, least_drop=0.8).verdict == "within noise"


def test_the_items_that_it_lost_are_named() -> None:
    one = changed(found(2, 0.2), [found(1, 0.9)], {1: 9, 2: 2})
    assert ((one.wins, one.losses), [flip.item for flip in one.worse]) == ((0, 7), ["2", "3", "4", "5", "6"])


def test_the_last_night_with_equal_data_and_settings_is_compared_with() -> None:
    others = [found(3, 0.9, limit=5), found(2, 0.9, data="b"), found(1, 0.9)]
    one = changed(found(4, 0.2), others, {1: 9, 2: 9, 3: 9, 4: 2})
    assert one.before
    assert (one.verdict, one.before.run) == ("worse", run(1))


def test_other_settings_are_named_not_compared() -> None:
    one = changed(found(2, 0.2), [found(1, 0.9, limit=5)], {1: 9, 2: 2})
    assert (one.verdict, one.why) == ("not comparable", ("limit: 5 and not set",))


def test_the_first_night_has_nothing_to_fall_behind() -> None:
    assert changed(found(1, 0.2), [], {1: 2}).verdict == "first"


def test_a_run_that_stands_for_two_nights_is_not_compared_with_itself() -> None:
    assert changed(found(1, 0.2), [found(1, 0.2)], {}).verdict == "same run"


def test_without_samples_the_two_intervals_are_compared() -> None:
    one = changed(found(2, 0.2), [found(1, 0.9)], {})
    assert (one.verdict, one.paired) == ("worse", False)


def test_an_index_is_compared_question_by_question() -> None:
    one = changed(found(2, 0.2, kind="rag"), [found(1, 0.9, kind="rag")], {1: 9, 2: 2})
    assert (one.verdict, one.n) == ("worse", ITEMS)
