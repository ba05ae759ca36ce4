"""Small networks, embeddings and records for code written against Lever-Plus."""

from __future__ import annotations

from typing import Any

import torch

from tasks.lever import PointerSelectorV3, PointerSelectorV3Config, build_model_v3

D, K = 6, 5
SMALL = PointerSelectorV3Config(d_model=D, K=K, hidden_dim=8, num_layers=1)


def model(**changes: Any) -> PointerSelectorV3:
    """Always the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model_v3(SMALL._replace(**changes))


def rows(*shape: int, seed: int = 1) -> torch.Tensor:
    """Unit vectors."""
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(made, dim=-1)


def record(pointer: list[int], correct: int = 1, accuracy: float = 0.9, **more: Any) -> dict[str, Any]:
    """A judged pointer as a file has it."""
    judged = {"vqa_pred_answer": "a", "vqa_correct": correct, "vqa_acc_score": accuracy}
    return {"pointer": pointer, "gen_method": "beam", **judged, **more}


QUERY, POOL = rows(2, D), rows(2, K, D, seed=2)
LABELS = torch.tensor([[[0, 1], [2, 3], [4, 0]], [[1, 0], [3, 2], [0, 4]]])
REWARDS = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.5, 0.5]])
