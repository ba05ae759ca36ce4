"""Log-probabilities of pointers under a policy and a frozen reference, and the divergence of the two.

Where all ordered pointers of a pool can be enumerated, the divergence is exact: by the chain rule it is the sum, over
all prefixes, of the probability of the prefix times the divergence of its next pick; for two shots that takes 1 + K
distributions of K instead of K·(K − 1) sequences. Unlike estimates from draws it is right whoever drew them, and the
log-probabilities of given pointers are read off the same tables.
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
from tasks.lever.learning.training_inputs import Material

CHUNK = 256
"""Queries that go through a frozen policy at once."""
MOST_KEPT_BYTES = 1 << 28
"""Tables that take more are made anew for each batch."""


class ExactKl(NamedTuple):
    """Divergence and entropy of each query, in nats."""

    kl: Tensor  # (B,) KL(policy ‖ reference) of whole pointers
    entropy: Tensor  # (B,) of the policy's pointers


def step_log_probs(selector: PointerSelector, encoded: Encoded, *, shots: int) -> tuple[Tensor, ...]:
    """Log-probabilities of the next pick after every prefix: (B, P, K) for each pick, P the K!/(K − t)! prefixes.

    Prefixes of t distinct positions are in the order of itertools.permutations.
    """
    candidates = encoded.keys.shape[1]
    state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
    levels: list[Tensor] = []
    for picks in range(shots):
        if picks:
            parents, picked = _children(candidates, picks, device=state.device)
            taken = picked[:, None] == torch.arange(candidates, device=state.device)  # (P, K)
            blocked = blocked[:, parents] | taken
            if picks == 1:  # one state for all, and every candidate taken in turn
                state = selector.take_in(state, encoded.keys)
            else:
                state = selector.take_in(state[:, parents], encoded.keys[:, picked])
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


class Scored(NamedTuple):
    """Log-probabilities under a policy."""

    log_probs: Tensor  # (b, G) of the given pointers
    tables: tuple[Tensor, ...]  # step_log_probs of all pointers; empty if there are too many


def score(selector: PointerSelector, query: Tensor, pool: Tensor, pointers: Tensor, *, exact: bool) -> Scored:
    """Log-probabilities of the pointers (b, G, S) and, if `exact`, the tables of all pointers."""
    encoded = selector.encode(query, pool)
    if not exact:
        return Scored(selector.score(encoded, pointers).sum(-1), ())
    tables = step_log_probs(selector, encoded, shots=pointers.shape[-1])
    return Scored(read_off(tables, pointers), tables)


def read_off(tables: tuple[Tensor, ...], pointers: Tensor) -> Tensor:
    """Log-probabilities (b, G) of pointers (b, G, S), each of distinct positions."""
    candidates = tables[0].shape[-1]
    prefix = torch.zeros_like(pointers[..., 0])  # (b, G) number of what is picked so far
    total = torch.zeros_like(prefix, dtype=tables[0].dtype)
    for picks, (table, picked) in enumerate(zip(tables, pointers.unbind(-1), strict=True)):
        total = total + table.flatten(1).gather(1, prefix * candidates + picked)
        smaller = (pointers[..., :picks] < picked[..., None]).sum(-1)
        prefix = prefix * (candidates - picks) + picked - smaller  # as itertools.permutations counts
    return total


class Reference:
    """A policy that no longer learns, and its queries."""

    def __init__(self, selector: PointerSelector, material: Material, *, shots: int, exact: bool) -> None:
        """Raises as PointerSelector does; `selector` must stay as it is, without dropout."""
        self._selector, self._material, self._shots, self._exact = selector, material, shots, exact
        queries, candidates = material.pools.shape
        numbers = queries * sum(candidates ** min(shots, 1 + picks) for picks in range(shots)) if exact else 0
        self._kept: tuple[Tensor, ...] = ()
        if exact and numbers * material.queries.element_size() <= MOST_KEPT_BYTES:
            parts = [self._tables(rows) for rows in self._chunks()]
            self._kept = tuple(torch.cat(part) for part in zip(*parts, strict=True))

    def tables(self, rows: Tensor) -> tuple[Tensor, ...]:
        """kl.step_log_probs of these queries."""
        return tuple(table[rows] for table in self._kept) if self._kept else self._tables(rows)

    @torch.no_grad()
    def log_probs(self, pointers: Tensor) -> Tensor:
        """(Q, G) of pointers (Q, G, S), for all queries."""
        if self._kept:
            return read_off(self._kept, pointers)
        scored = [
            score(self._selector, *self._material(rows), pointers[rows], exact=self._exact) for rows in self._chunks()
        ]
        return torch.cat([one.log_probs for one in scored])

    @torch.no_grad()
    def _tables(self, rows: Tensor) -> tuple[Tensor, ...]:
        return step_log_probs(self._selector, self._selector.encode(*self._material(rows)), shots=self._shots)

    def _chunks(self) -> tuple[Tensor, ...]:
        return torch.arange(len(self._material.queries), device=self._material.queries.device).split(CHUNK)
