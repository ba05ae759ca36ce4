"""Candidate pools: which train items a query may be shown, by each sampler: ours, and the four of Lever-Plus.

A query's pool depends on the query, the candidates and the seed alone: not on the other queries, nor on the order of
the dataset. A query is never its own candidate, by id; another question about the same picture may be one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from storage.artifacts import Artifacts
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall
from tasks.lever.lever_records import Dataset, Embedded, PoolRecipe, Pools

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]

QUERIES_AT_ONCE = 64
"""Queries whose products with all candidates are in memory together: 225 MB for VQAv2's training questions."""
TIE = 0.03
"""Weight of the joint vector behind that of an image or question alone: of equal questions the nearer image first."""
DECIMALS = 9
"""Decimals that scores are rounded to: sums of fp32 products differ in the 16th with the shape of the matrices."""
Pair = tuple[EmbeddingBank, EmbeddingBank]
"""The vectors of the queries, and those of the candidates."""
Banks = Mapping[str, Pair]
"""Embeddings by name: `joint`, `images`, `texts` and `classes`, as far as there are any."""


def read_banks(embedded: Embedded, artifacts: Artifacts) -> dict[str, Pair]:
    """Read the embeddings of a dataset from the store, each artifact once."""
    refs = {
        "joint": (embedded.queries, embedded.candidates),
        "images": (embedded.images, embedded.images),
        "texts": (embedded.texts, embedded.texts),
        "classes": (embedded.classes, embedded.classes),
    }
    banks = {ref: EmbeddingBank.from_bytes(artifacts.get(ref)) for pair in refs.values() for ref in pair if ref}
    return {
        name: (banks[of_queries], banks[of_candidates])
        for name, (of_queries, of_candidates) in refs.items()
        if of_queries and of_candidates
    }


def draw_dataset_pools(
    dataset: Dataset, embedded: Embedded, artifacts: Artifacts, *, recipe: PoolRecipe, seed: int
) -> Pools:
    """Draw the pools of the train, validation and test queries from the train items.

    Raises PoolTooSmall, FileUnusable for an id without an embedding.
    """
    return draw_pools(dataset.queries, dataset.candidates, read_banks(embedded, artifacts), recipe=recipe, seed=seed)


def draw_pools(
    queries: Sequence[str], candidates: Sequence[str], banks: Banks, *, recipe: PoolRecipe, seed: int
) -> Pools:
    """Draw the candidates of each query: the most similar ones first, or in the order in which they were drawn.

    RetrievalSampler takes the nearest by each modality in turn, and fills up with a share of others at random.
    TextSimSampler and ImgSimSampler take the largest inner products, of equal ones the smaller id. MixSampler takes a
    quarter by text, as many more by image, and fills up at random: half of the pool, or what is left.
    Raises PoolTooSmall, FileUnusable for an id without an embedding.
    """
    size = recipe.size
    ids, own = _locate_queries(queries, candidates, size)

    def read_vectors(bank_name: str) -> tuple[Vectors, Vectors]:
        if bank_name not in banks:
            raise FileUnusable(
                f"similar candidates need the embeddings of the {bank_name} alone; export them, or use RandSampler"
            )
        of_queries, of_candidates = banks[bank_name]
        return of_queries.rows(queries).numpy(), of_candidates.rows(ids).numpy()

    def rank_similar(bank_name: str, count: int) -> list[list[int]]:
        return find_most_similar(*read_vectors(bank_name), own=own, count=count).tolist()

    def rank_by_modality(modality: str, count: int) -> list[list[int]]:
        if modality == "joint":
            return rank_similar(modality, count)
        stacked = (
            np.hstack([alone, TIE * joint])
            for alone, joint in zip(read_vectors(modality), read_vectors("joint"), strict=True)
        )
        return find_most_similar(*stacked, own=own, count=count).tolist()

    drawn = (
        _draw_rows(query, int(own_row), len(ids), size=size, seed=seed)
        for query, own_row in zip(queries, own, strict=True)
    )
    match recipe.sampler:
        case "RetrievalSampler":
            if not recipe.modalities:  # where none of those of a checkpoint is here
                raise FileUnusable("no embedding by which candidates are near is here; export it, or use RandSampler")
            near_count = size - round(size * recipe.others)
            rankings = [rank_by_modality(modality, near_count) for modality in recipe.modalities]
            picks = list[list[int]]()
            for *ranked, more in zip(*rankings, drawn, strict=True):
                # the first of each ranking, then the second, each once; then what was drawn
                nearest = list(dict.fromkeys(chain.from_iterable(zip(*ranked, strict=True))))[:near_count]
                picks.append(list(dict.fromkeys([*nearest, *more]))[:size])
        case "RandSampler":
            picks = drawn
        case "TextSimSampler":
            picks = rank_similar("texts", size)
        case "ImgSimSampler":
            picks = rank_similar("images", size)
        case "MixSampler":
            quarter = size // 4
            by_text, by_image = rank_similar("texts", quarter), rank_similar("images", 2 * quarter)  # half may repeat
            picks = list[list[int]]()
            for text, image, more in zip(by_text, by_image, drawn, strict=True):
                similar_rows = dict.fromkeys([*text, *[row for row in image if row not in text][:quarter]])
                # what was drawn twice is replaced by what was drawn next
                picks.append([*similar_rows, *(row for row in more if row not in similar_rows)][:size])
    pools = {query: tuple(ids[row] for row in rows) for query, rows in zip(queries, picks, strict=True)}
    return Pools(recipe=recipe, seed=seed, pools=pools)


def find_nearest(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, count: int
) -> dict[str, tuple[str, ...]]:
    """Return the ids of the `count` candidates with the largest inner products, largest first, ties by id.

    A query is never its own neighbour. Raises PoolTooSmall, FileUnusable for an id without a vector.
    """
    ids, own = _locate_queries(queries, candidates, count)
    nearest_rows = find_most_similar(
        vectors[0].rows(queries).numpy(), vectors[1].rows(ids).numpy(), own=own, count=count
    )
    return {query: tuple(ids[row] for row in rows) for query, rows in zip(queries, nearest_rows.tolist(), strict=True)}


def _locate_queries(queries: Sequence[str], candidates: Sequence[str], size: int) -> tuple[list[str], Rows]:
    """Return the candidates sorted by id, and the row (Q,) of each query among them or -1. Raises PoolTooSmall."""
    ids = sorted(candidates)  # the order of the dataset does not matter, and the smaller id wins
    row_of = {name: number for number, name in enumerate(ids)}
    own = np.array([row_of.get(query, -1) for query in queries], np.int64)
    for query, own_row in zip(queries, own, strict=True):
        eligible = len(ids) - (own_row >= 0)  # a query that is a candidate may not be its own
        if eligible < size:
            raise PoolTooSmall(
                f"query {query}: {eligible} candidates besides itself, a pool of {size} was asked for; "
                "ask for smaller pools or use more train items"
            )
    return ids, own


def generator_of(query: str, *, seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one query, whose draws do not depend on the other queries."""
    name = f"{purpose}\0{seed}\0{query}".encode("utf-8", "surrogatepass")  # JSON allows half a pair of surrogates
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest()))


def find_most_similar(queries: Vectors, candidates: Vectors, *, own: Rows, count: int) -> Rows:
    """Return the rows (Q, count) with the largest inner products, largest first; of equal ones the earlier row.

    queries: (Q, d); candidates: (N, d), N > count; own: (Q,) row of the query among them, which is left out, or -1.
    """
    best_rows = np.empty((len(queries), count), np.int64)
    if not count:
        return best_rows
    # each vector once, and the number of every row's vector: equal questions then have equal scores to the bit
    number_of: dict[bytes, int] = {}
    numbers = np.array([number_of.setdefault(row.tobytes(), len(number_of)) for row in candidates], np.int64)
    distinct = candidates[np.unique(numbers, return_index=True)[1]]
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        products = queries[part].astype(np.float64) @ distinct.T.astype(np.float64)
        scores = np.round(products, DECIMALS)[:, numbers]  # (q, N)
        inside = np.flatnonzero(own[part] >= 0)
        scores[inside, own[part][inside]] = -np.inf
        least = np.partition(scores, -count, axis=1)[:, -count]  # lowest score that may be among the nearest
        for number, (row, bound) in enumerate(zip(scores, least, strict=True), start):
            near = np.flatnonzero(row >= bound)
            best_rows[number] = near[np.argsort(-row[near], kind="stable")[:count]]
    return best_rows


def _draw_rows(query: str, own: int, count: int, *, size: int, seed: int) -> list[int]:
    """Draw `size` of `count` rows uniformly and without replacement, never `own`."""
    rng = generator_of(query, seed=seed, purpose="pool")
    drawn = rng.choice(count - (own >= 0), size, replace=False)
    # rows from `own` on move up by one: the others stay equally likely, and `own` is never drawn
    return (drawn + (drawn >= own) if own >= 0 else drawn).tolist()
