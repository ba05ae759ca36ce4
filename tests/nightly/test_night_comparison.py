"""What counts as worse: beyond noise, beyond what the suite lets pass, only against equal data; and slow falls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from storage.evaluated import Sample
from storage.evaluations import Evaluations, RunScore
from tasks.nightly.night_comparison import BY_PAGE, Cell, compare_score, compute_standard_scores, find_fall
from tasks.nightly.night_records import Change
from tests.nightly.nights import TWO, run

ITEMS = 10
NIGHTS = 365


class Kept:
    """Samples by run, as the tables give them."""

    def __init__(self, right: dict[int, int], *, of_index: bool) -> None:
        self._right = {run(number): count for number, count in right.items()}
        self._of_index = of_index

    def samples(self, run: str, task: str) -> Iterator[Sample]:
        assert task == ("" if self._of_index else "Sums")
        for item in range(ITEMS if run in self._right else 0):
            score = float(item < self._right[run])
            if self._of_index:
                yield Sample(item=str(item), detail={"page": {"mrr@10": score}})
            else:
                yield Sample(item=str(item), detail={}, score=score)

    def task_results(self, run: str) -> list[Any]:
        """The settings of a run: a limit that is its number."""
        settings = SimpleNamespace(parameters={"limit": int(run[::-1], 16)})
        return [
            SimpleNamespace(
                task=SimpleNamespace(task="Sums"), dataset=SimpleNamespace(checksum="a" * 64), settings=settings
            )
        ]


def cell(number: int, value: float, *, settings: str = "", data: str = "a", task: str = "Sums") -> Cell:
    """A score of the night of that number."""
    of_index = task == BY_PAGE
    low, high = max(0.0, value - 0.1), min(1.0, value + 0.1)
    metric = task if of_index else "accuracy"
    score = RunScore(metric, "", value, None, low, high, 40, True, True, data, settings)
    return Cell("small", task, TWO + timedelta(days=number), run(number), "" if of_index else task, score)


def changed(now: Cell, earlier: Sequence[Cell], right: dict[int, int]) -> Change:
    kept = cast(Evaluations, Kept(right, of_index=now.task == BY_PAGE))
    return compare_score(now, earlier, evaluations=kept)


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
    one = changed(cell(2, after / ITEMS), [cell(1, before / ITEMS)], {1: before, 2: after})
    assert (one.verdict, one.paired, one.difference) == (verdict, True, pytest.approx((after - before) / ITEMS))


def test_the_last_night_with_equal_data_and_settings_is_compared_with() -> None:
    others = [cell(3, 0.9, settings="other"), cell(2, 0.9, data="b"), cell(1, 0.9)]
    one = changed(cell(4, 0.2), others, {1: 9, 2: 9, 3: 9, 4: 2})
    assert one.before
    assert (one.verdict, one.before.run) == ("worse", run(1))


def test_other_weights_under_one_name_are_compared_and_named() -> None:
    now, before = cell(2, 0.2), cell(1, 0.9)
    now, before = (
        each._replace(score=each.score._replace(revision=digest)) for each, digest in ((now, "c1b2"), (before, "f873"))
    )
    one = changed(now, [before], {1: 9, 2: 2})
    assert (one.verdict, one.why) == ("worse", ("other weights: c1b2, before f873",))


def test_other_settings_are_named_not_compared() -> None:
    one = changed(cell(2, 0.2), [cell(1, 0.9, settings="other")], {1: 9, 2: 2})
    assert (one.verdict, one.why) == ("not comparable", ("limit: 1 and 2",))


def test_a_run_that_stands_for_two_nights_is_not_compared_with_itself() -> None:
    assert changed(cell(1, 0.2), [cell(1, 0.2)], {}).verdict == "same run"
    assert changed(cell(1, 0.2), [], {1: 2}).verdict == "first"


def test_without_samples_the_two_intervals_are_compared() -> None:
    one = changed(cell(2, 0.2), [cell(1, 0.9)], {})
    assert (one.verdict, one.paired) == ("worse", False)


def test_an_index_is_compared_question_by_question() -> None:
    one = changed(cell(2, 0.2, task=BY_PAGE), [cell(1, 0.9, task=BY_PAGE)], {1: 9, 2: 2})
    assert (one.verdict, one.n) == ("worse", ITEMS)


def test_a_score_is_that_of_students_t() -> None:
    # mean 2, spread 1: (4 - 2) / √(1 + 1/3) = √3 with two degrees of freedom, whose upper tail is .1127: z = 1.212
    assert compute_standard_scores([1.0, 2.0, 3.0, 4.0], resolution=0.0) == pytest.approx([1.2123], abs=1e-3)
    assert compute_standard_scores([1.0, 2.0, 3.0, 0.0], resolution=0.0) == pytest.approx([-1.2123], abs=1e-3)
    # a spread of at least 2: half the t, (4 - 2) / (2 √(4/3)) = .866, upper tail .2389
    assert compute_standard_scores([1.0, 2.0, 3.0, 4.0], resolution=2.0) == pytest.approx([0.7100], abs=1e-3)


def test_equal_figures_and_one_item_less_are_no_fall() -> None:
    assert find_fall([0.9] * 40, resolution=0.02) is None
    assert find_fall([0.9] * 40 + [0.88], resolution=0.02) is None
    assert find_fall([0.9, 0.5], resolution=0.02) is None, "too few to tell"


def test_a_fall_is_dated_to_its_beginning() -> None:
    quiet = [0.90, 0.91, 0.89, 0.90, 0.91, 0.89, 0.90, 0.91, 0.89, 0.90]
    falling = [*quiet, *(0.885 - 0.01 * step for step in range(10))]
    ends = [end for end in range(1, len(falling) + 1) if find_fall(falling[:end], resolution=0.01) is not None]
    assert ends
    assert ends[0] > len(quiet)
    start = find_fall(falling[: ends[0]], resolution=0.01)
    assert start is not None
    assert 7 <= start < ends[0] - 1
    rising = [1 - value for value in falling]
    assert find_fall(rising[: ends[0]], resolution=0.01) is None
    assert find_fall(rising[: ends[0]], resolution=0.01, higher_is_better=False) == start


@pytest.mark.parametrize(("items", "share"), [(30, 0.9), (100, 0.97), (500, 0.6)])
def test_there_is_at_most_one_false_alarm_a_year(items: int, share: float) -> None:
    """Nightly figures that never change, over a window of thirty nights as in a report: alarms by figure and year."""
    rng, years, window = np.random.default_rng(0), 50, 30
    alarms = 0
    for _ in range(years):
        values = (rng.binomial(items, share, NIGHTS + window) / items).tolist()
        before = False
        for end in range(window, NIGHTS + window):
            now = find_fall(values[end - window : end], resolution=1 / items) is not None
            alarms += now and not before
            before = now
    assert alarms <= years
