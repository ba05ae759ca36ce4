"""The three trainings of a selector, each as its algorithm; training_loop.py runs and resumes them.

SFT   imitates one pointer of each query
RCE   imitates all judged pointers of each query, weighted by their rewards
GRPO  prefers pointers that are better than others of their query: first stored ones, then its own, judged in rounds
"""

from __future__ import annotations

import logging
import math
from copy import deepcopy
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.learning import losses
from tasks.lever.learning.losses import CHUNK, Reference, exact_kl, score_pointers
from tasks.lever.learning.training_inputs import Groups, Material, RewardDrawn
from tasks.lever.learning.training_loop import (
    Loop,
    Plan,
    Trained,
    TrainingRun,
    UpdateLoss,
    derive_seed,
    generator_of,
    seeded_generators,
)
from tasks.lever.lever_options import GrpoSettings, RceSettings, SftSettings

log = logging.getLogger(__name__)

INNER_EPOCHS = 2
"""Passes over the pointers of an online round."""
CLIP = 0.2
"""Ratios are clipped to 1 ± this."""
EXACT_KL_UP_TO = 100_000
"""Ordered pointers of a pool for which the KL divergence is computed; that of more is estimated (k3)."""


def learn_sft(config: PointerConfig, labelled: Groups, settings: SftSettings, run: TrainingRun) -> Trained:
    """Train a new selector to imitate the first pointer of each group; return that of the best epoch."""
    with seeded_generators(derive_seed(run.seed, "weights"), torch.device("cpu")):
        start = PointerSelector(config).to(labelled.queries.dtype)
    plan = Plan(len(labelled.ids), settings.batch_size, (1,) * settings.epochs)
    loop = Loop(start, plan, settings, run)
    material = Material.of(labelled, start, device=loop.device)
    labels = labelled.pointers[:, :1].to(loop.device)  # (Q, 1, S)

    def imitate(selector: PointerSelector, rows: Tensor) -> UpdateLoss:
        return UpdateLoss(losses.sft_loss(selector.log_probs(*material(rows), labels[rows])[:, 0]), {})

    for epoch in loop.epochs():
        for batch in loop.batches(epoch):
            loop.learn(batch, imitate)
    return loop.trained()


def learn_rce(start: PointerSelector, groups: Groups, settings: RceSettings, run: TrainingRun) -> Trained:
    """Train a copy of `start` to imitate pointers by their rewards: all alike at first, the best ones in the end."""
    plan = Plan(len(groups.ids), settings.batch_size, (1,) * settings.epochs)
    loop = Loop(start, plan, settings, run)
    material = Material.of(groups, start, device=loop.device)
    pointers, rewards, counted = (tensor.to(loop.device) for tensor in (groups.pointers, groups.rewards, groups.judged))

    def imitate(selector: PointerSelector, rows: Tensor, *, temperature: float) -> UpdateLoss:
        log_probs = selector.log_probs(*material(rows), pointers[rows]).sum(-1)  # (b, G)
        return UpdateLoss(losses.rce_loss(log_probs, rewards[rows], temperature=temperature, judged=counted[rows]), {})

    for epoch in loop.epochs():
        for batch in loop.batches(epoch):
            temperature = losses.linear_temperature(
                batch.update, plan.updates, settings.temperature_start, settings.temperature_end
            )
            judged, batch_rewards = groups.judged[batch.rows], groups.rewards[batch.rows]
            about = {
                "reward_mean": batch_rewards[judged].mean().item(),
                "frac_zero_std": losses.frac_zero_std(batch_rewards, judged),
            }
            loop.learn(batch, partial(imitate, temperature=temperature), temperature=temperature, **about)
    return loop.trained()


def learn_grpo(
    start: PointerSelector, groups: Groups, settings: GrpoSettings, run: TrainingRun, *, judge: RewardDrawn
) -> Trained:
    """Train a copy of `start` to prefer pointers that are rewarded above their group, and to stay near `start`.

    First on the stored groups, with ratios to `start`, not to the policy that drew them: training has moved on since.
    Then in rounds: draw from the policy, judge, learn with ratios to the policy that drew.
    """
    grpo = _Grpo(start, groups, settings, run)
    loop, experience = grpo.loop, grpo.stored_experience()
    for epoch in loop.epochs():
        if epoch > settings.offline_epochs:
            experience = grpo.draw_experience(epoch, judge)
        for batch in loop.batches(epoch):
            judged = experience.judged[batch.rows].any(-1)
            batch = batch._replace(rows=batch.rows[judged.cpu()])
            if experience.advantage[batch.rows].any():
                objective = partial(grpo.surrogate, experience=experience)
                loop.learn(batch, objective, beta=loop.progress.beta, **experience.summarise(batch.rows))
            else:
                loop.pass_over(batch, **experience.summarise(batch.rows))
        grpo.adapt_beta(epoch)
    return loop.trained()


class Experience(NamedTuple):
    """Pointers of all queries with their rewards and log-probabilities; those not judged do not count."""

    pointers: Tensor  # (Q, G, S)
    old: Tensor  # (Q, G) log-probabilities under the policy that ratios are taken to
    reference: Tensor  # (Q, G) log-probabilities under the reference policy
    rewards: Tensor  # (Q, G); 0 where not judged
    judged: Tensor  # (Q, G) bool
    advantage: Tensor  # (Q, G)
    drift: Tensor  # (Q, G) `old` minus the log-probability under the policy that drew them; NaN where unknown

    def summarise(self, rows: Tensor) -> dict[str, float]:
        """Return the values of these queries for the curve that do not depend on the policy; {} without queries."""
        if not len(rows):
            return {}
        rewards, judged, advantage = self.rewards[rows], self.judged[rows], self.advantage[rows]
        share = losses.ess(self.drift[rows])
        return {
            "reward_mean": rewards[judged].mean().item(),
            "advantage_std": advantage[judged].std(correction=0).item(),
            "frac_zero_std": losses.frac_zero_std(rewards, judged),
        } | ({} if math.isnan(share) else {"ess_behaviour": share})


class _Grpo:
    """One GRPO training: its loop, its frozen reference, and the pointers that it learns from."""

    def __init__(self, start: PointerSelector, groups: Groups, settings: GrpoSettings, run: TrainingRun) -> None:
        turns = (1,) * settings.offline_epochs + (INNER_EPOCHS,) * settings.rounds
        self.groups, self.settings, self.shots = groups, settings, groups.pointers.shape[-1]
        plan = Plan(len(groups.ids), settings.batch_size, turns)
        # without dropout: the log-probabilities of a ratio are the policy's own
        self.loop = Loop(start, plan, settings, run, dropout=False, beta=settings.beta)
        self.material = Material.of(groups, start, device=self.loop.device)
        self.exact = math.perm(groups.pools.shape[1], self.shots) <= EXACT_KL_UP_TO
        with self.loop.autocast():
            frozen = deepcopy(start).to(self.loop.device).eval()
            self.reference = Reference(frozen, self.material, shots=self.shots, exact=self.exact)

    def surrogate(self, selector: PointerSelector, rows: Tensor, *, experience: Experience) -> UpdateLoss:
        """Return the objective on the pointers of these queries (b,), with the values of the update for the curve."""
        scored = score_pointers(selector, *self.material(rows), experience.pointers[rows], exact=self.exact)
        divergence = exact_kl(scored.tables, self.reference.tables(rows)) if self.exact else None
        judged, old = experience.judged[rows], experience.old[rows]
        objective = losses.find_grpo_loss(self.settings.loss)(
            scored.log_probs,
            old,
            experience.reference[rows],
            experience.advantage[rows],
            clip=CLIP,
            beta=self.loop.progress.beta,
            judged=judged,
            exact_kl=divergence.kl.mean() if divergence else None,
        )
        log_ratio = (scored.log_probs.detach() - old).masked_fill(~judged, math.nan)
        if divergence:
            entropy = divergence.entropy.mean()
        else:  # estimated from pointers that another policy drew: each counts as the ratio says, in its group
            weights = torch.softmax(log_ratio.masked_fill(log_ratio.isnan(), -math.inf), dim=-1)
            entropy = -(weights * scored.log_probs.detach().nan_to_num(neginf=0)).sum(-1).mean()
        share = torch.tensor(losses.ess(log_ratio), dtype=torch.float64, device=entropy.device)
        diagnostics = {name: getattr(objective, name) for name in ("policy", "kl", "clip_fraction", "ratio_mean")}
        return UpdateLoss(objective.loss, diagnostics | {"entropy": entropy, "ess": share})

    def adapt_beta(self, epoch: int) -> None:
        """Adapt the weight of the KL divergence to the mean divergence of an epoch."""
        progress = self.loop.progress
        kls = self.loop.curve(epoch, "kl")  # empty where every update was passed over
        if self.settings.adapt_beta and kls:
            progress.beta = losses.adapt_beta(fmean(kls), progress.beta)

    def stored_experience(self) -> Experience:
        """Return the pointers of the RL data; ratios are taken to the reference, the policy that now starts."""
        groups, device = self.groups, self.loop.device
        pointers, judged = groups.pointers.to(device), groups.judged.to(device)
        with self.loop.autocast():
            old = self.reference.log_probs(pointers)
            drift = (old - groups.behaviour.to(old)).masked_fill(~judged, math.nan)
            return self._make_experience(pointers, old, groups.rewards.to(old), judged)._replace(drift=drift)

    def draw_experience(self, epoch: int, judge: RewardDrawn) -> Experience:
        """Draw pointers from the policy and judge them; after a kill the very same. Raises JudgeUnusable."""
        loop = self.loop
        if "pointers" not in loop.saved_tensors:
            # at temperature 1: ratios are taken to the probabilities that the pointers were drawn with
            sampling: Any = {"shots": self.shots, "draws": self.settings.draws, "temperature": 1.0}
            generator = generator_of(loop.run.seed, "draw", epoch, device=loop.device)
            with loop.autocast():
                parts = [
                    loop.selector.sample(*self.material(rows), generator=generator, **sampling)
                    for rows in torch.arange(loop.plan.queries, device=loop.device).split(CHUNK)
                ]
            pointers = torch.cat([part.pointers for part in parts]).cpu()  # (Q, G, S)
            # saved before they are judged: after a kill the same prompts are in the response store
            loop.save_tensors(pointers=pointers, old=torch.cat([part.log_probs.sum(-1) for part in parts]).cpu())
        if "rewards" not in loop.saved_tensors:
            groups = enumerate(loop.saved_tensors["pointers"].tolist())
            rewards = judge([(row, tuple(pointer)) for row, group in groups for pointer in group])
            loop.save_tensors(rewards=torch.tensor(rewards, dtype=torch.float64).view(loop.saved_tensors["old"].shape))
        pointers, old, rewards = (loop.saved_tensors[name].to(loop.device) for name in ("pointers", "old", "rewards"))
        judged = ~rewards.isnan()
        log.info("epoch=%d reward=%.4f judged=%d/%d", epoch, rewards[judged].mean(), judged.sum(), judged.numel())
        with loop.autocast():
            return self._make_experience(pointers, old, rewards.to(old), judged)

    def _make_experience(self, pointers: Tensor, old: Tensor, rewards: Tensor, judged: Tensor) -> Experience:
        """Return drawn groups with reference log-probabilities and advantages, 0 where a group has no judgment."""
        has_judged, rewards = judged.any(-1), rewards.masked_fill(~judged, 0)
        advantage = torch.zeros_like(rewards)
        advantage[has_judged] = losses.advantages(rewards[has_judged], judged=judged[has_judged])
        unknown = torch.full_like(rewards, math.nan)
        return Experience(pointers, old, self.reference.log_probs(pointers), rewards, judged, advantage, drift=unknown)
