"""Code written against Lever-Plus finds its names and parameters, and they agree with our network and readers."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import tasks.lever
from tasks.lever import (
    BeamDataset,
    BeamDatasetWithEmbedding,
    GRPOTrainer,
    PointerSelectorV3,
    RLBeamDatasetWithEmbedding,
    adaptive_kl_beta,
    beam_search_pointer,
    build_model_v3_with_adapter,
    collate_fn_rl_v3,
    collate_fn_v3,
    compute_group_relative_advantage,
    compute_kl_penalty,
    compute_reward_for_candidate,
    compute_softmax_weights,
    compute_step_logits,
    evaluate_pointer_candidate,
    generate_pointer_candidates_for_query,
    load_beam_data,
    load_v3_from_grpo_checkpoint,
    load_v3_from_sft_checkpoint,
    normalize_rewards_zscore,
    sample_pointer_with_temperature,
    split_beam_data,
)
from tasks.lever.learning.checkpoints import save_selector
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, RewardUnusable
from tests.lever.seed_files import CONFIG, lightning, save, seed_state
from tests.lever.seed_world import LABELS, POOL, QUERY, REWARDS, SMALL, D, K, model, record, rows
from tests.models.tiny_vision import make_png, make_tiny_clip

NAMES = (  # of the specification
    "PointerSelectorV3 PointerSelectorV3Config build_model_v3 build_model_v3_with_adapter BeamDataset "
    "BeamDatasetWithEmbedding RLBeamDatasetWithEmbedding collate_fn_v3 collate_fn_rl_v3 load_beam_data "
    "split_beam_data load_v3_from_grpo_checkpoint load_v3_from_sft_checkpoint predict_with_v3 compute_step_logits "
    "sample_pointer_with_temperature beam_search_pointer generate_pointer_candidates_for_query "
    "evaluate_pointer_candidate normalize_rewards_zscore compute_group_relative_advantage compute_softmax_weights "
    "compute_kl_penalty adaptive_kl_beta compute_reward_for_candidate GRPOTrainer"
)


def test_every_name_is_found_in_the_package() -> None:
    assert all(callable(getattr(tasks.lever, name)) for name in NAMES.split())
    assert set(NAMES.split()) <= set(dir(tasks.lever))


def test_the_package_alone_loads_no_torch() -> None:
    code = "import sys, tasks.lever; dir(tasks.lever); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PARAMETERS = {
    compute_reward_for_candidate: "beam_score logprob_score vqa_correct vqa_acc_score use_hard use_soft hard_weight "
    "soft_weight alpha beta correctness_mode use_logprob reward_clip",
    evaluate_pointer_candidate: "vqa_model image question candidate_pool pointer ground_truth_answers "
    "build_vqa_prompt_fn compute_vqa_accuracy_fn",
    generate_pointer_candidates_for_query: "model query_emb cand_emb num_beams temps num_samples_per_temp num_random",
    beam_search_pointer: "model query_emb cand_emb num_beams shot_num exclude_indices",
    sample_pointer_with_temperature: "model query_emb cand_emb tau exclude_indices",
    compute_step_logits: "model query_emb cand_emb selected_indices",
    RLBeamDatasetWithEmbedding: "rl_data query_embeddings candidate_embeddings candidate_indices shot_num max_beams "
    "reward_mode",
    BeamDatasetWithEmbedding: "beam_data index_ds query_embeddings candidate_embeddings candidate_indices beam_size "
    "shot_num normalize_rewards",
    BeamDataset: "beam_data index_ds beam_size shot_num query_image_field query_text_field normalize_rewards",
    PointerSelectorV3.compute_rce_loss: "self query_emb cand_emb beam_labels beam_rewards temperature use_top1_only",
    PointerSelectorV3.compute_grpo_loss: "self query_emb cand_emb beam_labels beam_rewards old_log_probs use_top_k",
    PointerSelectorV3.compute_advantage: "self rewards normalize",
    PointerSelectorV3.compute_kl_divergence: "self log_probs_new log_probs_old",
    GRPOTrainer: "model train_loader val_loader device rce_epochs rce_lr rce_temp_start rce_temp_end use_top1_only "
    "grpo_epochs grpo_lr grpo_early_epochs grpo_early_top_k grpo_late_top_k kl_target_min kl_target_max",
    GRPOTrainer.train_grpo_epoch: "self optimizer old_log_probs_dict epoch total_epochs",
    GRPOTrainer.train_rce_epoch: "self optimizer epoch total_epochs",
    adaptive_kl_beta: "current_kl current_beta kl_target_min kl_target_max adjustment_factor beta_min beta_max",
    normalize_rewards_zscore: "rewards dim eps",
    compute_group_relative_advantage: "rewards normalize clip_range",
    compute_softmax_weights: "rewards temperature",
    compute_kl_penalty: "log_probs_new log_probs_old",
    split_beam_data: "beam_data train_ratio",
    load_beam_data: "json_path",
}


@pytest.mark.parametrize("of", PARAMETERS, ids=lambda of: of.__qualname__)
def test_parameters_stand_where_lever_plus_has_them(of: Any) -> None:
    wanted = PARAMETERS[of].split()
    assert list(inspect.signature(of).parameters)[: len(wanted)] == wanted


def test_step_logits_give_the_log_probabilities_of_a_sequence() -> None:
    made = model().eval()
    first = compute_step_logits(made, QUERY[:1], POOL[:1]).log_softmax(-1)
    second = compute_step_logits(made, QUERY[:1], POOL[:1], selected_indices=[3]).log_softmax(-1)
    expected = made.log_probs(QUERY[:1], POOL[:1], torch.tensor([[[3, 1]]]))[0, 0]
    torch.testing.assert_close(torch.stack([first[3], second[1]]), expected)
    assert second[3] == -math.inf


def test_sampling_gives_distinct_positions_and_their_log_probability() -> None:
    made, generator = model().eval(), torch.Generator().manual_seed(0)
    pointer, log_prob = sample_pointer_with_temperature(
        made, QUERY[0], POOL[0], tau=1.3, exclude_indices=[0, 1], shot_num=3, generator=generator
    )
    assert sorted(pointer) == [2, 3, 4]
    assert log_prob <= 0


def test_beams_are_told_best_first_without_what_is_excluded() -> None:
    found = beam_search_pointer(model().eval(), QUERY[0], POOL[0], exclude_indices=[0, 2])
    assert [one["logprob"] for one in found] == sorted((one["logprob"] for one in found), reverse=True)
    assert not {0, 2} & {at for one in found for at in one["pointer"]}


def test_candidates_of_a_query_are_distinct_and_described() -> None:
    found = generate_pointer_candidates_for_query(
        model().eval(), QUERY[0], POOL[0], num_beams=3, exclude_indices=[1], generator=torch.Generator().manual_seed(0)
    )
    assert len(found) == len({tuple(one["pointer"]) for one in found}) == 8
    assert [one["beam_rank"] for one in found[:3]] == [0, 1, 2]
    assert all(1 not in one["pointer"] for one in found)
    assert {one["gen_method"] for one in found} <= {"beam", "sample", "random"}


class Judge:
    """Answers with the demonstrations that it was shown."""

    def generate(self, prompt: str) -> str:
        return prompt


@pytest.mark.parametrize("pointer", [[2], [2, 0], [1, 2, 0]], ids=["one", "two", "three"])
def test_a_pointer_is_judged_with_its_demonstrations_in_order(pointer: list[int]) -> None:
    pool = ["zero", "one", "two"]
    found = evaluate_pointer_candidate(
        vqa_model=Judge(),
        image=None,
        question="What?",
        candidate_pool=pool,
        pointer=pointer,
        ground_truth_answers=["yes"],
        build_vqa_prompt_fn=lambda image, question, *shown: " ".join(shown),
        compute_vqa_accuracy_fn=lambda answer, truths: (True, 1),  # pyright: ignore[reportArgumentType]
    )
    assert found == (" ".join(pool[at] for at in pointer), 1, 1.0)
    assert [type(one) for one in found] == [str, int, float]


def world(queries: int = 12) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    """RL data in which the candidates most like the query are the right ones; embeddings by row."""
    candidates, asked = rows(20, D), rows(queries, D, seed=2)
    order = torch.Generator().manual_seed(3)
    data: dict[str, Any] = {}
    for query in range(queries):
        pool = torch.randperm(20, generator=order)[:K]
        best = (candidates[pool] @ asked[query]).argsort(descending=True).tolist()
        pointers = [best[:2], best[1:3], best[2:4], best[:1:-1][:2]]
        scores = [(1, 1.0), (1, 0.6), (0, 0.3), (0, 0.0)]
        data[str(query)] = {
            "candidate_pool_ids": [f"c{row}" for row in pool.tolist()],
            "pointer_candidates": [record(one, *score) for one, score in zip(pointers, scores, strict=True)],
        }
    return data, asked, candidates


def loader(queries: int = 12, batch_size: int = 4) -> DataLoader[Any]:
    data, asked, candidates = world(queries)
    dataset = RLBeamDatasetWithEmbedding(data, asked, candidates, [f"c{row}" for row in range(20)])
    return DataLoader(dataset, batch_size=batch_size, collate_fn=collate_fn_rl_v3)


def trainer(**changes: Any) -> GRPOTrainer:
    return GRPOTrainer(model(dropout=0.0, attn_dropout=0.0), loader(), loader(), "cpu", **changes)


def best_likely(of: GRPOTrainer) -> float:
    """Mean log-probability of the best pointer of each query."""
    batch = next(iter(loader(batch_size=12)))
    log_probs = of.model.compute_log_probs_per_beam(batch["query_emb"], batch["cand_emb"], batch["beam_labels"])
    return log_probs[:, 0].mean().item()


def test_batches_carry_what_the_trainer_reads() -> None:
    batch = next(iter(loader()))
    shapes = {name: tuple(value.shape) for name, value in batch.items() if isinstance(value, torch.Tensor)}
    assert shapes == {
        "query_emb": (4, D),
        "cand_emb": (4, K, D),
        "beam_labels": (4, 4, 2),
        "beam_rewards_raw": (4, 4),
        "beam_rewards": (4, 4),
        "judged": (4, 4),
    }
    assert batch["query_id"] == [0, 1, 2, 3]
    torch.testing.assert_close(batch["beam_rewards_raw"][0], torch.tensor([2.0, 1.6, 0.3, 0.0]))


def test_rce_epochs_lower_the_loss_and_raise_the_best_pointer() -> None:
    made = trainer(rce_temp_start=1.0, rce_temp_end=1.0)
    optimizer = torch.optim.AdamW(made.model.parameters(), lr=3e-3)
    before = best_likely(made)
    found = [made.train_rce_epoch(optimizer, epoch, 6)["rce_loss"] for epoch in range(6)]
    assert found[-1] < found[0]
    assert best_likely(made) > before


def test_grpo_epochs_lower_the_loss_and_raise_the_best_pointer() -> None:
    made = trainer()
    optimizer = torch.optim.AdamW(made.model.parameters(), lr=1e-3)
    old, before = made.compute_old_log_probs(made.model), best_likely(made)
    found = [made.train_grpo_epoch(optimizer, old, epoch, 5) for epoch in range(5)]
    assert found[-1]["grpo_loss"] < found[0]["grpo_loss"]
    assert found[-1].keys() >= {"ppo_loss", "kl_loss", "kl", "mean_ratio", "mean_advantage", "std_advantage"}
    assert best_likely(made) > before


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


def test_an_embedding_that_is_missing_is_an_error() -> None:
    dataset = BeamDatasetWithEmbedding(OLD, None, {0: rows(D)}, rows(3, D), [7, 8, 9])
    with pytest.raises(FileUnusable, match="no embedding for query 1"):
        dataset[1]


def test_the_first_queries_by_number_are_for_training() -> None:
    train, validation = split_beam_data({key: {} for key in ("10", "9", "x", "2", "30")}, train_ratio=0.6)
    assert (train, validation) == ({"10": {}, "9": {}, "2": {}}, {"x": {}, "30": {}})


def test_top1_is_the_member_with_the_highest_reward() -> None:
    made = model().eval()
    log_probs = made.log_probs(QUERY, POOL, LABELS).sum(-1)
    found = made.compute_rce_loss(QUERY, POOL, LABELS, torch.tensor([[0.0, 2.0, 1.0], [0, 1, 2]]), use_top1_only=True)
    torch.testing.assert_close(found, -(log_probs[0, 1] + log_probs[1, 2]) / 2)


def test_at_its_start_grpo_has_ratio_one_and_no_divergence_with_dropout_on() -> None:
    made = model().train()
    old = made.compute_log_probs_per_beam(QUERY, POOL, LABELS).detach()
    found = made.compute_grpo_loss(QUERY, POOL, LABELS, REWARDS, old)
    assert found["mean_ratio"].item() == 1
    assert found["kl"].item() == 0
    assert found["loss"].item() == pytest.approx(0, abs=1e-6)
    assert made.training


def test_top_k_takes_advantages_over_the_whole_group() -> None:
    made = model().eval()
    old = made.compute_log_probs_per_beam(QUERY, POOL, LABELS).detach()
    rewards = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    found = made.compute_grpo_loss(QUERY, POOL, LABELS, rewards, old, use_top_k=2)
    assert found["mean_advantage"].item() == pytest.approx(1 / 3 / math.sqrt(1 / 3))


def test_advantages_by_hand() -> None:
    found = model().compute_advantage(torch.tensor([[2.0, 0.0, 1.0], [0.50, 0.52, 0.48]]))
    torch.testing.assert_close(found, torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.2, -0.2]]), atol=1e-6, rtol=0)
    torch.testing.assert_close(model(advantage_clip=0.5).compute_advantage(REWARDS)[0], torch.tensor([0.5, -0.5, 0.0]))
    torch.testing.assert_close(model().compute_advantage(REWARDS, normalize=False)[0], torch.tensor([1.0, -1.0, 0.0]))


def test_functions_of_rewards_by_hand() -> None:
    torch.testing.assert_close(normalize_rewards_zscore(torch.tensor([1.0, 3.0, 2.0])), torch.tensor([-1.0, 1.0, 0.0]))
    columns = normalize_rewards_zscore(torch.tensor([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]), dim=0)
    torch.testing.assert_close(columns, torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    torch.testing.assert_close(
        compute_group_relative_advantage(torch.tensor([[1.0, 3.0]]), normalize=False), torch.tensor([[-1.0, 1.0]])
    )
    torch.testing.assert_close(compute_softmax_weights(torch.tensor([0.0, math.log(3.0)])), torch.tensor([0.25, 0.75]))


def test_checkpoints_of_lever_plus_and_ours_load_by_its_names(tmp_path: Path) -> None:
    state = seed_state()
    v2 = load_v3_from_sft_checkpoint(str(save(lightning(state), tmp_path / "v2.ckpt")), device="cpu")
    v3 = load_v3_from_grpo_checkpoint(save({"model_state_dict": state}, tmp_path / "v3.pt"), device="cpu")
    (tmp_path / "own.safetensors").write_bytes(save_selector(v2, meta={}))
    own = load_v3_from_sft_checkpoint(tmp_path / "own.safetensors", device="cpu")
    for loaded in (v2, v3, own):
        assert isinstance(loaded, PointerSelectorV3)
        assert loaded.config == CONFIG
        assert (loaded.d_model, loaded.hidden_dim, loaded.num_layers) == (6, 8, 2)
        assert all(torch.equal(value, state[key]) for key, value in loaded.state_dict().items())
        assert not loaded.training


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_clip(tmp_path_factory.mktemp("clip"), dimension=16))


def test_a_network_behind_a_clip_embeds_pictures_and_questions(clip: str) -> None:
    made = build_model_v3_with_adapter(SMALL._replace(d_model=16), clip_name=clip, device="cpu")
    pictures, questions = [make_png(0), make_png(1)], ["What?", "Who?"]
    joint = made.embed(pictures, questions, made.query_encoding_flag)
    assert joint.shape == (2, 16)
    torch.testing.assert_close(joint.norm(dim=-1), torch.ones(2))
    both = torch.from_numpy(made.encoder.embed_images(pictures) + made.encoder.embed_texts(questions))
    torch.testing.assert_close(joint, torch.nn.functional.normalize(both, dim=-1))
    assert made.pointer_selector.greedy(joint, joint[None].expand(2, -1, -1), shots=2).shape == (2, 2)
