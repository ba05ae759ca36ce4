"""What selectors learn from, as tensors: queries, their pools, and pointers with their rewards.

Data that cannot be learnt from are refused by name before a training starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, PoolTooSmall, RewardUnusable


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


class Material(NamedTuple):
    """Queries and candidates on the device of a selector, in its precision."""

    queries: Tensor
    """(Q, d)"""
    bank: Tensor
    """(N, d)"""
    pools: Tensor
    """(Q, K) rows of `bank`."""

    @classmethod
    def of(cls, data: Labelled | Groups, selector: PointerSelector, *, device: torch.device) -> Material:
        """What `selector`, once it is on `device`, is to read."""
        dtype = next(selector.parameters()).dtype
        return cls(data.queries.to(device, dtype), data.bank.to(device, dtype), data.pools.to(device))

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (b, d) and their pools (b, K, d)."""
        return self.queries[rows], self.bank[self.pools[rows]]


def refuse_unlearnable(data: Labelled | Groups, config: PointerConfig) -> None:
    """Raises RewardUnusable, PointerUnusable, PoolTooSmall or FileUnusable, and names the query."""
    if not data.ids:
        raise RewardUnusable("there is no query to learn from; see that the data of the stage before is not empty")
    _refuse_widths(data, config)
    _refuse_pools(data)
    if isinstance(data, Labelled):
        _refuse_pointers(data.ids, data.labels[:, None], torch.ones(len(data.ids), 1, dtype=torch.bool), data.pools)
    else:
        _refuse_groups(data)
        _refuse_pointers(data.ids, data.pointers, data.judged, data.pools)


def tensors_of(data: Labelled | Groups) -> dict[str, Tensor]:
    """All that is learnt from, by name."""
    return {name: one for name, one in data._asdict().items() if isinstance(one, Tensor)}


def possible_pointers(groups: Groups) -> Tensor:
    """(Q, G, S) with some possible pointer where nothing was judged: padding need not be one."""
    some = torch.arange(groups.pointers.shape[-1]).expand_as(groups.pointers)
    return torch.where(groups.judged[..., None], groups.pointers, some)


def _refuse_widths(data: Labelled | Groups, config: PointerConfig) -> None:
    for name, width in (("queries", data.queries.shape[-1]), ("candidates", data.bank.shape[-1])):
        if width != config.embedding_dim:
            raise FileUnusable(
                f"the embeddings of the {name} have {width} numbers, the selector reads {config.embedding_dim}; "
                "export them with the encoder that the selector was made for"
            )
    rows = {name: len(tensor) for name, tensor in tensors_of(data).items() if name != "bank"}
    if wrong := {name: count for name, count in rows.items() if count != len(data.ids)}:
        raise FileUnusable(f"{len(data.ids)} queries, but rows {_listed(wrong)}; make the data of this stage anew")
    if not (data.queries.isfinite().all() and data.bank.isfinite().all()):
        raise FileUnusable("an embedding holds a value that is no number; export the embeddings again")


def _refuse_pools(data: Labelled | Groups) -> None:
    shots = (data.labels if isinstance(data, Labelled) else data.pointers).shape[-1]
    size = data.pools.shape[1]
    if size < shots or not shots:
        raise PoolTooSmall(f"pools of {size} candidates, {shots} shots; lower the shots or widen the pools")
    if data.pools.min() < 0 or data.pools.max() >= len(data.bank):
        raise FileUnusable(f"a pool names row {int(data.pools.max())} of {len(data.bank)} embedded candidates")


def _refuse_groups(groups: Groups) -> None:
    judged = groups.judged
    if not judged.any(-1).all():
        name = groups.ids[int((~judged.any(-1)).nonzero()[0])]
        raise RewardUnusable(f"query {name} has no judged pointer; judge it again, or leave it out")
    if not groups.rewards[judged].isfinite().all():
        row, column = (judged & ~groups.rewards.isfinite()).nonzero()[0].tolist()
        raise RewardUnusable(
            f"query {groups.ids[row]}, pointer {groups.pointers[row, column].tolist()}: reward "
            f"{groups.rewards[row, column].item()} is no number; judge it again"
        )


def _refuse_pointers(ids: tuple[str, ...], pointers: Tensor, judged: Tensor, pools: Tensor) -> None:
    """pointers: (Q, G, S)."""
    last = pools.shape[1] - 1
    outside = ((pointers < 0) | (pointers > last)).any(-1) & judged
    in_order = pointers.sort(-1).values
    repeated = (in_order[..., 1:] == in_order[..., :-1]).any(-1) & judged
    for wrong, what in ((outside, f"leaves its pool (0 to {last})"), (repeated, "shows a candidate twice")):
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            pointer = pointers[row, column].tolist()
            raise PointerUnusable(f"query {ids[row]}: pointer {pointer} {what}; make the data of this stage anew")


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
