"""What a model of a folder says when the folder is damaged: a sentence with the remedy, before any answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from models.model_errors import ModelUnavailable
from models.protocols import ChatRequest, Message, Text
from tests.contracts.backends import BACKENDS, EMBEDS

LOCAL = ("hf", "hf Qwen2.5-VL", "sentence-transformers")
WEIGHTS, CONFIG = "model.safetensors", "config.json"


@pytest.fixture(scope="session", params=LOCAL)
def furnished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A backend's name, and whole weights of it."""
    folder = tmp_path_factory.mktemp("whole")
    BACKENDS[request.param].furnish(folder)
    return request.param, folder


def without_a_weight(folder: Path) -> None:
    """transformers would make one up by chance, and go on."""
    weights = load_file(folder / WEIGHTS)
    del weights[next(name for name in weights if "layer" in name)]
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


def without_a_part(folder: Path) -> None:
    names = dict.fromkeys(load_file(folder / WEIGHTS), "model-00002-of-00002.safetensors")
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


def cut_off(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])


def a_pointer(folder: Path) -> None:
    (folder / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n")


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def without_a_vocabulary(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


def with_settings(folder: Path, **settings: object) -> None:
    config = json.loads((folder / CONFIG).read_text())
    for name, value in settings.items():
        part = next((part for part in (config, config.get("text_config", {})) if name in part), config)
        part[name] = value
    (folder / CONFIG).write_text(json.dumps(config))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a weight is missing": (without_a_weight, r"not whole: \S*layer\S* is missing; fetch them again"),
    "a file of weights is missing": (without_a_part, "00002-of-00002.*fetch it again"),
    "the weights are cut off": (cut_off, "not fully covered; fetch it again"),
    "the weights are a pointer to them": (a_pointer, "fetch it again"),
    "the weights are pickled": (pickled, "no safetensors"),
    "there is no vocabulary": (without_a_vocabulary, "fetch"),
    "the configuration is no JSON": (lambda folder: (folder / CONFIG).write_text("{"), "fetch|not valid JSON"),
    "a setting of the wrong kind": (partial(with_settings, hidden_size="many"), "hidden_size.*fetch it again"),
    "sizes of another model": (partial(with_settings, intermediate_size=99), "fetch it again"),
    "an architecture that nobody knows": (partial(with_settings, model_type="abacus"), "serve it behind"),
    "an architecture with code of its own": (
        partial(with_settings, model_type="abacus", auto_map={"AutoConfig": "a.B", "AutoModelForCausalLM": "a.C"}),
        "trust_remote_code",
    ),
}


@pytest.mark.parametrize(("damage", "says"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_folder_is_named_with_the_remedy(
    furnished: tuple[str, Path], tmp_path: Path, damage: Callable[[Path], object], says: str
):
    name, whole = furnished
    folder = tmp_path / "damaged"
    shutil.copytree(whole, folder)
    damage(folder)
    with pytest.raises(ModelUnavailable, match=says) as caught:
        use(name, folder)
    assert str(folder) in str(caught.value)


def use(name: str, folder: Path) -> None:
    with BACKENDS[name].opened(folder) as opened:
        if EMBEDS in BACKENDS[name].can:
            opened.embed(["hi"])
        else:
            opened.complete(ChatRequest(messages=(Message(role="user", content=(Text(text="hi"),)),), max_tokens=2))
