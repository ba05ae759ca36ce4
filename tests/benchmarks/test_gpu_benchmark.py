"""The benchmark of GPUs runs wherever the tests run; its figures there prove the script and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from storage.vectors import count_gpus
from tests.benchmarks import gpu


def test_small_shapes_run_and_what_was_not_run_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(["--small", "--json"])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    rows = {row["what"]: row for row in told["rows"]}
    assert len(rows) == 8
    assert all(row["cpu"] > 0 for row in rows.values())
    by_faiss = {name for name in rows if "FAISS" in name or "recall" in name}
    assert {name for name, row in rows.items() if row["cuda"] is None} == {
        name for name in rows if not (count_gpus() if name in by_faiss else torch.cuda.is_available())
    }
    assert ("not run on CUDA" in told["not run"]) == (not torch.cuda.is_available())


def test_a_figure_that_is_not_there_is_said_not_to_have_been_run() -> None:
    line = gpu._line(gpu.Row("training", "updates/s", None, 20.0, limit=80.0))
    assert line.split() == ["training", "updates/s", "not", "run", "20.0", "80.0", "25%"]


def test_a_figure_of_a_gpu_stands_beside_that_of_the_cpu() -> None:
    line = gpu._line(gpu.Row("training", "updates/s", 60.0, 20.0, limit=80.0))
    assert line.split() == ["training", "updates/s", "60.0", "20.0", "3.00", "80.0", "75%"]
