"""What a folder of weights is told from others by: the files that are loaded, each read once in a process."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from models.weight_files import GENERATOR_FILES, REMEMBERED_BYTES, digest_folder


def test_a_folder_keeps_the_fingerprint_that_caches_know(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "merges.txt", "chat_template.jinja", "README.md"):
        (tmp_path / name).write_text(name)
    assert digest_folder(tmp_path) == "f4dcf0a83727"
    assert digest_folder(tmp_path, GENERATOR_FILES) == "0be9b532b07f"


@pytest.mark.parametrize("name", ["checkpoint-500/model.safetensors", "runs/trainer_state.json", "onnx/config.json"])
def test_what_lies_beside_the_model_is_no_part_of_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    before = digest_folder(tmp_path)
    write(tmp_path / name)
    assert digest_folder(tmp_path) == before


@pytest.mark.parametrize("name", ["1_Pooling/config.json", "additional_chat_templates/tools.jinja"])
def test_folders_that_a_model_is_read_from_are_a_part_of_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"path": ""}, {"path": "1_Pooling"}]))
    before = digest_folder(tmp_path, GENERATOR_FILES)
    write(tmp_path / name)
    assert digest_folder(tmp_path, GENERATOR_FILES) != before


def test_large_weights_are_read_once_until_they_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, read = hashlib.file_digest, list[Path]()

    def noted(file: Any, kind: str) -> Any:
        read.append(Path(file.name))
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(REMEMBERED_BYTES))
    before = digest_folder(tmp_path)
    assert digest_folder(tmp_path) == before
    assert read == [weights]
    weights.write_bytes(bytes(REMEMBERED_BYTES - 1) + b"1")
    assert digest_folder(tmp_path) != before


def write(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{}")
