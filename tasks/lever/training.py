"""The three trainings of a selector, each as its algorithm; how a training is run and resumed is training_loop's.

SFT   imitates one pointer of each query
RCE   imitates all judged pointers of each query, weighted by their rewards
GRPO  prefers pointers that are better than others of their query: first stored ones, then its own, judged in rounds
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.errors import JudgeUnusable, RewardUnusable
from tasks.lever.groups import Groups, Labelled
from tasks.lever.kl import countable, exact_kl
from tasks.lever.learnable import Material, refuse_unlearnable, tensors_of
from tasks.lever.losses import (
    adapt_beta,
    advantages,
    ess,
    frac_zero_std,
    grpo_loss,
    linear_temperature,
    rce_loss,
    sft_loss,
)
from tasks.lever.reference import CHUNK, Reference, score
from tasks.lever.schedules import generator_of, seed_of
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings
from tasks.lever.training_loop import Learnt, Loop, Plan, Trained, TrainingPlace, Validate, seeded
from tasks.lever.training_state import key_of

log = logging.getLogger(__name__)

Judge = Callable[[Sequence[tuple[int, tuple[int, ...]]]], Sequence[float]]
"""Rewards of (row of the groups, pointer), one each in their order; NaN where one could not be judged."""


def train_sft(
    config: PointerConfig,
    labelled: Labelled,
    settings: SftSettings,
    *,
    seed: int,
    validate: Validate,
    place: TrainingPlace,
) -> Trained:
    """A new selector that imitates the labels. Raises LeverError."""
    refuse_unlearnable(labelled, config)
    if place.to_start > 1:
        from tasks.lever.distributed import train_across

        return train_across("sft", config, labelled, settings, seed=seed, validate=validate, place=place)
    with seeded(seed_of(seed, "weights"), torch.device("cpu")):
        start = PointerSelector(config)
    if labelled.queries.dtype == torch.float64:
        start.double()
    loop = Loop(
        start,
        Plan(len(labelled.ids), settings.batch_size, (1,) * settings.epochs),
        settings,
        seed=seed,
        validate=validate,
        place=place,
        key=key_of("sft", {"settings": settings, "seed": seed, "config": config}, tensors_of(labelled)),
        shots=labelled.labels.shape[-1],
    )
    material = Material.of(labelled, start, device=loop.device)
    labels = labelled.labels.to(loop.device)[:, None]  # (Q, 1, S)

    def imitate(selector: PointerSelector, rows: Tensor) -> Learnt:
        return Learnt(sft_loss(selector.log_probs(*material(rows), labels[rows])[:, 0]), {})

    for epoch in loop.epochs():
        for batch in loop.batches(epoch):
            loop.learn(batch, imitate)
    return loop.trained()


def train_rce(
    start: PointerSelector,
    groups: Groups,
    settings: RceSettings,
    *,
    seed: int,
    validate: Validate,
    place: TrainingPlace,
) -> Trained:
    """A copy of `start` that imitates rewarded pointers, all alike at first and the best ones in the end.

    Raises LeverError.
    """
    refuse_unlearnable(groups, start.config)
    if place.to_start > 1:
        from tasks.lever.distributed import train_across

        return train_across("rce", start, groups, settings, seed=seed, validate=validate, place=place)
    loop = Loop(
        start,
        Plan(len(groups.ids), settings.batch_size, (1,) * settings.epochs),
        settings,
        seed=seed,
        validate=validate,
        place=place,
        key=_key("rce", start, groups, settings, seed),
        shots=groups.pointers.shape[-1],
    )
    material = Material.of(groups, start, device=loop.device)
    counted = _best(groups) if settings.use_top1_only else groups.judged
    pointers, rewards, counted = (one.to(loop.device) for one in (_possible(groups), groups.rewards, counted))

    for epoch in loop.epochs():
        for batch in loop.batches(epoch):
            temperature = linear_temperature(
                batch.update, loop.plan.updates, settings.temperature_start, settings.temperature_end
            )

            def imitate(selector: PointerSelector, rows: Tensor, temperature: float = temperature) -> Learnt:
                log_probs = selector.log_probs(*material(rows), pointers[rows]).sum(-1)  # (b, G)
                return Learnt(rce_loss(log_probs, rewards[rows], temperature=temperature, judged=counted[rows]), {})

            loop.learn(batch, imitate, temperature=temperature, **_about(groups, batch.rows))
    return loop.trained()


def train_grpo(
    start: PointerSelector,
    groups: Groups,
    settings: GrpoSettings,
    *,
    seed: int,
    validate: Validate,
    place: TrainingPlace,
    judge: Judge | None = None,
) -> Trained:
    """A copy of `start` that prefers what is rewarded more than the rest of its group, and stays near `start`.

    First on the stored groups, with ratios to `start`, not to the policy that drew them: training has moved on since.
    Then, where there is a judge, in rounds: draw from the policy, judge, learn with ratios to the policy that drew.
    Raises LeverError.
    """
    refuse_unlearnable(groups, start.config)
    if place.to_start > 1:
        from tasks.lever.distributed import train_across

        return train_across("grpo", start, groups, settings, seed=seed, validate=validate, place=place, judge=judge)
    online = judge is not None and not settings.offline_only
    loop = Loop(
        start,
        Plan(
            len(groups.ids),
            settings.batch_size,
            (1,) * settings.offline_epochs + (settings.inner_epochs,) * (settings.rounds if online else 0),
        ),
        settings,
        seed=seed,
        validate=validate,
        place=place,
        key=_key("grpo", start, groups, settings, seed, online=int(online)),
        shots=groups.pointers.shape[-1],
        dropout=settings.dropout_in_ratio,
        beta=settings.beta,
    )
    material = Material.of(groups, start, device=loop.device)
    shots = groups.pointers.shape[-1]
    exact = (
        countable(groups.pools.shape[1], shots) and math.perm(groups.pools.shape[1], shots) <= settings.exact_kl_up_to
    )
    with loop.autocast():
        reference = Reference(loop.frozen(start), material, shots=shots, exact=exact)
    for epoch in loop.epochs():
        learning = _stored(...)
