"""Losses of the three stages: imitation (SFT), imitation weighted by rewards (RCE), and GRPO.

Shapes: B queries, G pointers of each, S picks. Sequence log-probabilities are sums over the picks. `judged` (B, G) is
False at members that count for nothing: the judge failed on them, or they are padding. A query weighs the same
however many of its members are judged: losses are means over each group, then over the groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.pointer import Encoded, PointerSelector
from tasks.lever.learning.training_inputs import Material
from tasks.lever.lever_errors import RewardUnusable
from tasks.lever.lever_options import OUR_GRPO_LOSS, added_grpo_losses


class GrpoLoss(NamedTuple):
    """A loss and what it is made of; gradients flow through the first three."""

    loss: Tensor  # policy + beta · kl
    policy: Tensor  # the clipped surrogate, negated
    kl: Tensor  # divergence from the reference: the exact one if given, else the mean of k3
    clip_fraction: Tensor  # share of the members whose gradient is cut off
    ratio_mean: Tensor  # mean ratio of new and old probabilities; 1 at the first inner step


def find_grpo_loss(name: str) -> Callable[..., GrpoLoss]:
    """Return the objective `grpo`, or one with its parameters that an installed package adds. Raises KeyError."""
    return grpo_loss if name == OUR_GRPO_LOSS else added_grpo_losses()[name].load()


def sft_loss(log_probs: Tensor) -> Tensor:
    """Return the cross-entropy of labels with log-probabilities (B, S): summed over picks, averaged over queries."""
    return -log_probs.sum(-1).mean()


def rce_loss(log_probs: Tensor, rewards: Tensor, *, temperature: float, judged: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of sequence log_probs (B, G) with softmax(rewards / temperature) (B, G) as target."""
    weights = rce_weights(rewards, temperature, judged)
    return -(weights * _zero_unjudged(judged, log_probs)).sum(-1).mean()


def rce_weights(rewards: Tensor, temperature: float, judged: Tensor | None = None) -> Tensor:
    """Return softmax(rewards / temperature) over judged members (…, G), 0 for others. Raises ValueError for ≤ 0."""
    if temperature <= 0:
        raise ValueError(f"temperature {temperature}: must be above 0")
    mask = _check_members(rewards, judged)
    return torch.softmax((rewards / temperature).masked_fill(~mask, -math.inf), dim=-1)


def linear_temperature(step: int, total: int, start: float = 2.0, end: float = 0.5) -> float:
    """Return the temperature of a step: linear from `start` at step 0 to `end` at step `total` − 1, the last one."""
    return start + (end - start) * min(1.0, step / max(1, total - 1))


def advantages(rewards: Tensor, *, floor: float = 0.1, judged: Tensor | None = None) -> Tensor:
    """Return (R − mean) / max(std, floor) in each group (…, G), with the sample deviation; 0 where not judged.

    A group of equal rewards, or with a single judged member, has advantages of exactly 0.
    Raises RewardUnusable for NaN, a group of one, and a group in which nothing is judged.
    """
    mask = _check_members(rewards, judged)
    if rewards.shape[-1] < 2:
        raise RewardUnusable("a group of one pointer has nothing to compare itself with; draw at least 2 of each query")
    centred = rewards - _group_mean(rewards, mask)[..., None]
    spread = (torch.where(mask, centred, 0).square().sum(-1) / (mask.sum(-1) - 1).clamp(min=1)).sqrt()
    counts = mask & ~_have_equal_rewards(rewards, mask)[..., None]
    return torch.where(counts, centred / spread.clamp(min=floor)[..., None], 0)


def best_members(rewards: Tensor, top_k: int, judged: Tensor | None = None) -> Tensor:
    """Return which are the `top_k` judged members with the highest rewards, of equals the first; (…, G) bool.

    Fewer where fewer are judged. Raises ValueError for `top_k` < 2, RewardUnusable for NaN and a group without any.
    """
    if top_k < 2:
        raise ValueError(f"top_k {top_k}: at least 2 are compared with each other")
    mask = _check_members(rewards, judged)
    order = rewards.masked_fill(~mask, -math.inf).sort(dim=-1, descending=True, stable=True).indices
    return mask & torch.zeros_like(mask).scatter(-1, order[..., :top_k], True)


def frac_zero_std(rewards: Tensor, judged: Tensor | None = None) -> float:
    """Return the share of groups (…, G) whose rewards are all equal: they give the policy no gradient."""
    return float(_have_equal_rewards(rewards, _check_members(rewards, judged)).double().mean())


def grpo_loss(
    new: Tensor,
    old: Tensor,
    ref: Tensor,
    advantage: Tensor,
    *,
    beta: float,
    clip: float = 0.2,
    judged: Tensor | None = None,
    exact_kl: Tensor | None = None,
) -> GrpoLoss:
    """Return the clipped GRPO objective with a KL penalty towards `ref`; lower is better. Raises ValueError for shapes.

    new, old, ref: log-probability of each sequence (B, G) under the policy that learns, the one that the ratio is
    taken to (the policy at the start of the round), and the one that it must stay near.
    exact_kl: a scalar instead of the mean of `k3`, which on pointers that the policy did not draw is biased.
    Source: Shao et al. 2024, arXiv:2402.03300; with one ratio for a sequence, as in GSPO (Zheng et al. 2025,
    arXiv:2507.18071), but of the sum of log-probabilities, not their mean: all pointers are equally long.
    """
    if not new.shape == old.shape == ref.shape == advantage.shape:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (new, old, ref, advantage))
        raise ValueError(f"new, old, ref and advantage of shapes {shapes}: all must be (B, G)")
    # masked before exp: a member that is padding may have −inf, and 0 · inf is NaN in the gradient too
    ratio = _zero_unjudged(judged, new - old).exp()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    policy = -_mean(surrogate, judged)
    kl = _mean(k3(_zero_unjudged(judged, new), _zero_unjudged(judged, ref)), judged) if exact_kl is None else exact_kl
    cut = ((ratio > 1 + clip) & (advantage > 0)) | ((ratio < 1 - clip) & (advantage < 0))
    with torch.no_grad():
        clip_fraction, ratio_mean = _mean(cut.to(ratio.dtype), judged), _mean(ratio, judged)
    return GrpoLoss(policy + beta * kl, policy, kl, clip_fraction, ratio_mean)


def k3(new: Tensor, ref: Tensor) -> Tensor:
    """Return r − 1 − log r with r = ref / new, elementwise: never negative; its mean over draws of new is the KL.

    Of other draws the mean is no KL. Source: Schulman 2020, http://joschu.net/blog/kl-approx.html.
    """
    log_ratio = ref - new
    return log_ratio.expm1() - log_ratio  # expm1: e^x − 1 loses its digits near 0, where policies begin


def adapt_beta(
    current_kl: float,
    current_beta: float,
    kl_target_min: float = 0.01,
    kl_target_max: float = 0.1,
    adjustment_factor: float = 1.5,
    beta_min: float = 0.001,
    beta_max: float = 10.0,
) -> float:
    """Return the weight of the KL term, raised for a divergence above `kl_target_max`, lowered for one below the least.

    Adapt it after an epoch, not after each update: the policy reacts late, so that the weight would overshoot.
    """
    if current_kl > kl_target_max:
        current_beta *= adjustment_factor
    elif current_kl < kl_target_min:
        current_beta /= adjustment_factor
    return max(beta_min, min(beta_max, current_beta))


def ess(log_ratio: Tensor) -> float:
    """Return the effective share of draws with log importance weights (…, G): mean of (Σw)² / (n Σw²), in (0, 1].

    1: the draws serve as if they were the policy's own; 1 / n: one of them outweighs all. NaN (a behaviour that
    nothing tells) is left out; NaN if that leaves nothing. Source: Kish 1965, Survey Sampling.
    """
    mask = ~log_ratio.isnan()
    weights = log_ratio.masked_fill(~mask, -math.inf).double()
    weights = (weights - weights.amax(-1, keepdim=True)).exp()  # the largest is 1: none overflows
    shares = weights.sum(-1).square() / (mask.sum(-1) * weights.square().sum(-1))
    return float(shares[mask.any(-1)].mean())


def _check_members(rewards: Tensor, judged: Tensor | None) -> Tensor:
    """Return the mask of members that count. Raises RewardUnusable for NaN among them and a group without any."""
    mask = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
    if not mask.any(-1).all():
        group = int((~mask.any(-1)).flatten().nonzero()[0])
        raise RewardUnusable(f"group {group} of the batch has no judged pointer: leave its query out")
    if not (rewards.isfinite() | ~mask).all():
        wrong = (~rewards.isfinite() & mask).reshape(-1, rewards.shape[-1])
        group, member = wrong.nonzero()[0].tolist()
        raise RewardUnusable(f"reward {member} of group {group} of the batch is no finite number; judge it again")
    return mask


def _have_equal_rewards(rewards: Tensor, mask: Tensor) -> Tensor:
    """Return which groups have equal rewards, (…) bool; not by their deviation, which rounding may keep from 0."""
    highest = rewards.masked_fill(~mask, -math.inf).amax(-1)
    return highest == rewards.masked_fill(~mask, math.inf).amin(-1)


def _zero_unjudged(judged: Tensor | None, values: Tensor) -> Tensor:
    """Return the values, with 0 at members that do not count."""
    return values if judged is None else torch.where(judged, values, 0)


def _group_mean(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0).sum(-1) / mask.sum(-1)


def _mean(values: Tensor, judged: Tensor | None) -> Tensor:
    """Return the mean over the judged members of each group, then over the groups."""
    return values.mean() if judged is None else _group_mean(values, judged).mean()


CHUNK = 256
"""Queries that go through a frozen policy at once."""
MOST_KEPT_BYTES = 1 << 27
"""Size above which the tables of a reference are computed anew for each batch."""


class ExactKl(NamedTuple):
    """Divergence and entropy of each query, in nats."""

    kl: Tensor  # (B,) KL(policy ‖ reference) of whole pointers
    entropy: Tensor  # (B,) of the policy's pointers


def step_log_probs(selector: PointerSelector, encoded: Encoded, *, shots: int) -> tuple[Tensor, ...]:
    """Return log-probabilities (B, P, K) of each pick t after P = K!/(K − t)! prefixes of itertools.permutations."""
    candidates = encoded.keys.shape[1]
    state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
    levels: list[Tensor] = []
    for picks in range(shots):
        if picks:
            parents, picked = _list_children(candidates, picks, device=state.device)
            is_last_pick = picked[:, None] == torch.arange(candidates, device=state.device)  # (P, K)
            blocked = blocked[:, parents] | is_last_pick
            if picks == 1:  # one state for all, and every candidate taken in turn
                state = selector.take_in(state, encoded.keys)
            else:
                state = selector.take_in(state[:, parents], encoded.keys[:, picked])
        levels.append(F.log_softmax(selector.step(state, encoded.keys, blocked), dim=-1))
    return tuple(levels)


def exact_kl(policy: Sequence[Tensor], reference: Sequence[Tensor]) -> ExactKl:
    """Return divergence and entropy from the `step_log_probs` of two policies, with gradients to either."""
    prefix = policy[0].new_zeros(policy[0].shape[:2])  # (B, 1)
    kl, entropy = policy[0].new_zeros(len(prefix)), policy[0].new_zeros(len(prefix))
    for picks, (new, ref) in enumerate(zip(policy, reference, strict=True)):
        if picks:
            parents, picked = _list_children(new.shape[-1], picks, device=new.device)
            prefix = (prefix[..., None] + policy[picks - 1])[:, parents, picked]  # (B, P)
        possible = new > -math.inf
        finite = torch.where(possible, new, 0)  # 0 · −inf would be NaN, in the gradient too
        weights = torch.where(possible, (prefix[..., None] + finite).exp(), 0)  # probability of prefix and pick
        kl = kl + (weights * (finite - torch.where(possible, ref, 0))).sum((1, 2))
        entropy = entropy - (weights * finite).sum((1, 2))
    return ExactKl(kl, entropy)


def _list_children(candidates: int, picks: int, *, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return for each prefix of `picks` positions the number of its parent prefix, and its last position."""
    prefixes = list(permutations(range(candidates), picks))
    parents = torch.arange(len(prefixes), device=device) // (candidates - picks + 1)  # so many children each
    return parents, torch.tensor([prefix[-1] for prefix in prefixes], device=device)


class ScoredPointers(NamedTuple):
    """Log-probabilities of pointers under a policy, and the tables that they were read from."""

    log_probs: Tensor  # (b, G) of the given pointers
    tables: tuple[Tensor, ...]  # step_log_probs of all pointers; empty if there are too many


def score_pointers(
    selector: PointerSelector, query: Tensor, pool: Tensor, pointers: Tensor, *, exact: bool
) -> ScoredPointers:
    """Return log-probabilities of the pointers (b, G, S) and, if `exact`, the tables of all pointers."""
    encoded = selector.encode(query, pool)
    if not exact:
        return ScoredPointers(selector.score(encoded, pointers).sum(-1), ())
    tables = step_log_probs(selector, encoded, shots=pointers.shape[-1])
    return ScoredPointers(look_up_log_probs(tables, pointers), tables)


def look_up_log_probs(tables: tuple[Tensor, ...], pointers: Tensor) -> Tensor:
    """Look up the log-probabilities (b, G) of pointers (b, G, S), each of distinct positions, in the tables."""
    candidates = tables[0].shape[-1]
    prefix = torch.zeros_like(pointers[..., 0])  # (b, G) number of what is picked so far
    total = torch.zeros_like(prefix, dtype=tables[0].dtype)
    for picks, (table, picked) in enumerate(zip(tables, pointers.unbind(-1), strict=True)):
        total = total + table.flatten(1).gather(1, prefix * candidates + picked)
        smaller = (pointers[..., :picks] < picked[..., None]).sum(-1)
        prefix = prefix * (candidates - picks) + picked - smaller  # as itertools.permutations counts
    return total


class Reference:
    """A frozen policy on fixed queries; its tables are computed once where they fit in memory."""

    def __init__(self, selector: PointerSelector, material: Material, *, shots: int, exact: bool) -> None:
        """Raises as PointerSelector does; `selector` must stay as it is, without dropout."""
        self._selector, self._material, self._shots, self._exact = selector, material, shots, exact
        queries, candidates = material.pools.shape
        numbers = queries * sum(candidates ** (1 + picks) for picks in range(shots)) if exact else 0  # at most
        self._stored_tables: tuple[Tensor, ...] = ()
        if exact and numbers * material.queries.element_size() <= MOST_KEPT_BYTES:
            parts = [self._tables(rows) for rows in self._chunks()]
            self._stored_tables = tuple(torch.cat(part) for part in zip(*parts, strict=True))

    def tables(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the `step_log_probs` of these queries (b,)."""
        return tuple(table[rows] for table in self._stored_tables) if self._stored_tables else self._tables(rows)

    @torch.no_grad()
    def log_probs(self, pointers: Tensor) -> Tensor:
        """Return the log-probabilities (Q, G) of pointers (Q, G, S), for all queries."""
        if self._stored_tables:
            return look_up_log_probs(self._stored_tables, pointers)
        scored = [
            score_pointers(self._selector, *self._material(rows), pointers[rows], exact=self._exact)
            for rows in self._chunks()
        ]
        return torch.cat([chunk.log_probs for chunk in scored])

    @torch.no_grad()
    def _tables(self, rows: Tensor) -> tuple[Tensor, ...]:
        return step_log_probs(self._selector, self._selector.encode(*self._material(rows)), shots=self._shots)

    def _chunks(self) -> tuple[Tensor, ...]:
        return torch.arange(len(self._material.queries), device=self._material.queries.device).split(CHUNK)
