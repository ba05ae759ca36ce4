"""Every way to learn that the arena compares learns the small problem, and ends the same when it is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from models.pointer import PointerSelector
from tasks.lever.learning.dueling import DuelingSelector
from tasks.lever.learning.training_loop import TrainingRun
from tasks.lever.learning.trainings import learn_grpo
from tasks.lever.lever_options import ARENA
from tests.lever.small_trainings import (
    GRPO,
    FeatureJudge,
    GreedyReward,
    same,
    small_groups,
    small_grpo,
    small_start,
)

QUERIES = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
POOLS = torch.randn(3, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("loss", ARENA)
def test_it_learns(loss: str) -> None:
    groups, settings = small_groups(), GRPO.model_copy(update={"loss": loss, "rounds": 8, "beta": 0.001})
    judge, reward = FeatureJudge(groups), GreedyReward(groups)
    trained = learn_grpo(small_start(), groups, settings, TrainingRun(reward), judge=judge)
    assert type(trained.selector) is PointerSelector
    assert reward(trained.selector) > reward(small_start()) + 0.15
    assert [len(asked) for asked in judge.asked] == [20 * 4] * 8  # as GRPO asks


class Killed(Exception):
    pass


@pytest.mark.parametrize("loss", ARENA)
@pytest.mark.parametrize("at", [2, 3])
def test_what_broke_off_while_validating_ends_the_same(tmp_path: Path, loss: str, at: int) -> None:
    settings = GRPO.model_copy(update={"loss": loss})
    whole, reward = small_grpo(settings=settings), GreedyReward(small_groups())

    def dies(selector: Any) -> float:
        if reward.calls == at:
            raise Killed
        return reward(selector)

    with pytest.raises(Killed):
        small_grpo(tmp_path, settings=settings, validate=dies)
    assert same(small_grpo(tmp_path, settings=settings), whole)


def test_values_follow_their_logits_and_the_picks_before() -> None:
    made = DuelingSelector.of(small_start(), seed=0)
    pointers = torch.tensor([[[0, 1], [2, 3]]]).expand(3, -1, -1)
    values = made.values(QUERIES, POOLS, pointers)
    assert values.shape == (3, 2, 2, 6)
    assert values[:, 0, 1].isinf().nonzero()[:, 1].tolist() == [0, 0, 0]
    chosen = small_start().greedy(QUERIES, POOLS, shots=1)[:, 0]
    torch.testing.assert_close(values[:, 0, 0].argmax(-1), chosen)
    torch.testing.assert_close(
        made.plain().greedy(QUERIES, POOLS, shots=2), small_start().greedy(QUERIES, POOLS, shots=2)
    )
