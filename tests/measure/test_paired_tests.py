"""Paired tests against exact values, enumerated flips and each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.measure.paired_tests import adjusted_wald, find_discoveries, mcnemar, paired_test, sign_flips


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (8, 2, 112 / 1024), (5, 5, 1)]
)
def test_mcnemar_is_the_exact_sign_test_of_the_flips(gained: int, lost: int, p: float) -> None:
    assert mcnemar(gained, lost) == mcnemar(lost, gained) == pytest.approx(p)


@pytest.mark.parametrize(("gained", "lost"), [(500, 501), (600, 420), (1200, 1000), (1500, 1500), (0, 1001)])
def test_mcnemar_of_many_flips_is_the_same_sum(gained: int, lost: int) -> None:
    tail = sum(comb(gained + lost, count) for count in range(min(gained, lost) + 1))
    assert mcnemar(gained, lost) == pytest.approx(min(1.0, float(Fraction(2 * tail, 2 ** (gained + lost)))), rel=1e-8)


def test_mcnemar_of_a_hundred_thousand_flips_is_there_at_once() -> None:
    assert mcnemar(50_000, 50_600) == pytest.approx(0.0588, abs=2e-3)
    assert mcnemar(26_000, 53_000) == 0.0


@given(st.integers(0, 8), st.integers(0, 8))
def test_on_right_and_wrong_a_permutation_is_mcnemar(gained: int, lost: int) -> None:
    p, _ = sign_flips([1.0] * gained + [-1.0] * lost + [0.0] * 3, seed=0)
    assert p == pytest.approx(mcnemar(gained, lost))


@settings(max_examples=50)
@given(st.lists(st.sampled_from([-1, -0.7, -0.3, -0.1, 0, 0.1, 0.2, 0.6]), max_size=9))
def test_a_small_permutation_looks_at_every_sign(values: list[float]) -> None:
    seen = abs(sum(values)) - 1e-9
    flips = [abs(sum(sign * one for sign, one in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))]  # fmt: skip # noqa: E501
    p, method = sign_flips(values, seed=0)
    assert p == pytest.approx(sum(flip >= seen for flip in flips) / len(flips))
    assert method == "sign flips, exact"


def test_a_large_permutation_draws_and_is_near_the_exact_one() -> None:
    gained, lost = 30, 15
    p, method = sign_flips([0.5] * gained + [-0.5] * lost, seed=1)
    exact = 2 * sum(comb(45, count) for count in range(lost + 1)) / 2**45
    assert method == "sign flips, drawn"
    assert p == pytest.approx(exact, abs=0.005)


def test_a_drawn_p_is_never_zero_and_is_seeded() -> None:
    far = [0.3 + item / 1000 for item in range(200)]
    assert sign_flips(far, seed=0) == sign_flips(far, seed=0) == (1 / 20_001, "sign flips, drawn")


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_the_interval_of_shares_holds_what_was_seen(gained: int, lost: int, ties: int) -> None:
    n = gained + lost + ties + 1
    low, high = adjusted_wald(gained, lost, n)
    assert -1 <= low <= (gained - lost) / n <= high <= 1


def test_the_interval_does_not_depend_on_the_order_of_the_items() -> None:
    gains = [0.5, -0.25, 0.125, 0.75, 0.0]
    assert paired_test(gains, binary=False, seed=0) == paired_test(gains[::-1], binary=False, seed=0)


def test_few_small_ps_among_many_are_not_believed() -> None:
    # Benjamini and Hochberg at 5 %: the largest p with p ≤ .05 × rank / 4 and all below it
    assert find_discoveries([0.01, 0.04, 0.03, 0.5]) == [True, False, False, False]
    assert find_discoveries([0.01, 0.02, 0.03, 0.5]) == [True, True, True, False]
    assert find_discoveries([0.04]) == [True]
    assert find_discoveries([]) == []
