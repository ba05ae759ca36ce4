"""The arena's losses against numbers by hand: two pointers of two picks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tasks.lever.learning.policy_losses import (
    STEP_LOSSES,
    PolicyLoss,
    cispo_loss,
    dapo_loss,
    dqn_loss,
    dr_grpo_loss,
    dueling_values,
    gspo_loss,
)

RATIOS = torch.tensor([[[1.5, 1.0], [0.5, 1.25]]], dtype=torch.float64)
OLD = torch.full_like(RATIOS, math.log(0.2))
NEW = OLD + RATIOS.log()
ADVANTAGE = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
BOTH, FIRST = torch.tensor([[True, True]]), torch.tensor([[True, False]])
Loss = Callable[..., PolicyLoss]


def value(loss: Loss, judged: Tensor = BOTH) -> float:
    return loss(NEW, OLD, ADVANTAGE, clip=0.2, judged=judged).policy.item()


def test_dr_grpo_sums_the_clipped_ratios_of_the_picks() -> None:
    # first pointer: min(1.5, 1.2) + 1 = 2.2; second: -2 · max(.5, .8) - 2 · 1.25 = -4.1
    assert value(dr_grpo_loss) == pytest.approx(-(2.2 - 4.1) / 2)
    assert value(dr_grpo_loss, FIRST) == pytest.approx(-2.2)


def test_dapo_clips_higher_above_and_takes_the_mean_over_picks() -> None:
    assert value(dapo_loss) == pytest.approx(-(1.28 + 1 - 1.6 - 2.5) / 4)


def test_dapo_drops_groups_of_equal_rewards() -> None:
    new, old, advantage = (torch.cat([one, one]) for one in (NEW, OLD, ADVANTAGE))
    advantage[1] = 0
    found = dapo_loss(new, old, advantage, clip=0.2, judged=BOTH.expand(2, -1))
    assert found.policy.item() == pytest.approx(value(dapo_loss))


def test_gspo_has_one_ratio_the_geometric_mean() -> None:
    first, second = math.sqrt(1.5 * 1.0), math.sqrt(0.5 * 1.25)  # 1.2247, cut to 1.2; .7906, held at .8
    assert (first > 1.2, second < 0.8) == (True, True)
    assert value(gspo_loss) == pytest.approx(-(1.2 - 2 * 0.8) / 2)


def test_cispo_weighs_log_probabilities_by_ratios_without_a_gradient() -> None:
    weights = torch.tensor([[[1.2, 1.0], [-2 * 0.5, -2 * 1.2]]], dtype=torch.float64)
    assert value(cispo_loss) == pytest.approx(-(weights * NEW).sum().item() / 4)
    new = NEW.clone().requires_grad_()
    cispo_loss(new, OLD, ADVANTAGE, clip=0.2, judged=BOTH).policy.backward()
    torch.testing.assert_close(new.grad, -weights / 4)


@pytest.mark.parametrize("loss", STEP_LOSSES.values(), ids=STEP_LOSSES)
def test_where_nothing_has_moved_the_gradient_is_that_of_reinforce(loss: Loss) -> None:
    new = OLD.clone().requires_grad_()
    found = loss(new, OLD, ADVANTAGE, clip=0.2, judged=BOTH)
    found.policy.backward()
    assert new.grad is not None
    share = new.grad / -ADVANTAGE[..., None]
    torch.testing.assert_close(share, share[0, 0, 0].expand_as(share))
    assert (found.clip_fraction.item(), found.ratio_mean.item()) == (0.0, 1.0)


@pytest.mark.parametrize("loss", STEP_LOSSES.values(), ids=STEP_LOSSES)
def test_padding_counts_for_nothing(loss: Loss) -> None:
    new = NEW.clone()
    new[0, 1] = -math.inf
    new.requires_grad_()
    found = loss(new, OLD, ADVANTAGE, clip=0.2, judged=FIRST).policy
    found.backward()
    assert found.item() == pytest.approx(value(loss, FIRST))
    assert new.grad is not None
    assert not new.grad[0, 1].any()


@pytest.mark.parametrize("loss", [dr_grpo_loss, dapo_loss])
def test_what_is_clipped_has_no_gradient(loss: Loss) -> None:
    new = NEW.clone().requires_grad_()
    loss(new, OLD, ADVANTAGE, clip=0.2, judged=BOTH).policy.backward()
    assert new.grad is not None
    assert (new.grad != 0).tolist() == [[[False, True], [False, True]]]


def test_values_are_those_of_the_state_and_how_much_better_each_pick_is() -> None:
    blocked = torch.tensor([False, False, True])
    found = dueling_values(torch.tensor(2.0), torch.tensor([1.0, 3.0, 9.0]), blocked)
    assert found.tolist() == [1.0, 3.0, -math.inf]


def test_a_pick_is_worth_what_can_follow_and_the_last_one_its_reward() -> None:
    values = torch.tensor([[[[0.5, 0.0], [1.0, 0.9]]]]).requires_grad_()
    pointers, rewards = torch.tensor([[[0, 1]]]), torch.tensor([[1.5]])
    found = dqn_loss(values, pointers, rewards, judged=torch.tensor([[True]]))
    assert found.item() == pytest.approx((0.5**2 / 2 + 0.6**2 / 2) / 2)
    found.backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad[0, 0], torch.tensor([[-0.25, 0.0], [0.0, -0.3]]))
