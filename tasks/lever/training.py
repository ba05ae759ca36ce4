"""The three trainings of a selector, each as its algorithm; how one is run and resumed is training_loop's affair.

SFT   imitates one pointer of each query
RCE   imitates all judged pointers of each query, weighted by their rewards
GRPO  prefers pointers that are better than others of their query: first stored ones, then its own, judged in rounds
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from statistics import fmean

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from storage.records import Record
from tasks.lever.errors import JudgeUnusable
from tasks.lever.experience import Experience, Judge, drawn, stored
from tasks.lever.groups import Groups, Labelled
from tasks.lever.kl import exact_kl
from tasks.lever.learnable import Material, possible_pointers, refuse_unlearnable, tensors_of
from tasks.lever.losses import BETA_FACTOR, ess, frac_zero_std, grpo_loss, linear_temperature, rce_loss, sft_loss
from tasks.lever.reference import Reference, score
from tasks.lever.schedules import Plan, seed_of
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings
from tasks.lever.training_loop import Learnt, Loop, Trained, TrainingPlace, Validate, seeded
from tasks.lever.training_state import key_of

log = logging.getLogger(__name__)


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
    pointers, rewards, counted = (one.to(loop.device) for one in (possible_pointers(groups), groups.rewards, counted))

    def imitate(selector: PointerSelector, rows: Tensor, *, temperature: float) -> Learnt:
        log_probs = selector.log_probs(*material(rows), pointers[rows]).sum(-1)  # (b, G)
        return Learnt(rce_loss(log_probs, rewards[rows], temperature=temperature, judged=counted[rows]), {})

    coldest, last = settings.temperature_end, loop.plan.updates
    for epoch in loop.epochs():
        for batch in loop.batches(epoch):
            temperature = linear_temperature(batch.update, last, settings.temperature_start, coldest)
            judged, given = groups.judged[batch.rows], groups.rewards[batch.rows]
            about = {"reward_mean": given[judged].mean().item(), "frac_zero_std": frac_zero_std(given, judged)}
            loop.learn(batch, partial(imitate, temperature=temperature), temperature=temperature, **about)
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
    turns = (1,) * settings.offline_epochs + (settings.inner_epochs,) * (settings.rounds if online else 0)
    if not turns:
        raise JudgeUnusable("no judge and no offline epochs: nothing would be learnt; give a judge or raise the epochs")
    shots = groups.pointers.shape[-1]
    loop = Loop(
        start,
        Plan(len(groups.ids), settings.batch_size, turns),
        settings,
        seed=seed,
        validate=validate,
        place=place,
        key=_key("grpo", start, groups, settings, seed, rounds=int(online)),
        shots=shots,
        dropout=settings.dropout_in_ratio,
        beta=settings.beta,
    )
    material = Material.of(groups, start, device=loop.device)
    exact = math.perm(groups.pools.shape[1], shots) <= settings.exact_kl_up_to
    with loop.autocast():
        reference = Reference(deepcopy(start).to(loop.device).eval(), material, shots=shots, exact=exact)
        known = stored(groups, reference, settings, device=loop.device)

    def surrogate(selector: PointerSelector, rows: Tensor, *, known: Experience) -> Learnt:
        scored = score(selector, *material(rows), known.pointers[rows], exact=exact)
        divergence = exact_kl(scored.tables, reference.tables(rows)) if exact else None
        judged, old = known.judged[rows], known.old[rows]
        found = grpo_loss(
            scored.log_probs,
            old,
            known.reference[rows],
            known.advantage[rows],
            clip=settings.clip,
            beta=loop.beta,
            judged=judged,
            exact_kl=divergence.kl.mean() if divergence else None,
        )
        log_ratio = (scored.log_probs.detach() - old).masked_fill(~judged, math.nan)
        entropy = divergence.entropy.mean() if divergence else _entropy(scored.log_probs.detach(), log_ratio)
        share = torch.tensor(ess(log_ratio), dtype=torch.float64, device=entropy.device)
        figures = {name: getattr(found, name) for name in ("policy", "kl", "clip_fraction", "ratio_mean")}
        return Learnt(found.loss, figures | {"entropy": entropy, "ess": share})

    for epoch in loop.epochs():
        if epoch > settings.offline_epochs and judge is not None:
            known = drawn(loop, groups, material, reference, settings, epoch=epoch, judge=judge)
        for batch in loop.batches(epoch):
            batch = batch._replace(rows=known.known(batch.rows))
            if known.teaches(batch.rows):
                loop.learn(batch, partial(surrogate, known=known), beta=loop.beta, **known.figures(batch.rows))
            else:
                loop.pass_over(batch, **known.figures(batch.rows))
        loop.beta = _adapted(loop.beta, loop.curve(epoch, "kl"), settings)
    return loop.trained()


def _key(stage: str, start: PointerSelector, groups: Groups, settings: Record, seed: int, **about: int) -> str:
    """Names a training from the content of all that decides it."""
    weights = {f"start/{name}": one for name, one in start.state_dict().items()}
    described = {"config": start.config, "settings": settings, "seed": seed, **about}
    return key_of(stage, described, tensors_of(groups) | weights)


def _best(groups: Groups) -> Tensor:
    """(Q, G) bool: the judged pointer of each query with the highest reward, of equals the first."""
    best = groups.rewards.masked_fill(~groups.judged, -math.inf).argmax(-1, keepdim=True)
    return torch.zeros_like(groups.judged).scatter(-1, best, True)


def _adapted(beta: float, kls: Sequence[float], settings: GrpoSettings) -> float:
    """More weight of the KL where the policy strays, less where it hardly moves; `kls` of the updates of an epoch.

    Not after each update: the policy answers late, so that the weight overshoots, and between the bounds it stays.
    """
    if kls and fmean(kls) > settings.kl_high:
        beta *= BETA_FACTOR
    elif kls and fmean(kls) < settings.kl_low:
        beta /= BETA_FACTOR
    return max(settings.beta_min, min(settings.beta_max, beta))


def _entropy(log_probs: Tensor, log_ratio: Tensor) -> Tensor:
    """Estimate from pointers that another policy drew: each counts as the ratio says, in its group."""
    weights = torch.softmax(log_ratio.masked_fill(log_ratio.isnan(), -math.inf), dim=-1)
    return -(weights * log_probs.nan_to_num(neginf=0)).sum(-1).mean()
