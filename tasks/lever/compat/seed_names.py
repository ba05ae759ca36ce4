"""Lever-Plus's public names, for code that was written against it; `from tasks.lever import …` finds them here.

Parameters and what is returned are Lever-Plus's; where it computes something wrong, the docstring says what is done
instead.
"""

from tasks.lever.compat.seed_datasets import (
    BeamDataset,
    BeamDatasetWithEmbedding,
    RLBeamDatasetWithEmbedding,
    collate_fn_rl_v3,
    collate_fn_v3,
    load_beam_data,
    split_beam_data,
)
from tasks.lever.compat.seed_selector import (
    PointerSelectorV3,
    PointerSelectorV3Config,
    adaptive_kl_beta,
    beam_search_pointer,
    build_model_v3,
    build_model_v3_with_adapter,
    compute_group_relative_advantage,
    compute_kl_penalty,
    compute_softmax_weights,
    compute_step_logits,
    evaluate_pointer_candidate,
    generate_pointer_candidates_for_query,
    load_v3_from_grpo_checkpoint,
    load_v3_from_sft_checkpoint,
    normalize_rewards_zscore,
    predict_with_v3,
    sample_pointer_with_temperature,
)
from tasks.lever.compat.seed_trainer import GRPOTrainer
from tasks.lever.judge.rewards import compute_reward_for_candidate

__all__ = [
    "BeamDataset",
    "BeamDatasetWithEmbedding",
    "GRPOTrainer",
    "PointerSelectorV3",
    "PointerSelectorV3Config",
    "RLBeamDatasetWithEmbedding",
    "adaptive_kl_beta",
    "beam_search_pointer",
    "build_model_v3",
    "build_model_v3_with_adapter",
    "collate_fn_rl_v3",
    "collate_fn_v3",
    "compute_group_relative_advantage",
    "compute_kl_penalty",
    "compute_reward_for_candidate",
    "compute_softmax_weights",
    "compute_step_logits",
    "evaluate_pointer_candidate",
    "generate_pointer_candidates_for_query",
    "load_beam_data",
    "load_v3_from_grpo_checkpoint",
    "load_v3_from_sft_checkpoint",
    "normalize_rewards_zscore",
    "predict_with_v3",
    "sample_pointer_with_temperature",
    "split_beam_data",
]
