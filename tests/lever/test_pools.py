"""Which candidates a query gets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.artifacts import Artifacts
from tasks.lever.data import candidate_pools as module
from tasks.lever.data.candidate_pools import build, draw_pools, most_similar
from tasks.lever.data.dataset_embeddings import embed_dataset
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall
from tasks.lever.lever_records import Sampler
from tests.lever.small_dataset import ColourEncoder, bank, dataset, item, png

IDS = [f"c{number:02d}" for number in range(40)]
SAMPLERS: list[Sampler] = ["RandSampler", "TextSimSampler", "ImgSimSampler", "MixSampler"]


def circle(ids: list[str], turn: float = 0.0) -> dict[str, list[float]]:
    """Unit vectors around a quarter of a circle: neighbours by number are the most similar."""
    angles = [turn + np.pi / 2 * at / len(ids) for at in range(len(ids))]
    return {name: [float(np.cos(angle)), float(np.sin(angle))] for name, angle in zip(ids, angles, strict=True)}


BANKS = {"images": bank(circle(IDS)), "texts": bank(circle(IDS[::-1]))}


def draw(sampler: Sampler, queries: list[str] = IDS, *, size: int = 16, seed: int = 0) -> dict[str, tuple[str, ...]]:
    return draw_pools(queries, IDS, BANKS, sampler=sampler, size=size, seed=seed).pools


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_query_is_its_own_candidate_and_none_comes_twice(sampler: Sampler) -> None:
    for query, pool in draw(sampler).items():
        assert query not in pool
        assert len(set(pool)) == len(pool) == 16
        assert set(pool) <= set(IDS)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_pool_depends_neither_on_other_queries_nor_on_the_order_of_candidates(sampler: Sampler) -> None:
    alone = draw_pools(["c07"], IDS[::-1], BANKS, sampler=sampler, size=16, seed=0).pools
    assert alone["c07"] == draw(sampler)["c07"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_everything_else_can_be_the_pool(sampler: Sampler) -> None:
    assert sorted(draw(sampler, ["c00"], size=39)["c00"]) == IDS[1:]


def test_another_seed_draws_another_pool() -> None:
    assert draw("RandSampler")["c00"] == draw("RandSampler")["c00"] != draw("RandSampler", seed=1)["c00"]


def test_random_candidates_are_uniform() -> None:
    drawn = Counter(name for seed in range(1_000) for name in draw("RandSampler", ["c03"], size=10, seed=seed)["c03"])
    assert drawn["c03"] == 0
    # 39 others, each expected 256.4 times; 6 standard deviations of a binomial are 83
    assert all(abs(drawn[name] - 10_000 / 39) < 83 for name in IDS if name != "c03")


def test_similar_candidates_come_the_most_similar_first() -> None:
    assert draw("ImgSimSampler", ["c00"], size=4)["c00"] == ("c01", "c02", "c03", "c04")
    assert draw("TextSimSampler", ["c39"], size=3)["c39"] == ("c38", "c37", "c36")


def test_equally_similar_candidates_come_by_id() -> None:
    alike = {"images": bank({name: [0.6, 0.8] for name in IDS})}
    pool = draw_pools(["c01"], IDS[::-1], alike, sampler="ImgSimSampler", size=4, seed=0).pools["c01"]
    assert pool == ("c00", "c02", "c03", "c04")


def test_a_query_with_the_same_picture_is_a_candidate() -> None:
    same = {"images": bank({"q": [1, 0], "same": [1, 0], "other": [0, 1]})}
    assert draw_pools(["q"], ["q", "same", "other"], same, sampler="ImgSimSampler", size=1, seed=0).pools["q"] == (
        "same",
    )


def test_a_mix_is_a_quarter_by_text_a_quarter_by_image_and_random_for_the_rest() -> None:
    pool = draw("MixSampler", ["c00"], size=16)["c00"]
    by_image, by_text = draw("ImgSimSampler", ["c00"])["c00"], draw("TextSimSampler", ["c00"])["c00"]
    assert pool[:4] == by_text[:4]
    assert pool[4:8] == tuple(name for name in by_image if name not in by_text[:4])[:4]
    drawn = [name for name in draw("RandSampler", ["c00"], size=16)["c00"] if name not in pool[:8]]
    assert pool[8:] == tuple(drawn[:8])


@pytest.mark.parametrize(
    ("queries", "candidates", "size", "said"),
    [
        (["c00"], IDS, 40, "query c00: 39 candidates besides itself, a pool of 40"),
        (["new"], IDS, 41, "query new: 40 candidates besides itself, a pool of 41"),
    ],
    ids=["a candidate itself", "no candidate"],
)
def test_a_pool_larger_than_the_candidates_is_refused(
    queries: list[str], candidates: list[str], size: int, said: str
) -> None:
    with pytest.raises(PoolTooSmall, match=said):
        draw_pools(queries, candidates, BANKS, sampler="RandSampler", size=size, seed=0)


def test_similarity_needs_embeddings() -> None:
    with pytest.raises(FileUnusable, match="embeddings of the texts alone"):
        draw_pools(["c00"], IDS, {}, sampler="TextSimSampler", size=2, seed=0)


def test_a_query_without_a_vector_is_named() -> None:
    with pytest.raises(FileUnusable, match="stranger"):
        draw_pools(["stranger"], IDS, BANKS, sampler="ImgSimSampler", size=2, seed=0)


@given(st.integers(0, 2**32 - 1))
def test_blocks_do_not_change_what_is_most_similar(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # few distinct values: many ties
    candidates = rng.integers(-1, 2, (30, 3)).astype(np.float32)
    queries, own = rng.integers(-1, 2, (9, 3)).astype(np.float32), rng.integers(-1, 30, 9)
    scores = queries.astype(np.float64) @ candidates.T.astype(np.float64)
    expected = [
        sorted((at for at in range(30) if at != mine), key=lambda at: (-row[at], at))[:7]
        for row, mine in zip(scores, own, strict=True)
    ]
    assert most_similar(queries, candidates, own=own, count=7).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCORES_AT_ONCE", 61)
        patch.setattr(module, "CANDIDATES_AT_ONCE", 4)
        assert most_similar(queries, candidates, own=own, count=7).tolist() == expected


def test_pools_of_a_dataset_are_those_of_all_its_queries(tmp_path: Path) -> None:
    train = [item(f"t{at}", picture=png(at, 100), question="a" * at, folder=tmp_path) for at in range(1, 9)]
    asked = [item("v", picture=png(8, 100), question="b", folder=tmp_path)]
    small = dataset(train, train_queries=["t4"], validation=asked)
    store = Artifacts(tmp_path / "store")
    embedded = embed_dataset(small, ColourEncoder(), store)
    made = build(small, embedded, store, sampler="ImgSimSampler", size=2, seed=5)
    assert (made.sampler, made.size, made.seed) == ("ImgSimSampler", 2, 5)
    # the angle between [4, 100] and [5, 100] is smaller than that to [3, 100]; v has the picture of t8
    assert made.pools == {"t4": ("t5", "t3"), "v": ("t8", "t7")}
