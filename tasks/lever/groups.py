"""What selectors learn from, as tensors: queries, the pools they choose from, and pointers with their rewards."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Labelled(NamedTuple):
    """One pointer to imitate for each query."""

    ids: tuple[str, ...]
    queries: Tensor
    """(Q, d)"""
    bank: Tensor
    """(N, d) embeddings of all candidates; a batch gathers its pools, so that (Q, K, d) is nowhere in memory."""
    pools: Tensor
    """(Q, K) int64 rows of `bank`."""
    labels: Tensor
    """(Q, S) int64 positions in the pool."""


class Groups(NamedTuple):
    """Several judged pointers for each query."""

    ids: tuple[str, ...]
    queries: Tensor
    """(Q, d)"""
    bank: Tensor
    """(N, d)"""
    pools: Tensor
    """(Q, K) int64 rows of `bank`."""
    pointers: Tensor
    """(Q, G, S) int64 positions in the pool."""
    rewards: Tensor
    """(Q, G); 0 where `judged` is False."""
    judged: Tensor
    """(Q, G) bool; False where the judge failed, and where a query has fewer pointers than others."""
    behaviour: Tensor
    """(Q, G) sequence log-probability under the policy that drew them; NaN where nothing tells."""
