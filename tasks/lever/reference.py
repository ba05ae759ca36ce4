"""What policies think of given pointers, and of all others: the frozen policy once, the learning one at each update.

Where all ordered pointers of a pool can be gone through (kl.countable), the log-probabilities of given ones are read
off the tables that the exact divergence needs anyway.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.kl import step_log_probs
from tasks.lever.learnable import Material

CHUNK = 256
"""Queries that go through a frozen policy at once."""
MOST_KEPT_BYTES = 1 << 28
"""Tables that take more are made anew for each batch."""


class Scored(NamedTuple):
    """What a policy thinks."""

    log_probs: Tensor
    """(b, G) of the given pointers."""
    tables: tuple[Tensor, ...]
    """kl.step_log_probs of all pointers; none where these are too many."""


def score(selector: PointerSelector, query: Tensor, pool: Tensor, pointers: Tensor, *, exact: bool) -> Scored:
    """What a policy thinks of the pointers (b, G, S), and, where that is to be exact, of all others."""
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
