"""Policy losses of the arena beside `losses.grpo_loss`: Dr. GRPO, DAPO, GSPO, CISPO; and the one of a dueling DQN.

new, old (B, G, S): log-probability of each pick of G pointers for B queries, under the policy that learns and under the
one that drew. advantage (B, G). `judged` (B, G) is False at members that count for nothing. Lower is better. The
divergence from the reference is added by the caller, the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

CLIP_HIGHER = 0.28
"""DAPO's upper range."""


class PolicyLoss(NamedTuple):
    """A loss; gradients flow through the first alone."""

    policy: Tensor
    clip_fraction: Tensor  # share of the picks, or pointers, whose gradient is cut off
    ratio_mean: Tensor


def dr_grpo_loss(new: Tensor, old: Tensor, advantage: Tensor, *, clip: float, judged: Tensor) -> PolicyLoss:
    """A ratio for each pick, the sum over the picks; the advantage is R − mean, without the deviation.

    Source: Liu et al. 2025, "Understanding R1-Zero-Like Training", arXiv:2503.20783.
    """
    return _clipped(_ratios(new, old, judged), advantage[..., None], judged, low=clip, high=clip, of=_sums)


def dapo_loss(new: Tensor, old: Tensor, advantage: Tensor, *, clip: float, judged: Tensor) -> PolicyLoss:
    """A ratio for each pick, which may rise further than it may fall; the mean over all picks of groups that teach.

    Groups of equal rewards are dropped and not drawn again, so that all arms ask the judge equally often.
    Source: Yu et al. 2025, "DAPO", arXiv:2503.14476.
    """
    teaches = judged & (advantage != 0).any(-1, keepdim=True)
    return _clipped(_ratios(new, old, judged), advantage[..., None], teaches, low=clip, high=CLIP_HIGHER, of=_picks)


def gspo_loss(new: Tensor, old: Tensor, advantage: Tensor, *, clip: float, judged: Tensor) -> PolicyLoss:
    """One ratio for each pointer: the geometric mean of those of its picks.

    Source: Zheng et al. 2025, "Group Sequence Policy Optimization", arXiv:2507.18071; its clipping ranges of .0003 and
    .0004 are for answers of thousands of tokens.
    """
    ratio = torch.where(judged[..., None], new - old, 0).mean(-1, keepdim=True).exp()
    return _clipped(ratio, advantage[..., None], judged, low=clip, high=clip, of=_sums)


def cispo_loss(new: Tensor, old: Tensor, advantage: Tensor, *, clip: float, judged: Tensor) -> PolicyLoss:
    """Each pick's log-probability, weighed by its clipped ratio, which has no gradient; the mean over all picks.

    Source: MiniMax 2025, "MiniMax-M1", arXiv:2506.13585.
    """
    ratio = _ratios(new, old, judged).detach()
    weights = ratio.clamp(max=1 + clip) * advantage[..., None]
    objective = weights * torch.where(judged[..., None], new, 0)
    return PolicyLoss(-_picks(objective, judged), _picks((ratio > 1 + clip).to(ratio), judged), _picks(ratio, judged))


STEP_LOSSES: dict[str, Callable[..., PolicyLoss]] = {
    "dr_grpo": dr_grpo_loss,
    "dapo": dapo_loss,
    "gspo": gspo_loss,
    "cispo": cispo_loss,
}


def dueling_values(value: Tensor, advantage: Tensor, blocked: Tensor) -> Tensor:
    """Q = V + A − mean A over what can be picked, −inf elsewhere. value: (…,); advantage, blocked: (…, K).

    Source: Wang et al. 2016, "Dueling Network Architectures", arXiv:1511.06581.
    """
    kept = advantage.masked_fill(blocked, 0)
    mean = kept.sum(-1, keepdim=True) / (~blocked).sum(-1, keepdim=True)
    return (value[..., None] + kept - mean).masked_fill(blocked, -torch.inf)


def dqn_loss(values: Tensor, pointers: Tensor, rewards: Tensor, *, judged: Tensor) -> Tensor:
    """Huber loss of each pick's value to the best that can follow it, and of the last one's to the reward.

    values: (B, G, S, K) Q after the picks before; pointers: (B, G, S); rewards: (B, G).
    Source: as LSD (arXiv:2603.26775) selects demonstrations; Mnih et al. 2015 without a second network.
    """
    taken = values.gather(-1, pointers[..., None])[..., 0]  # (B, G, S)
    follows = values[..., 1:, :].amax(-1).detach()
    errors = F.smooth_l1_loss(taken, torch.cat([follows, rewards[..., None]], dim=-1), reduction="none")
    return _picks(errors, judged)


def _ratios(new: Tensor, old: Tensor, judged: Tensor) -> Tensor:
    return torch.where(judged[..., None], new - old, 0).exp()


def _clipped(
    ratio: Tensor, advantage: Tensor, judged: Tensor, *, low: float, high: float, of: Callable[[Tensor, Tensor], Tensor]
) -> PolicyLoss:
    """The clipped surrogate, negated. ratio: (B, G, S or 1); of: how it is summed up."""
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
    cut = ((ratio > 1 + high) & (advantage > 0)) | ((ratio < 1 - low) & (advantage < 0))
    with torch.no_grad():
        clip_fraction, ratio_mean = _picks(cut.to(ratio), judged), _picks(ratio, judged)
    return PolicyLoss(-of(surrogate, judged), clip_fraction, ratio_mean)


def _sums(values: Tensor, judged: Tensor) -> Tensor:
    """Over the picks; then the mean over the judged members of each group, and over the groups."""
    total = torch.where(judged, values.sum(-1), 0).sum(-1)
    return (total / judged.sum(-1).clamp(min=1)).mean()


def _picks(values: Tensor, judged: Tensor) -> Tensor:
    """The mean over all picks of all judged members."""
    kept = judged[..., None].expand_as(values)
    return torch.where(kept, values, 0).sum() / kept.sum().clamp(min=1)
