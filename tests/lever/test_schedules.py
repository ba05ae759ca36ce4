"""Learning rates by hand, and draws that depend on nothing but their seed and number."""

from __future__ import annotations

import pytest

from tasks.lever.learning.training_loop import Plan, learning_rate, seed_of

WHOLE = Plan(queries=50, batch_size=50, turns=(3,))


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        pytest.param(0, 0.5, id="first of two warm-up updates"),
        pytest.param(1, 1.0, id="the warm-up ends at the peak"),
        pytest.param(2, 1.0, id="the cosine begins there"),
        pytest.param(11, 0.5, id="half way down"),
        pytest.param(19, 0.5 * (1 - 0.984807753012208), id="the last one: 17 of 18 of the way"),
    ],
)
def test_the_rate_rises_in_a_line_and_falls_as_a_cosine(update: int, rate: float):
    assert learning_rate(update, 20, peak=1.0) == pytest.approx(rate)


def test_draws_for_different_purposes_have_different_seeds():
    seeds = {
        seed_of(0, "draw", 1),
        seed_of(0, "draw", 2),
        seed_of(0, "order", 1),
        seed_of(1, "draw", 1),
        seed_of(0, "draw"),
    }
    assert len(seeds) == 5
