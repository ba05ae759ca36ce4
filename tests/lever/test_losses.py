"""The losses, against numbers worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tasks.lever.learning.losses import (
    adapt_beta,
    advantages,
    ess,
    grpo_loss,
    linear_temperature,
    rce_loss,
    rce_weights,
    sft_loss,
)
from tasks.lever.lever_errors import RewardUnusable

NAN, INF = math.nan, math.inf


def _double(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _log(*rows: list[float]) -> Tensor:
    return _double(*rows).log()


def test_imitation_sums_over_picks_and_means_over_queries():
    assert sft_loss(_double([-1, -2], [-3, -4])).item() == 5


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        pytest.param([0, 1, 2], [-1, 0, 1], id="deviation 1"),
        pytest.param([0, 4], [-(0.5**0.5), 0.5**0.5], id="sample deviation, not that of a population"),
        pytest.param([1, 1.02], [-0.1, 0.1], id="floor"),
        pytest.param([0.1, 0.1, 0.1], [0, 0, 0], id="equal"),
    ],
)
def test_advantages_compare_within_the_group(rewards: list[float], expected: list[float]):
    assert advantages(_double(rewards))[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_members_that_were_not_judged_neither_count_nor_learn():
    rewards, judged = _double([0, 9, 1, NAN, 2]), torch.tensor([[True, False, True, False, True]])
    assert advantages(rewards, judged=judged).tolist() == [[-1, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("rewards", "arguments", "words"),
    [
        pytest.param([[1.0]], {}, "group of one", id="group of one"),
        pytest.param([[1.0, 0], [NAN, 1]], {}, "reward 0 of group 1", id="NaN"),
        pytest.param([[1.0, 0]], {"judged": torch.tensor([[False, False]])}, "group 0.*no judged", id="none judged"),
    ],
)
def test_groups_that_cannot_be_compared_are_named(rewards: Any, arguments: dict[str, Any], words: str):
    with pytest.raises(RewardUnusable, match=words):
        advantages(torch.as_tensor(rewards), **arguments)


def test_weighted_imitation_is_worked_by_hand():
    log_probs = _log([0.5, 0.25], [0.1, 0.2])
    rewards = _double([math.log(3), 0], [1, 1])  # weights ¾, ¼ and ½, ½
    expected = -(0.75 * math.log(0.5) + 0.25 * math.log(0.25) + 0.5 * math.log(0.1) + 0.5 * math.log(0.2)) / 2
    assert rce_loss(log_probs, rewards, temperature=1.0).item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "total", "expected"),
    [(0, 4, 2.0), (1, 4, 1.5), (3, 4, 0.5), (9, 4, 0.5), (0, 1, 2.0)],
)
def test_the_temperature_falls_linearly_to_the_last_step(step: int, total: int, expected: float):
    assert linear_temperature(step, total) == pytest.approx(expected)


def test_grpo_is_worked_by_hand():
    new = _log([0.3, 0.1, 0.06, 0.2])
    old = _log([0.2, 0.1, 0.10, 0.1])  # ratios 1.5, 1, 0.6, 2
    ref = _log([0.3, 0.2, 0.06, 0.2])  # r = 1, 2, 1, 1
    advantage = _double([1, 1, -1, -1])
    found = grpo_loss(new, old, ref, advantage, beta=0.5)
    policy = -(1.2 + 1 - 0.8 - 2) / 4
    kl = (2 - 1 - math.log(2)) / 4
    assert [each.item() for each in found] == pytest.approx([policy + 0.5 * kl, policy, kl, 2 / 4, 5.1 / 4])


@pytest.mark.parametrize(
    ("ratio", "advantage", "cut"),
    [(1.3, 1.0, True), (0.7, -1.0, True), (1.1, 1.0, False), (0.7, 1.0, False)],
    ids=["likelier enough", "unlikelier enough", "within the bounds", "moved the wrong way"],
)
def test_the_gradient_is_cut_off_exactly_where_the_policy_has_moved_enough(ratio: float, advantage: float, cut: bool):
    new = _log([0.1 * ratio]).requires_grad_()
    found = grpo_loss(new, _log([0.1]), new.detach(), _double([advantage]), beta=0.0)
    found.policy.backward()
    assert new.grad is not None
    assert new.grad.item() == pytest.approx(0 if cut else -ratio * advantage)
    assert found.clip_fraction.item() == (cut and advantage != 0)


@given(st.integers(0, 2**31))
def test_equal_rewards_leave_only_kl(seed: int):
    draw = torch.randn(3, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    new, old, ref = draw[0].requires_grad_(), draw[1], draw[2]
    found = grpo_loss(new, old, ref, advantages(torch.full((3, 4), 0.3)), beta=0.5)
    (policy,) = torch.autograd.grad(found.policy, new, retain_graph=True)
    (whole,) = torch.autograd.grad(found.loss, new, retain_graph=True)
    (kl,) = torch.autograd.grad(0.5 * found.kl, new)
    assert policy.abs().max() == 0
    assert whole.equal(kl)


def test_padding_changes_neither_loss_nor_gradient():
    new, old, ref = _double([-1, -2, -3], [-2, -2, -1]), _double([-1, -3, -2], [-2, -1, -1]), _double([-2, -2, -2])
    rewards, ref = _double([0, 1, 2], [1, 0, 0]), ref.expand(2, -1)
    padding, judged = _double([-INF], [-INF]), torch.tensor([[True, True, True, False]] * 2)
    plain = new.clone().requires_grad_()
    padded = torch.cat([new, padding], 1).requires_grad_()
    expected = grpo_loss(plain, old, ref, advantages(rewards), beta=0.3)
    old, ref, rewards = (torch.cat([each, padding], 1) for each in (old, ref, rewards))
    found = grpo_loss(padded, old, ref, advantages(rewards, judged=judged), beta=0.3, judged=judged)
    (gradient,), (without,) = torch.autograd.grad(found.loss, padded), torch.autograd.grad(expected.loss, plain)
    assert [each.item() for each in found] == pytest.approx([each.item() for each in expected])
    torch.testing.assert_close(gradient, torch.cat([without, torch.zeros(2, 1).double()], 1))


@given(st.lists(st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.3, 1.6, 2.0]), min_size=2, max_size=8), st.floats(-50, 50))
def test_what_all_rewards_share_changes_nothing(rewards: list[float], shift: float):
    plain, shifted = _double(rewards), _double(rewards) + shift
    torch.testing.assert_close(advantages(shifted), advantages(plain), rtol=0, atol=1e-9)
    torch.testing.assert_close(rce_weights(shifted, 0.5), rce_weights(plain, 0.5), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("beta", "kl", "expected"),
    [
        pytest.param(0.1, 0.2, 0.15, id="too far"),
        pytest.param(0.15, 0.005, 0.1, id="too near"),
        pytest.param(9.0, 1.0, 10.0, id="never above 10"),
        pytest.param(0.001, 0.0, 0.001, id="never below .001"),
    ],
)
def test_beta_follows_the_divergence(beta: float, kl: float, expected: float):
    assert adapt_beta(kl, beta) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("log_ratio", "expected"),
    [
        pytest.param([[0, -1000, -1000, -1000]], 0.25, id="one outweighs all"),
        pytest.param([[math.log(3), 0]], 16 / 20, id="by hand"),
        pytest.param([[0, NAN, 0], [NAN, NAN, NAN]], 1.0, id="unknown behaviour left out"),
        pytest.param([[0, 0], [0, -1000]], 0.75, id="mean over groups"),
    ],
)
def test_effective_share_of_draws(log_ratio: list[list[float]], expected: float):
    assert ess(_double(*log_ratio)) == pytest.approx(expected)
