"""Candidate pools: which train items a query may be shown, by each of the four samplers.

A query's pool depends on the query, the candidates and the seed alone: not on the other queries, nor on the order of
the dataset. A query is never its own candidate, by id; another question about the same picture may be one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from storage.artifacts import Artifacts
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall
from tasks.lever.lever_records import Dataset, Embedded, Pools, Sampler

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]

SCORES_AT_ONCE = 8_000_000
"""Similarities in memory: 64 MB, however many candidates there are."""
CANDIDATES_AT_ONCE = 8_192
DECIMALS = 9
"""Sums of products of fp32 numbers differ in the 16th with the shape of the matrices; equal ones must stay equal."""


Banks = Mapping[str, EmbeddingBank]
"""`images` and `texts` alone, from which similarity is computed; those that a sampler does not need may be missing."""


def build(
    dataset: Dataset, embedded: Embedded, artifacts: Artifacts, *, sampler: Sampler, size: int, seed: int
) -> Pools:
    """Pools of the train, validation and test queries from the train items.

    Raises PoolTooSmall, FileUnusable for an id without an embedding.
    """
    refs = {
        "images": embedded.images if sampler in ("ImgSimSampler", "MixSampler") else None,
        "texts": embedded.texts if sampler in ("TextSimSampler", "MixSampler") else None,
    }
    banks = {name: EmbeddingBank.from_bytes(artifacts.get(ref)) for name, ref in refs.items() if ref}
    queries = [*dataset.train_queries, *(item.id for item in (*dataset.validation, *dataset.test))]
    candidates = [item.id for item in dataset.train]
    return draw_pools(queries, candidates, banks, sampler=sampler, size=size, seed=seed)


def draw_pools(
    queries: Sequence[str], candidates: Sequence[str], banks: Banks, *, sampler: Sampler, size: int, seed: int
) -> Pools:
    """`size` candidates of each query: the most similar ones first, or in the order in which they were drawn.

    TextSimSampler and ImgSimSampler take the largest inner products, of equal ones the smaller id. MixSampler takes a
    quarter by text, as many more by image, and fills up at random: half of the pool, or what is left.
    Raises PoolTooSmall, FileUnusable for an id without an embedding.
    """
    ids = sorted(candidates)  # the order of the dataset does not matter, and the smaller id wins
    row = {name: number for number, name in enumerate(ids)}
    own = np.array([row.get(query, -1) for query in queries], np.int64)  # (Q,) row of the query; -1: no candidate
    for query, at in zip(queries, own, strict=True):
        if (others := len(ids) - (at >= 0)) < size:
            raise PoolTooSmall(
                f"query {query}: {others} candidates besides itself, a pool of {size} was asked for; "
                "ask for smaller pools or use more train items"
            )

    def similar(of_what: str, count: int) -> list[list[int]]:
        if (bank := banks.get(of_what)) is None:
            raise FileUnusable(
                f"similar candidates need the embeddings of the {of_what} alone; export them, or use RandSampler"
            )
        return most_similar(bank.rows(queries).numpy(), bank.rows(ids).numpy(), own=own, count=count).tolist()

    drawn = (_random(one, int(at), len(ids), size=size, seed=seed) for one, at in zip(queries, own, strict=True))
    match sampler:
        case "RandSampler":
            chosen = drawn
        case "TextSimSampler":
            chosen = similar("texts", size)
        case "ImgSimSampler":
            chosen = similar("images", size)
        case "MixSampler":
            quarter = size // 4
            by_text, by_image = similar("texts", quarter), similar("images", 2 * quarter)  # half may be taken already
            chosen = (_mixed(*rows, quarter=quarter) for rows in zip(by_text, by_image, drawn, strict=True))
    pools = {query: tuple(ids[row] for row in rows) for query, rows in zip(queries, chosen, strict=True)}
    return Pools(sampler=sampler, size=size, seed=seed, pools=pools)


def generator_of(query: str, *, seed: int, purpose: str) -> np.random.Generator:
    """The random generator of one query: its draws do not depend on the other queries."""
    name = f"{purpose}\0{seed}\0{query}".encode("utf-8", "surrogatepass")
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest()))


def most_similar(queries: Vectors, candidates: Vectors, *, own: Rows, count: int) -> Rows:
    """(Q, count) rows of the largest inner products, largest first; of equal ones the earlier row.

    queries: (Q, d); candidates: (N, d), N > count; own: (Q,) row of the query among them, which is left out, or -1.
    """
    found = np.empty((len(queries), count), np.int64)
    distinct, place = _distinct(candidates)
    step = max(1, SCORES_AT_ONCE // len(candidates))
    for start in range(0, len(queries), step):
        scores = _inner_products(queries[start : start + step], distinct)[:, place]  # (step, N)
        mine = own[start : start + step]
        there = np.flatnonzero(mine >= 0)
        scores[there, mine[there]] = -np.inf
        for number, row in enumerate(scores):
            found[start + number] = _largest(row, count)
    return found


def _mixed(by_text: list[int], by_image: list[int], drawn: list[int], *, quarter: int) -> list[int]:
    """As many as were drawn, each once; what was drawn twice is replaced by what was drawn next."""
    taken = dict.fromkeys(by_text)
    taken |= dict.fromkeys([row for row in by_image if row not in taken][:quarter])
    return [*taken, *(row for row in drawn if row not in taken)][: len(drawn)]


def _random(query: str, own: int, count: int, *, size: int, seed: int) -> list[int]:
    """`size` of `count` rows, uniformly and without replacement, never `own`."""
    rng = generator_of(query, seed=seed, purpose="pool")
    drawn = rng.choice(count - (own >= 0), size, replace=False)
    return (drawn + (drawn >= own) if own >= 0 else drawn).tolist()


def _distinct(vectors: Vectors) -> tuple[Vectors, Rows]:
    """Each vector once, and the place of every row among them: equal questions then have equal scores to the bit."""
    places: dict[bytes, int] = {}
    place = np.array([places.setdefault(row.tobytes(), len(places)) for row in vectors], np.int64)
    _, first = np.unique(place, return_index=True)
    return vectors[first], place


def _inner_products(queries: Vectors, candidates: Vectors) -> NDArray[np.float64]:
    """(Q, N), in double precision and rounded, some candidates at a time."""
    exact = queries.astype(np.float64)
    blocks = (candidates[at : at + CANDIDATES_AT_ONCE] for at in range(0, len(candidates), CANDIDATES_AT_ONCE))
    return np.round(np.concatenate([exact @ block.astype(np.float64).T for block in blocks], axis=1), DECIMALS)


def _largest(scores: NDArray[np.float64], count: int) -> Rows:
    if count == 0:
        return np.empty(0, np.int64)
    least = np.partition(scores, -count)[-count]
    enough = np.flatnonzero(scores >= least)
    return enough[np.argsort(-scores[enough], kind="stable")][:count]
