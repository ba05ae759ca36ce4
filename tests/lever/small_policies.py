"""Small pointer networks and problems in double precision, for tests that go through all pointers."""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector

WIDTH = 12


class Problem(NamedTuple):
    """Queries and their pools."""

    query: Tensor
    """(B, d)"""
    pool: Tensor
    """(B, K, d)"""


def small_selector(seed: int = 0, **config: Any) -> PointerSelector:
    """Of width 8, with weights from a seed; it drops nothing, whether it learns or not."""
    settings: dict[str, Any] = {
        "embedding_dim": WIDTH,
        "hidden": 8,
        "layers": 1,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    } | config
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PointerSelector(PointerConfig(**settings)).double()


def problem(seed: int = 0, *, queries: int = 2, candidates: int = 5) -> Problem:
    """Vectors of the normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(queries, 1 + candidates, WIDTH, dtype=torch.float64, generator=generator)
    return Problem(draw[:, 0], draw[:, 1:])


def all_pointers(candidates: int, shots: int, *, queries: int) -> Tensor:
    """(B, K!/(K − S)!, S): every ordered choice, the same for each query."""
    return torch.tensor(list(permutations(range(candidates), shots))).expand(queries, -1, -1)
