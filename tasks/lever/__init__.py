"""Which demonstrations help a vision-language model, and a small network that learns to choose them.

Lever-Plus's public names can be imported from here, for code that was written against it; torch is loaded with the
first of them. Parameters and what is returned are Lever-Plus's; where it computes something wrong, the docstring says
what is done instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.lever.compat.seed_datasets import *  # noqa: F403
    from tasks.lever.compat.seed_pointers import *  # noqa: F403
    from tasks.lever.compat.seed_selector import *  # noqa: F403
    from tasks.lever.compat.seed_trainer import *  # noqa: F403
    from tasks.lever.judge.rewards import *  # noqa: F403

SEED_NAMES = {
    "compat.seed_datasets": "BeamDataset BeamDatasetWithEmbedding RLBeamDatasetWithEmbedding collate_fn_rl_v3 "
    "collate_fn_v3 load_beam_data split_beam_data",
    "compat.seed_pointers": "beam_search_pointer evaluate_pointer_candidate generate_pointer_candidates_for_query "
    "sample_pointer_with_temperature",
    "compat.seed_selector": "PointerSelectorV3 PointerSelectorV3Config adaptive_kl_beta build_model_v3 "
    "build_model_v3_with_adapter clip_advantages compute_group_relative_advantage compute_kl_penalty "
    "compute_softmax_weights compute_step_logits load_v3_from_grpo_checkpoint load_v3_from_sft_checkpoint "
    "normalize_rewards_zscore predict_with_v3",
    "compat.seed_trainer": "GRPOTrainer",
    "judge.rewards": "compute_reward_for_candidate",
}
"""Module below this one → the public names of Lever-Plus that it has."""


def __getattr__(name: str) -> Any:
    for module, names in SEED_NAMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *" ".join(SEED_NAMES.values()).split()})
