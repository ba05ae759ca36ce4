"""The judge's training gives the same bytes every time."""

from __future__ import annotations

import pytest
import torch

from tasks.lever.digits import net
from tasks.lever.digits.net import train_judge


@pytest.mark.slow
def test_equal_steps_give_equal_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "TOWER_STEPS", 25)
    torch.set_num_threads(1)
    told: list[int] = []
    assert train_judge(steps=15, tell=told.append) == train_judge(steps=15)
    assert sum(told) == 15
