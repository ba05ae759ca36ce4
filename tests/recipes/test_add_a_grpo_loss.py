"""The recipe for a GRPO loss works as it is written, outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import run_apart
from tests.recipes.packages import write_blocks

RECIPE = Path(__file__).with_name("add_a_grpo_loss.md")
LEARN = """
import torch
from tasks.lever.learning.losses import find_grpo_loss, grpo_loss
new, old = torch.tensor([[0.9, 0.0]]), torch.zeros(1, 2)
given = (new, old, old, torch.tensor([[1.0, 0.0]]))
about = {"beta": 0.0, "clip": 0.2, "judged": None, "exact_kl": None}
print([round(loss(*given, **about).loss.item(), 3) for loss in (find_grpo_loss("clip_higher"), grpo_loss)])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the recipe."""
    write_blocks(RECIPE, tmp_path)
    return tmp_path


def test_the_added_loss_is_found_and_clips_higher(folder: Path):
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = (sys.executable, "-c", LEARN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[-0.64, -0.6]\n", done.stderr  # half of the group gains: (1 + .28) / 2 and (1 + .2) / 2


@pytest.mark.engine
@pytest.mark.postgres
@pytest.mark.slow
def test_a_run_learns_by_it(folder: Path):
    given = ("--config", folder / "clip_higher.yaml", "--results", folder / "results")
    done = run_apart("lever", "run", *given, PYTHONPATH=str(folder), OMP_NUM_THREADS="1")
    assert done.code == 0, done.stderr
    assert "grpo" in done.stdout
    assert (folder / "results/digits/model_cpk/v3/grpo_RetrievalSampler.safetensors").is_file()
