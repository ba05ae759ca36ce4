"""Code written against Lever-Plus finds its names, with their parameters where it expects them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import tasks.lever
from tasks.lever import (
    BeamDataset,
    BeamDatasetWithEmbedding,
    GRPOTrainer,
    PointerSelectorV3,
    RLBeamDatasetWithEmbedding,
    adaptive_kl_beta,
    beam_search_pointer,
    compute_group_relative_advantage,
    compute_kl_penalty,
    compute_reward_for_candidate,
    compute_softmax_weights,
    compute_step_logits,
    evaluate_pointer_candidate,
    generate_pointer_candidates_for_query,
    load_beam_data,
    normalize_rewards_zscore,
    sample_pointer_with_temperature,
    split_beam_data,
)

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
