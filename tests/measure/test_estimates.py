"""Means and their error bars, by hand and against published values."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.measure.estimates import (
    Share,
    bootstrap,
    estimate,
    estimate_groups,
    scale_estimate,
    weighted_estimate,
    wilson,
)

BY_ITEM = st.dictionaries(
    st.text(max_size=3), st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=6), min_size=1, max_size=12
)


def test_the_standard_error_is_clustered_by_item() -> None:
    # item means 1, 1/3, 1/3, 0: variance over items, not over the twelve samples
    means = np.asarray([1, 1 / 3, 1 / 3, 0])
    found = estimate("accuracy", {"a": [1, 1, 1], "b": [1, 0, 0], "c": [0, 0, 1], "d": [0, 0, 0]})
    assert found.std_err == pytest.approx(means.std(ddof=1) / 2)


def test_equal_repeats_leave_the_error_as_it_was() -> None:
    # asking the same thing ten times tells nothing new
    once = estimate("accuracy", {"a": [1], "b": [0], "c": [1]})
    assert estimate("accuracy", {"a": [1] * 10, "b": [0] * 10, "c": [1] * 10}) == once


@pytest.mark.parametrize(
    ("solved", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (1, 1, 0.2065, 1), (50, 100, 0.4038, 0.5962)],
)
def test_wilson_intervals_are_the_published_ones(solved: int, n: int, low: float, high: float) -> None:
    assert wilson(solved, n) == pytest.approx((low, high), abs=5e-5)


def test_one_answer_per_item_has_a_wilson_interval() -> None:
    found = estimate("accuracy", {str(item): [float(item < 8)] for item in range(10)})
    assert (found.low, found.high) == wilson(8, 10)


def test_ratings_have_a_bootstrap_interval() -> None:
    ratings = [float(rating) for rating in range(1, 11)] * 8
    found = estimate("Average", {str(item): [rating] for item, rating in enumerate(ratings)})
    assert (found.low, found.high) == bootstrap(sorted(ratings), seed=0)
    half = 1.96 * np.std(ratings) / sqrt(80)
    assert (found.low, found.high) == pytest.approx((5.5 - half, 5.5 + half), abs=0.08)


def test_one_item_that_is_neither_right_nor_wrong_has_no_interval() -> None:
    found = estimate("Average", {"a": [7.0]})
    assert (found.value, found.std_err, found.low, found.high, found.n) == (7.0, None, None, None, 1)


def test_an_estimate_needs_a_value() -> None:
    with pytest.raises(ValueError, match="no item was scored"):
        estimate("accuracy", {"a": []})
    assert estimate_groups("accuracy", {"a": []}) == ()


def test_a_large_bootstrap_is_drawn_in_blocks() -> None:
    low, high = bootstrap([0.0, 0.5, 1.0] * 30_000, seed=3)
    assert 0.497 < low < 0.5 < high < 0.503


@given(BY_ITEM)
def test_an_estimate_does_not_depend_on_the_order_of_items(by_item: dict[str, list[float]]) -> None:
    turned = dict(reversed(by_item.items()))
    assert estimate("accuracy", by_item) == estimate("accuracy", turned)


@given(BY_ITEM)
def test_an_interval_lies_around_its_value_within_the_scale(by_item: dict[str, list[float]]) -> None:
    found = estimate("accuracy", by_item)
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.high <= 1


def test_items_count_by_their_weight():
    found = weighted_estimate("score", {"a": Share(3, 3), "b": Share(0, 1)})
    assert found
    # residuals 3 - ¾·3 = ¾ and 0 - ¾; squares 9/16 each; √(2/1 · 18/16) / 4
    assert (found.value, found.std_err, found.n) == (0.75, pytest.approx(sqrt(2.25) / 4), 2)


def test_nothing_has_no_figure_and_one_item_no_error_bar():
    assert weighted_estimate("score", {}) is None
    found = weighted_estimate("score", {"a": Share(6, 2)})
    assert found
    assert (found.value, found.std_err, found.low, found.high) == (3, None, None, None)


@given(st.lists(st.floats(1, 10), min_size=2, max_size=30))
def test_equal_weights_give_the_mean_over_items(values: list[float]):
    found = weighted_estimate("score", {str(n): Share(value, 1) for n, value in enumerate(values)})
    plain = estimate("score", {str(n): [value] for n, value in enumerate(values)})
    assert found
    assert found.value == pytest.approx(plain.value)
    assert found.std_err == pytest.approx(plain.std_err, abs=1e-9)
    assert (found.low or 0) <= found.value + 1e-9
    assert found.value <= (found.high or 0) + 1e-9


def test_the_order_of_the_items_changes_nothing():
    shares = {"a": Share(3, 3), "b": Share(0, 1), "c": Share(1, 2)}
    assert weighted_estimate("score", shares) == weighted_estimate("score", dict(reversed(shares.items())))


def test_a_scaled_figure_scales_its_error_bars():
    found = weighted_estimate("score", {"a": Share(3, 3), "b": Share(0, 1)})
    assert found
    percent = scale_estimate(found, 100)
    assert (percent.value, percent.std_err, percent.high) == (75, pytest.approx(37.5), pytest.approx(100))
