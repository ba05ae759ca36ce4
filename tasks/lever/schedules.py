"""What a training does at which update: pure functions of a seed and a number, so that a resume needs no history."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import torch
from torch import Tensor


def learning_rate(update: int, updates: int, *, peak: float, warmup_share: float) -> float:
    """Of update 0 … updates - 1: rises in a line to `peak`, then falls by half a cosine towards 0.

    Source: the shape of Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
    """
    warmup = math.ceil(warmup_share * updates)
    if update < warmup:
        return peak * (update + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def seed_of(seed: int, purpose: str, *numbers: int) -> int:
    """A seed for one draw; draws for different purposes, or of different numbers, have nothing in common."""
    named = ":".join(map(str, (seed, purpose, *numbers)))
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4])  # the generator of a CPU takes no more


def generator_of(seed: int, purpose: str, *numbers: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one draw."""
    return torch.Generator(device).manual_seed(seed_of(seed, purpose, *numbers))


def order(count: int, *, seed: int, turn: int) -> Tensor:
    """(count,) the order in which queries are seen at their `turn`-th time."""
    return torch.randperm(count, generator=generator_of(seed, "order", turn))


class Plan(NamedTuple):
    """How often all queries are seen."""

    queries: int
    batch_size: int
    turns: tuple[int, ...]
    """Of each epoch: times that every query is seen in it."""

    @property
    def batches(self) -> int:
        """In one turn; they differ by at most one query, so that no update hangs on a few."""
        return math.ceil(self.queries / self.batch_size)

    @property
    def updates(self) -> int:
        """In all."""
        return sum(self.turns) * self.batches

    def end(self, epoch: int) -> int:
        """Updates that are done when an epoch (1 …) is."""
        return sum(self.turns[:epoch]) * self.batches

    def rows(self, update: int, *, seed: int) -> Tensor:
        """(b,) the queries of an update (0 …)."""
        turn, batch = divmod(update, self.batches)
        return order(self.queries, seed=seed, turn=turn).tensor_split(self.batches)[batch]


class Batch(NamedTuple):
    """Queries of one update."""

    update: int
    """Updates that were done before."""
    epoch: int
    rows: Tensor
    """(b,) of all queries, on the CPU."""
