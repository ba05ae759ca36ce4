"""Exact divergence of two pointer policies, where all ordered pointers of a pool can be gone through.

By the chain rule the divergence of sequences is the sum, over all prefixes, of the probability of the prefix times the
divergence of its next pick: for two shots 1 + K distributions of K instead of K·(K − 1) sequences. Unlike estimates
from draws it is right whoever drew them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.pointer import Encoded, PointerSelector

MOST_SEQUENCES = 100_000
"""Ordered pointers of a pool that are gone through; with more the divergence is estimated."""


class ExactKl(NamedTuple):
    """Of each query, in nats."""

    kl: Tensor
    """(B,) KL(policy ‖ reference) of whole pointers."""
    entropy: Tensor
    """(B,) of the policy's pointers."""


def countable(candidates: int, shots: int) -> bool:
    """Whether all ordered pointers of a pool are few enough."""
    return math.perm(candidates, shots) <= MOST_SEQUENCES


def step_log_probs(selector: PointerSelector, encoded: Encoded, *, shots: int) -> tuple[Tensor, ...]:
    """Log-probabilities of the next pick after every prefix: (B, P, K) for each pick, P the K!/(K − t)! prefixes.

    Prefixes of t distinct positions are in the order of itertools.permutations. What a selector that no longer learns
    gives can be kept. Raises ValueError if there are too many, or a pool is smaller than a pointer.
    """
    candidates, fewest = encoded.keys.shape[1], int(encoded.usable.sum(-1).min())
    if not 1 <= shots <= fewest:
        raise ValueError(f"{shots} picks from a pool of {fewest}; pick at least 1 and at most as many as there are")
    if not countable(candidates, shots):
        raise ValueError(
            f"{shots} of {candidates} candidates: {math.perm(candidates, shots):,} ordered pointers are more than "
            f"the {MOST_SEQUENCES:,} that are gone through; estimate the divergence from draws (losses.k3)"
        )
    state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
    levels: list[Tensor] = []
    for picks in range(shots):
        if picks:
            parents, picked = _children(candidates, picks, device=state.device)
            taken = picked[:, None] == torch.arange(candidates, device=state.device)  # (P, K)
            blocked = blocked[:, parents] | taken
            first = picks == 1  # one state for all, and every candidate taken in turn
            state = selector.take_in(
                *((state, encoded.keys) if first else (state[:, parents], encoded.keys[:, picked]))
            )
        levels.append(F.log_softmax(selector.step(state, encoded.keys, blocked), dim=-1))
    return tuple(levels)


def exact_kl(policy: Sequence[Tensor], reference: Sequence[Tensor]) -> ExactKl:
    """Divergence and entropy from the `step_log_probs` of both, with gradients to either."""
    prefix = policy[0].new_zeros(policy[0].shape[:2])  # (B, 1)
    kl, entropy = policy[0].new_zeros(len(prefix)), policy[0].new_zeros(len(prefix))
    for picks, (new, ref) in enumerate(zip(policy, reference, strict=True)):
        if picks:
            parents, picked = _children(new.shape[-1], picks, device=new.device)
            prefix = (prefix[..., None] + policy[picks - 1])[:, parents, picked]  # (B, P)
        possible = new > -math.inf
        finite = torch.where(possible, new, 0)
        weights = torch.where(possible, (prefix[..., None] + finite).exp(), 0)  # probability of prefix and pick
        kl = kl + (weights * (finite - torch.where(possible, ref, 0))).sum((1, 2))
        entropy = entropy - (weights * finite).sum((1, 2))
    return ExactKl(kl, entropy)


def _children(candidates: int, picks: int, *, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each prefix of `picks` positions: the number of the prefix that it goes on from, and its last position."""
    prefixes = list(permutations(range(candidates), picks))
    parents = torch.arange(len(prefixes), device=device) // (candidates - picks + 1)
    return parents, torch.tensor([prefix[-1] for prefix in prefixes], device=device)
