"""Candidate pools: which train items a query may be shown, by each sampler: ours, and the four of Lever-Plus.

A query's pool depends on the query, the candidates and the seed alone: not on the other queries, nor on the order of
the dataset. A query is never its own candidate, by id; another question about the same picture may be one.

Leaks are left out before: training items that are validation or test items again, by picture, words or vectors. Splits
of official files are parted by the number of a picture alone, and files of one's own as they are: the same picture may
have two numbers, or be saved a second time. Whoever is examined on what may be shown learns nothing of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.artifacts import Artifacts
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.lever_errors import DatasetUnusable, FileUnusable, PoolTooSmall
from tasks.lever.lever_records import Dataset, Embedded, Item, PoolRecipe, Pools, VqaItem

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
"""Embeddings by name: `joint`, `images` and `texts`, as far as there are any, and `visible`, which a selector reads."""


def read_banks(embedded: Embedded, artifacts: Artifacts) -> dict[str, Pair]:
    """Read the embeddings of a dataset from the store by name, those of images or texts only where it has any."""
    refs = {
        "visible": embedded.visible_banks,
        "joint": (embedded.queries, embedded.candidates),
        "images": (embedded.images, embedded.images),
        "texts": (embedded.texts, embedded.texts),
    }
    banks = {ref: EmbeddingBank.from_bytes(artifacts.get(ref)) for pair in refs.values() for ref in pair if ref}
    return {
        name: (banks[of_queries], banks[of_candidates])
        for name, (of_queries, of_candidates) in refs.items()
        if of_queries and of_candidates
    }


def draw_pools(
    queries: Sequence[str], candidates: Sequence[str], banks: Banks, *, recipe: PoolRecipe, seed: int
) -> Pools:
    """Draw the candidates of each query: the most similar ones first, or in the order in which they were drawn.

    RetrievalSampler takes the nearest by each modality in turn, and fills up with a share of others at random.
    TextSimSampler and ImgSimSampler take the largest inner products, of equal ones the smaller id. MixSampler takes a
    quarter by text, as many more by image, and fills up at random: half of the pool, or what is left.
    Raises PoolTooSmall, and FileUnusable for an id without an embedding and where the sampler lacks embeddings.
    """
    size = recipe.size
    ids, own = _locate_queries(queries, candidates, size)

    def read_vectors(bank_name: str) -> tuple[Vectors, Vectors]:
        """Return vectors (Q, d) of the queries and (N, d) of the candidates. Raises FileUnusable without the bank."""
        if bank_name not in banks:
            raise FileUnusable(
                f"similar candidates need the embeddings of the {bank_name} alone; export them, or use RandSampler"
            )
        of_queries, of_candidates = banks[bank_name]
        return of_queries.rows(queries).numpy(), of_candidates.rows(ids).numpy()

    def rank_similar(bank_name: str, count: int) -> list[list[int]]:
        return find_most_similar(*read_vectors(bank_name), own=own, count=count).tolist()

    def rank_by_modality(modality: str, count: int) -> list[list[int]]:
        """Return the rows of the `count` candidates nearest to each query, near ties decided by the joint vectors."""
        if modality == "joint":
            return rank_similar(modality, count)
        stacked = (
            np.hstack([alone, TIE * joint])
            for alone, joint in zip(read_vectors(modality), read_vectors("joint"), strict=True)
        )
        return find_most_similar(*stacked, own=own, count=count).tolist()

    near_count = size  # candidates that are near; the others are drawn at random
    match recipe.sampler:
        case "RetrievalSampler":
            if not recipe.modalities:  # where none of those of a checkpoint is here
                raise FileUnusable("no embedding by which candidates are near is here; export it, or use RandSampler")
            near_count -= round(size * recipe.others)
            rankings = [rank_by_modality(modality, near_count) for modality in recipe.modalities]
        case "RandSampler":
            rankings = []
        case "TextSimSampler":
            rankings = [rank_similar("texts", size)]
        case "ImgSimSampler":
            rankings = [rank_similar("images", size)]
        case "MixSampler":
            near_count = 2 * (size // 4)
            by_image = rank_similar("images", near_count)  # half of these may be among those by text
            rankings = [
                [[*text, *image] for text, image in zip(rank_similar("texts", size // 4), by_image, strict=True)]
            ]
    picks = list[list[int]]()
    for number, (query, own_row) in enumerate(zip(queries, own, strict=True)):
        # the first of each ranking, then the second, each once; then what was drawn
        in_turn = chain.from_iterable(zip(*(ranking[number] for ranking in rankings), strict=True))
        nearest = list(dict.fromkeys(in_turn))[:near_count]
        drawn = _draw_rows(query, int(own_row), len(ids), size=size, seed=seed) if len(nearest) < size else []
        picks.append(list(dict.fromkeys([*nearest, *drawn]))[:size])
    pools = {query: tuple(ids[row] for row in rows) for query, rows in zip(queries, picks, strict=True)}
    return Pools(recipe=recipe, seed=seed, pools=pools)


def find_nearest(
    queries: Sequence[str], candidates: Sequence[str], vectors: Pair, *, count: int
) -> dict[str, tuple[str, ...]]:
    """Return, by query, the ids of the `count` candidates with the largest inner products, largest first, ties by id.

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
                f"query {query}: {eligible} candidates besides itself, and {size} are wanted; lower `pool_size` or the "
                "shots, or use more train items"
            )
    return ids, own


def generator_of(query: str, *, seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one query, seed and purpose, whose draws do not depend on the other queries."""
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
    """Draw `size` of `count` rows uniformly and without replacement, never `own`; -1: none is left out."""
    rng = generator_of(query, seed=seed, purpose="pool")
    drawn = rng.choice(count - (own >= 0), size, replace=False)
    # rows from `own` on move up by one: the others stay equally likely, and `own` is never drawn
    return (drawn + (drawn >= own) if own >= 0 else drawn).tolist()


EXAMPLES = 3
"""Leaks that a report names."""
SUSPECTS = 5
"""Nearest examined items that are compared with a training item in full."""
SUSPICIOUS = 0.9
"""Cosine of vectors from which two items are compared in full."""
SAME_VECTOR = 0.9999
"""Cosine from which two items are the same to the encoder."""
SIDE, SAME_LOOK = 16, 0.2
"""Rows and columns of the small copies in which pictures are compared, and the share of their contrast that may differ:
of 1,040 copies that were saved anew, resized or made brighter 99 % differ in less, of 5,028 pairs of others none."""
SAME_WORDS = 0.9
"""Share of words that two texts have in common to be the same."""
_WORD = re.compile(r"\w+")


class Leak(NamedTuple):
    """An examined item that a training item is again, and by what."""

    examined: str
    by: str
    """`picture` (the same bytes), `look` (of small copies), `text`, or `embedding`."""


def find_leaks(dataset: Dataset, banks: Banks) -> dict[str, Leak]:
    """Return the leak of each training item that has one, by its id; without vectors only equal pictures or words."""
    examined = (*dataset.validation, *dataset.test)
    first_with = {_content_of(item): item.id for item in reversed(examined)}
    leaks = {
        item.id: Leak(first_with[content], "picture" if isinstance(item, VqaItem) else "text")
        for item in dataset.train
        if (content := _content_of(item)) in first_with
    }
    by_id = {item.id: item for item in examined}
    for item, nearest in _suspects([item for item in dataset.train if item.id not in leaks], examined, banks):
        for name, cosine in nearest.items():
            if by := _likeness(item, by_id[name], cosine):
                leaks[item.id] = Leak(name, by)
                break
    return leaks


def without_leaks(dataset: Dataset, leaks: Mapping[str, Leak]) -> Dataset:
    """Return the dataset with leaks in `left_out`, not shown, no queries. Raises DatasetUnusable if nothing is left."""
    reasons = {name: f"it is {leak.examined} of validation or test again, by {leak.by}" for name, leak in leaks.items()}
    parted = dataset.model_copy(
        update={
            "shown": tuple(name for name in dataset.candidates if name not in leaks),
            "train_queries": tuple(name for name in dataset.train_queries if name not in leaks),
            "left_out": dataset.left_out | reasons,
        }
    )
    if not parted.shown or not parted.train_queries:
        raise DatasetUnusable(
            f"all training items ({len(dataset.candidates)}) are validation or test items again: "
            f"{describe_leaks(leaks)}; give others"
        )
    return parted


def describe_leaks(leaks: Mapping[str, Leak]) -> str:
    """Describe in words how many items leaked, by what, most first, and the first EXAMPLES of them."""
    kinds = ", ".join(f"{count} by {by}" for by, count in Counter(leak.by for leak in leaks.values()).most_common())
    examples = ", ".join(f"{name} is {leak.examined}" for name, leak in islice(leaks.items(), EXAMPLES))
    return f"{kinds} ({examples}{', …' if len(leaks) > EXAMPLES else ''})"


def _content_of(item: Item) -> str:
    """Return the digest of a picture, or the words of a text, which is returned itself where it has none."""
    return item.image_sha256 if isinstance(item, VqaItem) else " ".join(_words(item.text)) or item.text


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _suspects(train: Sequence[Item], examined: Sequence[Item], banks: Banks) -> list[tuple[Item, dict[str, float]]]:
    """Return training items with cosines of up to `SUSPECTS` near examined ids, nearest first; none without vectors."""
    bank_name = "images" if examined and isinstance(examined[0], VqaItem) else "texts"
    if bank_name not in banks or not train:
        return []
    bank = banks[bank_name][1]
    rows, targets = (bank.rows([item.id for item in items]).numpy() for items in (train, examined))
    nearest = find_most_similar(
        rows, targets, own=np.full(len(train), -1), count=min(SUSPECTS, len(examined))
    )  # (N, suspects)
    cosines = np.einsum("nd,nsd->ns", rows, targets[nearest])
    return [
        (
            item,
            {examined[at].id: float(cosine) for at, cosine in zip(places, values, strict=True) if cosine >= SUSPICIOUS},
        )
        for item, places, values in zip(train, nearest, cosines, strict=True)
        if values.max() >= SUSPICIOUS
    ]


def _likeness(item: Item, examined: Item, cosine: float) -> str | None:
    """Return by what two items with near vectors are the same, or None."""
    if isinstance(item, VqaItem) and isinstance(examined, VqaItem):
        own, other = _shrink(item.image).astype(np.float64), _shrink(examined.image).astype(np.float64)
        rest = own - other * ((own * other).sum() / max(1.0, np.square(other).sum()))  # one may be the brighter
        # not ≤: plain grounds have no contrast, and nothing to be known by
        if np.square(rest).mean() < SAME_LOOK**2 * np.square(own - own.mean((0, 1))).mean():
            return "look"
    elif not isinstance(item, VqaItem) and not isinstance(examined, VqaItem):
        own, other = {*_words(item.text)}, {*_words(examined.text)}
        if len(own & other) >= SAME_WORDS * len(own | other):
            return "text"
    return "embedding" if cosine >= SAME_VECTOR else None


@cache
def _shrink(path: str) -> NDArray[np.uint8]:
    """Return a small copy of a picture, (SIDE, SIDE, 3)."""
    from PIL import Image as Decoder

    with Decoder.open(Path(path)) as picture:
        return np.asarray(picture.convert("RGB").resize((SIDE, SIDE), Decoder.Resampling.BOX))
