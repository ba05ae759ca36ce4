"""Judged pointers as GRPO learns from them: stored ones, and those of a round that the policy has drawn itself."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tasks.lever.errors import JudgeUnusable, RewardUnusable
from tasks.lever.groups import Groups
from tasks.lever.learnable import Material, possible_pointers
from tasks.lever.losses import advantages, ess, frac_zero_std
from tasks.lever.reference import CHUNK, Reference
from tasks.lever.schedules import generator_of
from tasks.lever.settings import GrpoSettings
from tasks.lever.training_loop import Loop

log = logging.getLogger(__name__)

Judge = Callable[[Sequence[tuple[int, tuple[int, ...]]]], Sequence[float]]
"""Rewards of (row of the groups, pointer), one each in their order; NaN where one could not be judged."""


class Experience(NamedTuple):
    """Pointers of all queries, with what an update needs of them; unjudged ones count for nothing."""

    pointers: Tensor
    """(Q, G, S)"""
    old: Tensor
    """(Q, G) log-probabilities under the policy that ratios are taken to."""
    reference: Tensor
    """(Q, G) … under the policy that must be stayed near."""
    rewards: Tensor
    """(Q, G); 0 where not judged."""
    judged: Tensor
    """(Q, G) bool"""
    advantage: Tensor
    """(Q, G)"""
    drift: Tensor
    """(Q, G) `old` minus the log-probability under the policy that drew them; NaN where nothing tells."""

    def known(self, rows: Tensor) -> Tensor:
        """Of some queries those of which a pointer was judged."""
        return rows[self.judged[rows].any(-1).to(rows.device)]

    def teaches(self, rows: Tensor) -> bool:
        """Whether a pointer of these queries is better than others."""
        return bool(self.advantage[rows].any())

    def figures(self, rows: Tensor) -> dict[str, float]:
        """What is known of some queries, each with a judged pointer, whatever the policy."""
        if not len(rows):
            return {}
        rewards, judged, advantage = self.rewards[rows], self.judged[rows], self.advantage[rows]
        share = ess(self.drift[rows])
        return {
            "reward_mean": rewards[judged].mean().item(),
            "advantage_std": advantage[judged].std(correction=0).item(),
            "frac_zero_std": frac_zero_std(rewards, judged),
        } | ({} if math.isnan(share) else {"ess_behaviour": share})


def stored(groups: Groups, reference: Reference, settings: GrpoSettings, *, device: torch.device) -> Experience:
    """The pointers that were judged before; ratios are taken to the reference, which is the policy that now starts."""
    pointers = possible_pointers(groups).to(device)
    old, judged = reference.log_probs(pointers), groups.judged.to(device)
    drift = (old - groups.behaviour.to(old)).masked_fill(~judged, math.nan)
    if not drift.isnan().all():
        log.info("ess=%.3f of stored pointers: the starting policy against the one that drew them", ess(drift))
    known = _experience(pointers, old, groups.rewards.to(old), judged, reference=reference, settings=settings)
    return known._replace(drift=drift)


def drawn(
    loop: Loop,
    groups: Groups,
    material: Material,
    reference: Reference,
    settings: GrpoSettings,
    *,
    epoch: int,
    judge: Judge,
) -> Experience:
    """Pointers that the policy draws now, judged; after a kill the very same. Raises JudgeUnusable, RewardUnusable."""
    if "pointers" not in loop.held:
        shots = groups.pointers.shape[-1]
        pointers, old = loop.team.from_first(lambda: _draw(loop, material, settings, epoch=epoch, shots=shots))
        loop.hold(pointers=pointers, old=old)
    if "rewards" not in loop.held:
        (rewards,) = loop.team.from_first(lambda: (_rewards(judge, loop.held["pointers"], groups.ids),))
        loop.hold(rewards=rewards)
    pointers, old, rewards = (loop.held[name].to(loop.device) for name in ("pointers", "old", "rewards"))
    judged = ~rewards.isnan()
    log.info("epoch=%d reward=%.4f judged=%d/%d", epoch, rewards[judged].mean(), judged.sum(), judged.numel())
    with loop.autocast():
        return _experience(pointers, old, rewards.to(old), judged, reference=reference, settings=settings)


def _experience(
    pointers: Tensor, old: Tensor, rewards: Tensor, judged: Tensor, *, reference: Reference, settings: GrpoSettings
) -> Experience:
    known, rewards = judged.any(-1), rewards.masked_fill(~judged, 0)
    advantage = torch.zeros_like(rewards)
    advantage[known] = advantages(rewards[known], floor=settings.floor, judged=judged[known], top_k=settings.top_k)
    unknown = torch.full_like(rewards, math.nan)
    return Experience(pointers, old, reference.log_probs(pointers), rewards, judged, advantage, drift=unknown)


def _draw(loop: Loop, material: Material, settings: GrpoSettings, *, epoch: int, shots: int) -> tuple[Tensor, Tensor]:
    """Pointers (Q, G, S) and their log-probabilities (Q, G)."""
    generator = generator_of(loop.seed, "draw", epoch, device=loop.device)
    with loop.autocast():
        parts = [
            loop.selector.sample(
                *material(rows),
                shots=shots,
                draws=settings.draws,
                temperature=settings.sampling_temperature,
                generator=generator,
            )
            for rows in torch.arange(loop.plan.queries, device=loop.device).split(CHUNK)
        ]
    return torch.cat([one.pointers for one in parts]).cpu(), torch.cat([one.log_probs.sum(-1) for one in parts]).cpu()


def _rewards(judge: Judge, pointers: Tensor, ids: tuple[str, ...]) -> Tensor:
    """(Q, G), NaN where the judge failed."""
    asked = [(row, tuple(pointer)) for row, group in enumerate(pointers.tolist()) for pointer in group]
    given = list(judge(asked))
    if len(given) != len(asked):
        raise JudgeUnusable(f"the judge gave {len(given)} rewards for {len(asked)} pointers; it must give one each")
    rewards = torch.tensor(given, dtype=torch.float64)
    if rewards.isnan().all():
        raise JudgeUnusable(f"the judge failed on all {len(asked)} pointers of a round; run again once it is back")
    if rewards.isinf().any():
        row, pointer = asked[int(rewards.isinf().nonzero()[0])]
        raise RewardUnusable(f"query {ids[row]}, pointer {list(pointer)}: the judge's reward is infinite")
    return rewards.view(pointers.shape[:2])
