"""Lever-Plus's datasets give labels that are positions in the pool beside them, and refuse what they cannot place."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tasks.lever import (
    BeamDataset,
    BeamDatasetWithEmbedding,
    RLBeamDatasetWithEmbedding,
    collate_fn_v3,
    split_beam_data,
)
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, RewardUnusable
from tests.lever.seed_world import D, K, record, rows

OLD = {
    "0": {"id_list": [[7, 8, 0], [9, 7, 0]], "score_list": [0.5, 0.25]},
    "1": {"id_list": [[8, 9, 1]], "score_list": [1]},
}


def test_beams_of_the_old_format_point_into_all_candidates() -> None:
    dataset = BeamDatasetWithEmbedding(OLD, None, rows(2, D), rows(3, D), [9, 8, 7])
    assert dataset[0]["beam_labels"].tolist() == [[2, 1], [0, 2]]
    assert dataset[0]["beam_rewards_raw"].tolist() == [0.5, 0.25]
    assert dataset[0]["cand_emb"].shape == (3, D)
    batch = collate_fn_v3([dataset[0], dataset[1]])
    assert batch["beam_labels"].tolist() == [[[2, 1], [0, 2]], [[1, 0], [1, 0]]]
    assert batch["judged"].tolist() == [[True, True], [True, False]]


def test_beams_of_the_new_format_point_into_their_own_pool() -> None:
    new = {"0": {"candidate_pool_ids": ["8", "9"], "pointer_candidates": [{"pointer": [1, 0], "beam_score": 0.5}]}}
    candidates = rows(3, D)
    item = BeamDatasetWithEmbedding(new, None, rows(1, D), candidates, ["7", "8", "9"])[0]
    assert item["beam_labels"].tolist() == [[1, 0]]
    assert torch.equal(item["cand_emb"], candidates[1:])


def test_beams_come_with_the_querys_picture_and_question() -> None:
    index = [{"image": "picture 0", "question": "What?"}, {"image": "picture 1", "question": "Who?"}]
    dataset = BeamDataset(OLD, index, beam_size=1)
    assert dataset[1]["query_input"] == {"images": "picture 1", "text": "Who?"}
    assert dataset[0]["icd_indices"] == [7, 8]
    batch = collate_fn_v3([dataset[0], dataset[1]], processor=lambda **said: said)
    assert batch["beam_labels"].tolist() == [[[7, 8]], [[8, 9]]]
    assert batch["query_input"]["text"] == ["What?", "Who?"]


def test_judged_groups_point_into_the_pools_that_lever_plus_cut_out() -> None:
    pools = rows(2, K, D)
    data = {"1": {"pointer_candidates": [record([4, 0]), record([0, 4], 0, 0.3)]}}
    item = RLBeamDatasetWithEmbedding(data, rows(2, D), pools, [], shot_num=2)[0]
    assert torch.equal(item["cand_emb"], pools[1])
    assert item["beam_rewards_raw"].tolist() == pytest.approx([1.9, 0.3])
    assert item["query_id"] == 1


def test_embeddings_may_be_looked_up_by_id() -> None:
    data = {"q": {"candidate_pool_ids": ["a", "b"], "pointer_candidates": [record([1, 0])]}}
    vectors = rows(3, D)
    item = RLBeamDatasetWithEmbedding(data, {"q": vectors[2]}, vectors[:2], ["b", "a"])[0]
    assert torch.equal(item["cand_emb"], vectors[[1, 0]])
    assert torch.equal(item["query_emb"], vectors[2])
    assert item["query_id"] == "q"


def test_what_nobody_could_judge_is_left_out() -> None:
    failed = {"pointer": [1, 0], "gen_method": "random", "status": "eval_failed", "reason": "away"}
    data = {"0": {"pointer_candidates": [record([0, 1]), failed]}, "1": {"pointer_candidates": [failed]}}
    dataset = RLBeamDatasetWithEmbedding(data, rows(2, D), rows(3, D), [7, 8, 9])
    assert len(dataset) == 1
    assert dataset[0]["beam_labels"].tolist() == [[0, 1]]


def test_rewards_follow_the_mode_and_can_be_normalised() -> None:
    data = {"0": {"pointer_candidates": [record([0, 1], 1, 0.9), record([1, 0], 0, 0.3)]}}
    item = RLBeamDatasetWithEmbedding(
        data, rows(1, D), rows(2, D), [7, 8], reward_mode="hard_only", normalize_rewards=True
    )[0]
    assert item["beam_rewards_raw"].tolist() == [1.0, 0.0]
    torch.testing.assert_close(item["beam_rewards"], torch.tensor([1.0, -1.0]) / math.sqrt(2))


BAD = [
    pytest.param([record([0, 3])], PointerUnusable, r"query 0: pointer \[0, 3\] leaves its pool of 3", id="outside"),
    pytest.param(
        [record([0, 1], vqa_correct=None)], RewardUnusable, r"query 0: `pointer_candidates\[0\]`", id="not judged"
    ),
]


@pytest.mark.parametrize(("records", "error", "said"), BAD)
def test_a_bad_record_is_an_error_that_names_it(records: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        RLBeamDatasetWithEmbedding({"0": {"pointer_candidates": records}}, rows(1, D), rows(3, D), [7, 8, 9])


@pytest.mark.parametrize(
    ("queries", "candidates", "indices", "error", "said"),
    [
        pytest.param({0: rows(D)}, rows(3, D), [7, 8, 9], FileUnusable, "no embedding for query 1", id="query"),
    ],
)
def test_an_embedding_that_is_missing_is_an_error(
    queries, candidates, indices, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        [BeamDatasetWithEmbedding(OLD, None, queries, candidates, indices)[place] for place in range(2)]


def test_the_first_queries_by_number_are_for_training() -> None:
    train, validation = split_beam_data({key: {} for key in ("10", "9", "x", "2", "30")}, train_ratio=0.6)
    assert (train, validation) == ({"10": {}, "9": {}, "2": {}}, {"x": {}, "30": {}})
