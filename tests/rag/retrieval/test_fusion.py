from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tasks.rag.retrieval.retrievers import DEFAULTS, maximal_marginal_relevance
from tasks.rag.retrieval.search import alternate, balanced, spread
from tasks.rag.retrieval.strategies import Fused, reciprocal_rank_fusion


def test_a_row_gets_its_weighted_reciprocal_rank_from_each_ranking() -> None:
    fused = reciprocal_rank_fusion({"dense": [4, 9], "bm25": [9]}, weights={"bm25": 0.5})
    assert [one.row for one in fused] == [9, 4]
    assert [one.score for one in fused] == pytest.approx([1 / 62 + 0.5 / 61, 1 / 61])
    assert fused[0].ranks == {"dense": 2, "bm25": 1}


# two that say the same, and one that says something else
RELEVANCE = np.array([0.9, 0.9, 0.8], np.float32)
VECTORS = np.array([[1, 0], [1, 0], [0, 1]], np.float32)


def test_what_repeats_gives_way_to_what_is_new() -> None:
    chosen = maximal_marginal_relevance(RELEVANCE, VECTORS, count=3, trade_off=0.7)
    assert chosen.rows == [0, 2, 1]
    assert chosen.scores == pytest.approx([0.63, 0.56, 0.63 - 0.3])


def fused(*rows: int) -> list[Fused]:
    return [Fused(row, 1.0 - at / 100, {"words": at + 1}) for at, row in enumerate(rows)]


def rows(found: list[Fused]) -> list[int]:
    return [one.row for one in found]


def test_rankings_take_turns_and_a_row_comes_once() -> None:
    assert rows(alternate([fused(1, 2, 3), fused(9, 1), fused()], key=lambda one: one.row)) == [1, 9, 2, 3]


def below(limit: int):
    return np.arange(100) < limit


def from_on(limit: int):
    return np.arange(100) >= limit


@pytest.mark.parametrize(
    ("ranked", "count", "parts", "kept"),
    [
        ([1, 2, 3, 4, 50, 60], 4, 2, [1, 2, 50, 60]),
        ([50, 60, 70, 1], 2, 2, [50, 1]),
        ([1, 2, 3, 50], 3, 3, [1, 2, 50]),
        ([1, 2, 3], 2, 2, [1, 2]),
        ([1, 50, 2, 60], 1, 2, [1]),
    ],
    ids=["halves", "the weaker side is last", "a part is free", "a side holds nothing", "fewer hits than sides"],
)
def test_each_side_of_a_comparison_has_its_share(ranked: list[int], count: int, parts: int, kept: list[int]) -> None:
    assert rows(balanced(fused(*ranked), [below(10), from_on(10)], count, parts=parts)) == kept


@pytest.mark.parametrize(
    ("ranked", "most", "kept"),
    [([1, 2, 3, 50, 90], 1, [1, 50, 90]), ([1, 2, 3, 50], 1, [1, 2, 50]), ([1, 2, 3], 2, [1, 2, 3])],
    ids=["three documents", "two: the best of the rest", "one: nothing is lost"],
)
def test_no_document_takes_more_than_its_share_while_there_are_others(
    ranked: list[int], most: int, kept: list[int]
) -> None:
    assert rows(spread(fused(*ranked), lambda one: one.row // 10, 3, most=most)) == kept


ROWS = some.lists(some.integers(0, 99), unique=True, max_size=30)


@given(ROWS, some.integers(1, 20), some.integers(1, 5))
def test_shares_drop_and_reorder_nothing_that_fits(ranked: list[int], count: int, share: int) -> None:
    found = fused(*ranked)
    for kept in (
        spread(found, lambda one: one.row // 10, count, most=share),
        balanced(found, [below(50), from_on(50)], count, parts=1 + share),
    ):
        assert len(kept) == min(count, len(found))
        assert [one for one in found if one in kept] == kept


def test_the_numbers_of_the_seed_stand() -> None:
    names = ("rrf_k", "mmr_trade_off", "mmr_pool", "bm25_top_k")
    assert [getattr(DEFAULTS, name) for name in names] == [60, 0.7, 30, 30]
    assert {DEFAULTS.similarity_weight, DEFAULTS.mmr_weight, DEFAULTS.bm25_weight} == {1.0}
