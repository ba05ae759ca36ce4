"""Which demonstrations help a vision-language model, and a small network that learns to choose them.

Lever-Plus's public names (`seed_api.py`) can be imported from here, for code that was written against it; torch
is loaded with the first of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.lever.seed_api import *  # noqa: F403

SEED_NAMES = (
    "BeamDataset BeamDatasetWithEmbedding GRPOTrainer PointerSelectorV3 PointerSelectorV3Config "
    "RLBeamDatasetWithEmbedding adaptive_kl_beta beam_search_pointer build_model_v3 build_model_v3_with_adapter "
    "collate_fn_rl_v3 collate_fn_v3 compute_group_relative_advantage compute_kl_penalty compute_reward_for_candidate "
    "compute_softmax_weights compute_step_logits evaluate_pointer_candidate generate_pointer_candidates_for_query "
    "load_beam_data load_v3_from_grpo_checkpoint load_v3_from_sft_checkpoint normalize_rewards_zscore predict_with_v3 "
    "sample_pointer_with_temperature split_beam_data"
)
"""The public names of Lever-Plus."""


def __getattr__(name: str) -> Any:
    if name in SEED_NAMES.split():
        return getattr(import_module(f"{__name__}.seed_api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *SEED_NAMES.split()})
