"""Small problems that a selector must learn in a second: rewards depend on one number of the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.learning.training_inputs import Groups
from tasks.lever.learning.training_loop import Trained, TrainingRun
from tasks.lever.learning.trainings import learn_grpo
from tasks.lever.lever_options import GrpoSettings

WIDTH, CANDIDATES, SHOTS = 8, 6, 2
CONFIG = PointerConfig(embedding_dim=WIDTH, hidden=16, layers=1, dropout=0.0, attention_dropout=0.0)
DROPPING = PointerConfig(embedding_dim=WIDTH, hidden=16, layers=1, dropout=0.5, attention_dropout=0.1)
GRPO = GrpoSettings(offline_epochs=2, rounds=2, draws=4, batch_size=8, lr=1e-2)


class Interrupted(Exception):
    """What a test ends a training with."""


def small_start(seed: int = 0, config: PointerConfig = CONFIG, dtype: torch.dtype = torch.float64) -> PointerSelector:
    """A selector that nobody has trained."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PointerSelector(config).to(dtype).eval()


def small_groups(seed: int = 0, *, queries: int = 20, group: int = 4, dtype: torch.dtype = torch.float64) -> Groups:
    """Random pointers, rewarded by `feature_reward`."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(queries, WIDTH, generator=generator, dtype=dtype)
    bank = torch.randn(2 * CANDIDATES, WIDTH, generator=generator, dtype=dtype)
    pools = torch.rand(queries, len(bank), generator=generator).argsort(-1)[:, :CANDIDATES]
    pointers = torch.rand(queries, group, CANDIDATES, generator=generator).argsort(-1)[..., :SHOTS]
    groups = Groups(
        ids=tuple(f"q{number}" for number in range(queries)),
        queries=vectors,
        bank=bank,
        pools=pools,
        pointers=pointers,
        rewards=torch.zeros(queries, group, dtype=dtype),
        judged=torch.ones(queries, group, dtype=torch.bool),
        behaviour=torch.full((queries, group), -3.0, dtype=dtype),
    )
    return groups._replace(rewards=feature_reward(groups, pointers))


def feature_reward(groups: Groups, pointers: Tensor) -> Tensor:
    """(Q, G) of pointers (Q, G, S): the share of picks whose first number is above the median of their pool."""
    feature = groups.bank[groups.pools][..., 0]  # (Q, K)
    good = (feature > feature.median(-1, keepdim=True).values).to(groups.queries)
    return good.gather(1, pointers.flatten(1)).view(pointers.shape).mean(-1)


class FeatureJudge:
    """Rewards pointers by `feature_reward`, and notes what it was asked."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.asked: list[list[tuple[int, tuple[int, ...]]]] = []

    def __call__(self, asked: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        self.asked.append(list(asked))
        rows = torch.tensor([row for row, _ in asked])
        some = self.groups._replace(pools=self.groups.pools[rows])
        return feature_reward(some, torch.tensor([[pointer] for _, pointer in asked]))[:, 0].tolist()


class GreedyReward:
    """Validates a selector by the reward of what it likes best."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.calls = 0

    def __call__(self, selector: PointerSelector) -> float:
        self.calls += 1
        groups, device = self.groups, next(selector.parameters()).device
        chosen = selector.greedy(groups.queries.to(device), groups.bank[groups.pools].to(device), shots=SHOTS)
        return feature_reward(groups, chosen[:, None].cpu()).mean().item()


def small_grpo(folder: Path | None = None, *, settings: GrpoSettings = GRPO, **changes: Any) -> Trained:
    """GRPO of the small problem, offline and online. changes: `judge`, and fields of the TrainingRun."""
    groups = small_groups()
    judge = changes.pop("judge", FeatureJudge(groups))
    run = TrainingRun(GreedyReward(groups), folder=folder, save_every=3)._replace(**changes)
    return learn_grpo(small_start(), groups, settings, run, judge=judge)


def same(one: Trained, other: Trained) -> bool:
    """Whether two trainings gave the same to the last bit."""
    left, right = one.selector.state_dict(), other.selector.state_dict()
    return one[1:] == other[1:] and all(torch.equal(left[name], right[name]) for name in left)
