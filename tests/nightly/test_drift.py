"""Slow falls: hand-worked scores, and false alarms by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.nightly.night_baselines import fell_since, standard_scores

NIGHTS = 365


def test_a_score_is_that_of_students_t() -> None:
    # mean 2, spread 1: (4 - 2) / √(1 + 1/3) = √3 with two degrees of freedom, whose upper tail is .1127: z = 1.212
    assert standard_scores([1.0, 2.0, 3.0, 4.0], resolution=0.0) == pytest.approx([1.2123], abs=1e-3)
    assert standard_scores([1.0, 2.0, 3.0, 0.0], resolution=0.0) == pytest.approx([-1.2123], abs=1e-3)
    # a spread of at least 2: half the t, (4 - 2) / (2 √(4/3)) = .866, upper tail .2389
    assert standard_scores([1.0, 2.0, 3.0, 4.0], resolution=2.0) == pytest.approx([0.7100], abs=1e-3)


def test_equal_figures_and_one_item_less_are_no_fall() -> None:
    assert fell_since([0.9] * 40, resolution=0.02) is None
    assert fell_since([0.9] * 40 + [0.88], resolution=0.02) is None
    assert fell_since([0.9, 0.5], resolution=0.02) is None, "too few to tell"


def test_a_fall_is_dated_to_its_beginning() -> None:
    quiet = [0.90, 0.91, 0.89, 0.90, 0.91, 0.89, 0.90, 0.91, 0.89, 0.90]
    falling = [*quiet, *(0.885 - 0.01 * step for step in range(10))]
    ends = [end for end in range(1, len(falling) + 1) if fell_since(falling[:end], resolution=0.01) is not None]
    assert ends
    assert ends[0] > len(quiet)
    start = fell_since(falling[: ends[0]], resolution=0.01)
    assert start is not None
    assert 7 <= start < ends[0] - 1
    rising = [1 - value for value in falling]
    assert fell_since(rising[: ends[0]], resolution=0.01) is None
    assert fell_since(rising[: ends[0]], resolution=0.01, higher_is_better=False) == start


@pytest.mark.parametrize(("items", "share"), [(30, 0.9), (100, 0.97), (500, 0.6)])
def test_there_is_at_most_one_false_alarm_a_year(items: int, share: float) -> None:
    """Nightly figures that never change, over a window of thirty nights as in a report: alarms by figure and year."""
    rng, years, window = np.random.default_rng(0), 50, 30
    alarms = 0
    for _ in range(years):
        values = (rng.binomial(items, share, NIGHTS + window) / items).tolist()
        before = False
        for end in range(window, NIGHTS + window):
            now = fell_since(values[end - window : end], resolution=1 / items) is not None
            alarms += now and not before
            before = now
    assert alarms <= years
