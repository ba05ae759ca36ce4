"""The judge's training gives the same bytes every time, killed or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tasks.lever.digits import digits_training
from tasks.lever.digits.digits_training import train_judge


class Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digits_training, "TOWER_STEPS", 25)
    monkeypatch.setattr(digits_training, "SAVE_EVERY", 10)
    torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize("update", [12, 31], ids=["in the tower's training", "in the reader's"])
def test_a_killed_training_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: int
) -> None:
    whole = train_judge(steps=15)
    updates = count_updates(monkeypatch, kill_at=update)
    with pytest.raises(Killed):
        train_judge(steps=15, folder=tmp_path)
    assert train_judge(steps=15, folder=tmp_path) == whole
    assert updates.count <= 25 + 15 + 10  # at most what was done since the last save is done again


class Updates:
    count = 0


def count_updates(monkeypatch: pytest.MonkeyPatch, *, kill_at: int) -> Updates:
    updates, real = Updates(), torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: object) -> None:
        updates.count += 1
        if updates.count == kill_at:
            raise Killed
        real(self, *args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    return updates
