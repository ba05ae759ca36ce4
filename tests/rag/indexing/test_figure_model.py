"""What the figure settings say of a model in process reaches it, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.backends import local_of
from models.model_errors import ModelUnavailable
from tasks.rag.indexing.figures import FigureSettings
from tasks.rag.indexing.picturing import figure_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Weights, as far as their context is asked for."""
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 4096}}))
    return tmp_path


MEMORY = {"gpu_memory_utilization": 0.9}


@pytest.mark.parametrize(
    ("vlm", "settings", "args"),
    [
        ("hf:FOLDER", {}, {}),
        ("hf:FOLDER", {"qwen3_vl_max_model_len": 1024}, {"max_length": 1024}),
        ("hf:FOLDER,max_length=99", {"qwen3_vl_max_model_len": 1024}, {"max_length": 99}),
        ("hf", {"qwen3_vl_model_path": "FOLDER"}, {}),
        ("vllm:FOLDER", {}, MEMORY),
        ("vllm:FOLDER", {"qwen3_vl_max_model_len": 1024}, {"max_model_len": 1024, **MEMORY}),
        ("vllm:FOLDER,max_length=9", {"qwen3_vl_max_model_len": 1024}, {"max_length": 9, **MEMORY}),
        ("vllm:FOLDER,gpu_memory_utilization=0.5", {}, {"gpu_memory_utilization": 0.5}),
        (
            "vllm",
            {"qwen3_vl_model_path": "FOLDER", "qwen3_vl_gpu_memory_utilization": 0.4},
            {"gpu_memory_utilization": 0.4},
        ),
    ],
    ids=str,
)
def test_a_model_in_process_is_told_what_the_settings_say(
    folder: Path, vlm: str, settings: dict[str, Any], args: dict[str, Any]
) -> None:
    here = {name: str(folder) if value == "FOLDER" else value for name, value in settings.items()}
    named = figure_model(vlm.replace("FOLDER", str(folder)), FigureSettings.model_validate(here))
    local = local_of(named or "")
    assert local is not None
    assert (local.pretrained, local.args) == (str(folder), args)


def test_weights_that_nobody_names_are_asked_for() -> None:
    with pytest.raises(ModelUnavailable, match="write hf:FOLDER, or set qwen3_vl_model_path"):
        figure_model("hf", FigureSettings())
