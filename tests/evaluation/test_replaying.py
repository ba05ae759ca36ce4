"""Recorded answers take the place of a model's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_errors import DataMissing, OptionUnusable
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.replaying import recorded_of


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["Sums.jsonl", "Sums.jsonl.gz"])
def test_a_folder_has_a_file_for_each_task(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    model = ModelSpec(backend="replay", args={"path": str(tmp_path)})
    assert recorded_of(model, "Sums") == tmp_path / name


def test_a_file_is_taken_for_any_task(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", {"id": 1, "response": "a"})
    assert recorded_of(ModelSpec(backend="replay", args={"path": str(path)}), "Sums") == path


def test_a_task_without_recorded_answers_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"no recorded answers to Sums: expected Sums\.jsonl there"):
        recorded_of(ModelSpec(backend="replay", args={"path": str(tmp_path)}), "Sums")


def test_replay_without_a_path_says_how_to_give_one() -> None:
    with pytest.raises(OptionUnusable, match="--model_args path=FOLDER"):
        recorded_of(ModelSpec(backend="replay"), "Sums")
