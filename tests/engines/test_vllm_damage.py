"""What vLLM says of a folder whose weights are not whole: a sentence with the remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.backends import open_backend
from models.model_errors import ModelUnavailable
from tests.contracts.test_damaged_weights import without_a_weight
from tests.engines.test_vllm_text import asking

WEIGHTS = "model.safetensors"


def cut_off(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])


@pytest.mark.parametrize("damage", [without_a_weight, cut_off])
def test_a_damaged_folder_is_named_with_the_remedy(
    text_folder: Path, small: dict[str, Any], tmp_path: Path, damage: Callable[[Path], None]
):
    folder = tmp_path / "damaged"
    shutil.copytree(text_folder, folder)
    damage(folder)
    chat = open_backend("vllm", args={"pretrained": str(folder), **small})
    with pytest.raises(ModelUnavailable, match=f"{folder}.*fetch them again"):
        chat.complete(asking("Say it"))


def test_a_folder_without_weights_is_refused_before_an_engine_starts(text_folder: Path, tmp_path: Path):
    folder = tmp_path / "empty"
    shutil.copytree(text_folder, folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(ModelUnavailable, match="holds no safetensors"):
        open_backend("vllm", args={"pretrained": str(folder)}).complete(asking("Say it"))
