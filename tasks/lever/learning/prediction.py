"""A trained selector put to use: which demonstrations to show for new queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from models.pointer import PointerSelector
from tasks.lever.data.banks import EmbeddingBank, require
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall

QUERIES_AT_ONCE = 256


class Prediction(NamedTuple):
    """Demonstrations chosen for a query."""

    pointer: tuple[int, ...]
    """Positions in its pool, in the order of the picks."""
    demonstrations: tuple[str, ...]
    """Their ids."""
    log_prob: float
    """Log-probability of the whole choice."""


def predict(
    selector: PointerSelector,
    queries: EmbeddingBank,
    candidates: EmbeddingBank,
    *,
    shots: int,
    pools: Mapping[str, Sequence[str]] | None = None,
    pool_size: int = 64,
) -> dict[str, Prediction]:
    """The likeliest demonstrations of every query.

    pools: candidates of each query; none: its `pool_size` most similar ones, itself left out by id.
    Raises PoolTooSmall, and FileUnusable for vectors of another width, or ids without a vector.
    """
    for what, bank in (("queries", queries), ("candidates", candidates)):
        if bank.dimension != selector.config.embedding_dim:
            raise FileUnusable(
                f"the {what} have {bank.dimension} numbers each, the selector reads {selector.config.embedding_dim}; "
                "export them with the encoder that it was trained with"
            )
    require(candidates, where="the candidates", encoder=queries.encoder or None)
    if pools is not None and (missing := [query for query in queries.ids if query not in pools]):
        raise FileUnusable(
            f"{len(missing)} queries have no pool ({', '.join(missing[:5])}); give queries that have one"
        )
    found: dict[str, Prediction] = {}
    for start in range(0, len(queries.ids), QUERIES_AT_ONCE):
        ids = queries.ids[start : start + QUERIES_AT_ONCE]
        pooled = {one: tuple(pools[one]) for one in ids} if pools else _nearest(queries, candidates, ids, pool_size)
        found |= _predict(selector, queries, candidates, pooled, shots=shots)
    return found


def _predict(
    selector: PointerSelector,
    queries: EmbeddingBank,
    candidates: EmbeddingBank,
    pools: Mapping[str, tuple[str, ...]],
    *,
    shots: int,
) -> dict[str, Prediction]:
    longest = max(map(len, pools.values()))
    rows, usable = (
        torch.zeros(len(pools), longest, dtype=torch.long),
        torch.zeros(len(pools), longest, dtype=torch.bool),
    )
    for number, (query, pool) in enumerate(pools.items()):
        if len(pool) < shots:
            raise PoolTooSmall(
                f"query {query}: {len(pool)} candidates for {shots} shots; lower --shots or widen the pool"
            )
        rows[number, : len(pool)] = torch.tensor(candidates.positions(pool))
        usable[number, : len(pool)] = True
    drawn = selector.beam(queries.rows(list(pools)), candidates.vectors[rows], shots=shots, width=1, usable=usable)
    pointers, totals = drawn.pointers[:, 0].tolist(), drawn.log_probs[:, 0].sum(-1).tolist()
    return {
        query: Prediction(tuple(pointer), tuple(pool[at] for at in pointer), total)
        for (query, pool), pointer, total in zip(pools.items(), pointers, totals, strict=True)
    }


def _nearest(
    queries: EmbeddingBank, candidates: EmbeddingBank, ids: Sequence[str], size: int
) -> dict[str, tuple[str, ...]]:
    """One candidate more than wanted is looked up, since a query may be among them."""
    similar = queries.rows(ids) @ candidates.vectors.mT
    best = similar.topk(min(size + 1, len(candidates.ids)), dim=-1).indices.tolist()
    return {
        query: tuple(name for row in rows if (name := candidates.ids[row]) != query)[:size]
        for query, rows in zip(ids, best, strict=True)
    }
