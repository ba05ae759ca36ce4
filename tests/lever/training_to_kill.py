"""A training in a process of its own: `python -m tests.lever.training_to_kill FOLDER OUT PAUSE_S`.

It prints a line for each question that its judge is asked, and at its end writes all that it learnt to OUT.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from tasks.lever.learning.training_loop import TrainingRun
from tasks.lever.learning.trainings import learn_grpo
from tasks.lever.lever_options import GrpoSettings
from tests.lever.small_trainings import FeatureJudge, GreedyReward, small_groups, small_start


class SlowJudge(FeatureJudge):
    """Takes its time, so that it can be killed at it."""

    def __init__(self, pause_s: float) -> None:
        super().__init__(small_groups())
        self.pause_s = pause_s

    def __call__(self, asked: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        print(json.dumps(asked), flush=True)
        time.sleep(self.pause_s)
        return super().__call__(asked)


def main(folder: str, out: str, pause_s: str) -> None:
    """Train, or go on training."""
    torch.set_num_threads(1)
    settings = GrpoSettings(offline_epochs=2, rounds=6, draws=4, batch_size=5, lr=1e-2)
    groups = small_groups()
    trained = learn_grpo(
        small_start(),
        groups,
        settings,
        TrainingRun(GreedyReward(groups), folder=Path(folder), save_every=2),
        judge=SlowJudge(float(pause_s)),
    )
    learnt = {
        "weights": {name: one.tolist() for name, one in trained.selector.state_dict().items()},
        "curve": [point.model_dump() for point in trained.curve],
        "validation": trained.validation,
        "chosen_epoch": trained.chosen_epoch,
    }
    Path(out).write_text(json.dumps(learnt))


if __name__ == "__main__":
    main(*sys.argv[1:])
