"""Lever-Plus's functions for rewards and divergences, over ours."""

from __future__ import annotations

from torch import Tensor

from tasks.lever import losses


def normalize_rewards_zscore(rewards: Tensor, dim: int = -1, eps: float = 1e-8) -> Tensor:
    """(R − mean) / max(std, eps) along `dim`, with the sample deviation; equal rewards give 0."""
    return losses.advantages(rewards.movedim(dim, -1), floor=eps).movedim(-1, dim)


def compute_group_relative_advantage(rewards: Tensor, normalize: bool = True, clip_range: float = 5.0) -> Tensor:
    """(B, G) z-scores of each group, or distances to its mean, clipped."""
    found = normalize_rewards_zscore(rewards) if normalize else rewards - rewards.mean(-1, keepdim=True)
    return found.clamp(-clip_range, clip_range)


def compute_softmax_weights(rewards: Tensor, temperature: float = 1.0) -> Tensor:
    """softmax(rewards / temperature) over each group."""
    return losses.rce_weights(rewards, temperature)


def compute_kl_penalty(log_probs_new: Tensor, log_probs_old: Tensor) -> Tensor:
    """Mean of r − 1 − log r with r = old / new: on draws of `new` it is KL(new ‖ old). Lever-Plus has r upside down."""
    return losses.k3(log_probs_new, log_probs_old).mean()


def adaptive_kl_beta(
    current_kl: float,
    current_beta: float,
    kl_target_min: float = 0.01,
    kl_target_max: float = 0.1,
    adjustment_factor: float = 1.5,
    beta_min: float = 0.001,
    beta_max: float = 10.0,
) -> float:
    """More weight of the KL above its target, less below."""
    if current_kl > kl_target_max:
        current_beta *= adjustment_factor
    elif current_kl < kl_target_min:
        current_beta /= adjustment_factor
    return max(beta_min, min(beta_max, current_beta))
