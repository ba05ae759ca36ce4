"""Which candidates a query gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.lever.data import candidate_pools as module
from tasks.lever.data.candidate_pools import draw_pools, find_most_similar
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_records import Modality, PoolRecipe, Sampler
from tests.lever.small_dataset import bank

IDS = [f"c{number:02d}" for number in range(40)]
SAMPLERS: list[Sampler] = ["RetrievalSampler", "RandSampler", "TextSimSampler", "ImgSimSampler", "MixSampler"]


def circle(ids: list[str], turn: float = 0.0) -> dict[str, list[float]]:
    """Unit vectors around a quarter of a circle: neighbours by number are the most similar."""
    angles = [turn + np.pi / 2 * at / len(ids) for at in range(len(ids))]
    return {name: [float(np.cos(angle)), float(np.sin(angle))] for name, angle in zip(ids, angles, strict=True)}


def both(one: EmbeddingBank) -> tuple[EmbeddingBank, EmbeddingBank]:
    """The vectors of queries and of candidates."""
    return one, one


BANKS = {
    "joint": both(bank(circle(IDS))),
    "images": both(bank(circle(IDS))),
    "texts": both(bank(circle(IDS[::-1]))),
}


def recipe(sampler: Sampler, size: int, *, others: float = 0.25, modalities: Sequence[Modality] = ()) -> PoolRecipe:
    if sampler == "RetrievalSampler":
        modalities = modalities or ("joint", "images", "texts")
    return PoolRecipe(sampler=sampler, size=size, others=others, modalities=tuple(modalities))


def draw(
    sampler: Sampler, queries: list[str] = IDS, *, size: int = 16, seed: int = 0, **how: Any
) -> dict[str, tuple[str, ...]]:
    return draw_pools(queries, IDS, BANKS, recipe=recipe(sampler, size, **how), seed=seed).pools


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_query_is_its_own_candidate_and_none_comes_twice(sampler: Sampler) -> None:
    for query, pool in draw(sampler).items():
        assert query not in pool
        assert len(set(pool)) == len(pool) == 16
        assert set(pool) <= set(IDS)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_pool_depends_neither_on_other_queries_nor_on_the_order_of_candidates(sampler: Sampler) -> None:
    alone = draw_pools(["c07"], IDS[::-1], BANKS, recipe=recipe(sampler, 16), seed=0).pools
    assert alone["c07"] == draw(sampler)["c07"]


def test_a_mix_is_a_quarter_by_text_a_quarter_by_image_and_random_for_the_rest() -> None:
    pool = draw("MixSampler", ["c00"], size=16)["c00"]
    by_image, by_text = draw("ImgSimSampler", ["c00"])["c00"], draw("TextSimSampler", ["c00"])["c00"]
    assert pool[:4] == by_text[:4]
    assert pool[4:8] == tuple(name for name in by_image if name not in by_text[:4])[:4]
    drawn = [name for name in draw("RandSampler", ["c00"], size=16)["c00"] if name not in pool[:8]]
    assert pool[8:] == tuple(drawn[:8])


def test_retrieved_pools_are_the_nearest_by_each_modality_in_turn_and_a_share_of_others() -> None:
    pool = draw("RetrievalSampler", ["c00"], size=12, modalities=("images", "texts"))["c00"]
    by_image, by_text = draw("ImgSimSampler", ["c00"])["c00"], draw("TextSimSampler", ["c00"])["c00"]
    # both rank alike here: neighbours by number come first, each once
    assert by_image[:9] == by_text[:9]
    assert pool[:9] == by_image[:9]
    drawn = [name for name in draw("RandSampler", ["c00"], size=12)["c00"] if name not in pool[:9]]
    assert pool[9:] == tuple(drawn[:3])


def test_a_recipe_is_told_and_compared_as_far_as_it_is_known() -> None:
    one = recipe("RetrievalSampler", 32)
    assert one.description == "pools of 32 by RetrievalSampler (joint + images + texts, 25% others)"
    assert recipe("RandSampler", 0, others=0).description == "pools of unknown size by RandSampler"
    assert one.matches(one)
    assert not one.matches(recipe("RetrievalSampler", 32, modalities=("joint",)))
    assert recipe("RandSampler", 0).matches(recipe("RandSampler", 64))
    assert recipe("RandSampler", 64).matches(recipe("RandSampler", 0))
    assert not recipe("RandSampler", 0).matches(one)


@pytest.mark.parametrize(("query", "size"), [("c00", 40), ("new", 41)], ids=["a candidate itself", "no candidate"])
def test_a_pool_larger_than_the_candidates_is_refused(query: str, size: int) -> None:
    said = f"query {query}: {size - 1} candidates besides itself, and {size} are wanted; lower `pool_size`"
    with pytest.raises(PoolTooSmall, match=said):
        draw_pools([query], IDS, BANKS, recipe=recipe("RandSampler", size), seed=0)


@given(st.integers(0, 2**32 - 1))
def test_what_is_most_similar_is_exact_however_it_is_looked_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # few distinct values: many ties
    candidates = rng.integers(-1, 2, (30, 3)).astype(np.float32)
    queries, own = rng.integers(-1, 2, (9, 3)).astype(np.float32), rng.integers(-1, 30, 9)
    scores = queries.astype(np.float64) @ candidates.T.astype(np.float64)
    expected = [
        sorted((at for at in range(30) if at != mine), key=lambda at: (-row[at], at))[:7]
        for row, mine in zip(scores, own, strict=True)
    ]
    assert find_most_similar(queries, candidates, own=own, count=7).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUERIES_AT_ONCE", 2)
        assert find_most_similar(queries, candidates, own=own, count=7).tolist() == expected
