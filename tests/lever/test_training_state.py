"""The state of a training on disk: what is read is what was written, of this very training, or nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tasks.lever.learning.training_loop import NAME, Progress, load_state, save_state
from tasks.lever.lever_records import CurvePoint

PROGRESS = Progress(
    update=7,
    beta=0.1 + 0.2,
    curve=[CurvePoint(step=7, epoch=1, figures={"loss": 1 / 3, "kl": 5e-324})],
    validation={0: 0.1, 1: 2 / 3},
    chosen_epoch=1,
    passed_over=2,
)
TENSORS = {
    "weights/a": torch.tensor([[1.5, -0.0], [math.inf, 1e-40]]),
    "adam/0.step": torch.tensor(3.0),
    "held/pointers": torch.arange(6).view(1, 2, 3),
    "held/rewards": torch.tensor([0.5, math.nan], dtype=torch.float64),
    "held/half": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    "held/none": torch.zeros(0, 4),
}


def _bits(tensors: dict[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {
        name: (one.dtype, tuple(one.shape), one.reshape(-1).view(torch.uint8).tolist()) for name, one in tensors.items()
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_state(tmp_path, PROGRESS, TENSORS)
    return tmp_path / NAME


def test_what_is_read_is_what_was_written_to_the_bit(saved: Path):
    kept = load_state(saved.parent)
    assert kept is not None
    assert kept[0] == PROGRESS
    assert _bits(kept[1]) == _bits(TENSORS)
