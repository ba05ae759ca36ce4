from __future__ import annotations

import numpy as np
import pytest

from tasks.rag.fusion import maximal_marginal_relevance, reciprocal_rank_fusion


def test_a_row_gets_its_weighted_reciprocal_rank_from_each_ranking() -> None:
    fused = reciprocal_rank_fusion({"dense": [4, 9], "bm25": [9]}, weights={"bm25": 0.5})
    assert [one.row for one in fused] == [9, 4]
    assert [one.score for one in fused] == pytest.approx([1 / 62 + 0.5 / 61, 1 / 61])
    assert fused[0].ranks == {"dense": 2, "bm25": 1}


def test_equal_sums_stand_in_row_order() -> None:
    assert [one.row for one in reciprocal_rank_fusion({"a": [8, 2], "b": [2, 8]}, weights={})] == [2, 8]


def test_a_weight_of_zero_takes_away_a_rankings_say() -> None:
    fused = reciprocal_rank_fusion({"dense": [1, 2], "bm25": [2, 1]}, weights={"bm25": 0})
    assert [one.row for one in fused] == [1, 2]


def test_no_rankings_give_no_rows() -> None:
    assert reciprocal_rank_fusion({}, weights={}) == []


# two that say the same, and one that says something else
RELEVANCE = np.array([0.9, 0.9, 0.8], np.float32)
VECTORS = np.array([[1, 0], [1, 0], [0, 1]], np.float32)


def test_what_repeats_gives_way_to_what_is_new() -> None:
    chosen = maximal_marginal_relevance(RELEVANCE, VECTORS, count=3, trade_off=0.7)
    assert [one.position for one in chosen] == [0, 2, 1]
    assert [one.score for one in chosen] == pytest.approx([0.63, 0.56, 0.63 - 0.3])


def test_relevance_alone_keeps_the_order() -> None:
    assert [one.position for one in maximal_marginal_relevance(RELEVANCE, VECTORS, count=2, trade_off=1)] == [0, 1]


def test_opposites_are_preferred_to_what_is_merely_unrelated() -> None:
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    relevance = np.array([0.5, 0.1, 0.1], np.float32)
    assert [one.position for one in maximal_marginal_relevance(relevance, vectors, count=2, trade_off=0.5)] == [0, 2]
