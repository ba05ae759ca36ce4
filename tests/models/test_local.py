"""Models in this process by their names: how one is opened, what is refused, and that only one is in memory."""

from __future__ import annotations

import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import models.causal_lm
from models.backends import Local, local_of, open_backend, open_chat, revision_of
from models.causal_lm import CausalLM, HFVision
from models.local import load_once, release_model
from models.model_errors import ContextOverflow, ModelUnavailable
from models.protocols import ChatRequest, Image, Message, Text
from tests.models.tiny import make_tiny_model
from tests.models.tiny_vision import make_png, make_tiny_clip, make_tiny_qwen, make_tiny_qwen3


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_qwen3(tmp_path_factory.mktemp("seeing"))


def request(*pngs: bytes) -> ChatRequest:
    content = (*(Image(png=png) for png in pngs), Text(text="word1 word2"))
    return ChatRequest(messages=(Message(role="user", content=content),), max_tokens=4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf:/m/qwen", Local("hf", "/m/qwen", {})),
        ("hf:Qwen/Qwen3-VL@abc,dtype=float32", Local("hf", "Qwen/Qwen3-VL@abc", {"dtype": "float32"})),
        ('vllm:/m,{"max_model_len": 8, "a": {"b": 1}}', Local("vllm", "/m", {"max_model_len": 8, "a": {"b": 1}})),
        ("openai:gpt-5-mini", None),
        ("hf", None),
    ],
    ids=["folder", "arguments", "JSON", "endpoint", "no weights"],
)
def test_a_name_says_where_the_weights_are_and_how_they_run(name: str, expected: Local | None) -> None:
    assert local_of(name) == expected
    assert expected is None or local_of(expected.name) == expected


def test_a_comma_in_the_name_of_a_folder_parts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "big, good"
    folder.mkdir()
    assert local_of(f"hf:{folder},dtype=float32") == Local("hf", str(folder), {"dtype": "float32"})


def test_a_model_that_can_do_without_its_eyes_has_them_only_where_pictures_are_shown(tmp_path: Path) -> None:
    make_tiny_qwen(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "gemma3"}))
    assert not isinstance(open_backend("hf", args={"pretrained": str(tmp_path)}), HFVision)
    assert isinstance(open_backend("hf", args={"pretrained": str(tmp_path)}, pictures=True), HFVision)


@pytest.mark.parametrize(
    ("kind", "args", "says"),
    [
        ("text", "max_pixels=64", "for text alone, without max_pixels; leave it out"),
        ("seeing", "trust_remote_code=true", "with its eyes, without trust_remote_code; leave it out"),
        ("seeing", "max_pixels=0", "max_pixels: "),
        ("seeing", "dtype=int4", "dtype: Input should be 'auto', 'float32'"),
        ("seeing", "nonsense", "'nonsense' is no name=value"),
        ("nowhere", "", "there is no folder"),
        ("empty", "", "there is no config.json in it"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_loaded(
    text: Path, seeing: Path, tmp_path: Path, kind: str, args: str, says: str
) -> None:
    folder = {"text": text, "seeing": seeing, "nowhere": tmp_path / "nowhere", "empty": tmp_path}[kind]
    with pytest.raises(ModelUnavailable, match=says):
        open_chat(f"hf:{folder},{args}")


def test_a_model_that_writes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="takes pictures in a way that is not supported"):
        open_chat(f"hf:{make_tiny_clip(tmp_path)}").complete(request())


def test_a_picture_that_does_not_fit_says_what_to_change(seeing: Path) -> None:
    with pytest.raises(ContextOverflow, match=r"pictures included.*smaller pictures \(max_pixels\)"):
        open_chat(f"hf:{seeing},max_length=16").complete(request(make_png(0, width=32, height=32)))


def test_other_weights_under_the_same_name_are_another_revision(tmp_path: Path) -> None:
    name = f"hf:{make_tiny_model(tmp_path / 'm')},dtype=float32"
    before = revision_of(name)
    assert before == revision_of(name)
    make_tiny_model(tmp_path / "m", seed=1)
    after = revision_of(name)
    assert after != before
    make_tiny_model(tmp_path / "lora")
    assert revision_of(f"{name},peft={tmp_path / 'lora'}").startswith(f"{after}+")
    assert revision_of("openai:m") == ""


def test_a_script_has_a_revision_too(tmp_path: Path) -> None:
    script = tmp_path / "rules.json"
    script.write_text("[]")
    before = revision_of(f"scripted:{script}")
    script.write_text("[ ]")
    assert revision_of(f"scripted:{script}") != before
    with pytest.raises(ModelUnavailable, match="there is no file"):
        revision_of(f"replay:{tmp_path / 'none.jsonl'}")


def test_one_model_is_loaded_for_all_who_name_it(seeing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    load = models.causal_lm.load_model

    def counted(*args: Any, **how: Any) -> Any:
        loads.append(args)
        return load(*args, **how)

    monkeypatch.setattr(models.causal_lm, "load_model", counted)
    release_model()
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: open_chat(f"hf:{seeing}").complete(request(make_png(0))), range(3)))
    assert answers == [answers[0]] * 3
    assert len(loads) == 1


def test_a_model_is_let_go_of_when_another_is_asked(text: Path, seeing: Path) -> None:
    blind, sighted = CausalLM(str(text), device="cpu"), HFVision(str(seeing), device="cpu")
    first = blind.complete(request())
    weights = weakref.ref(blind._load().model)
    sighted.complete(request(make_png(0)))
    assert weights() is None
    assert blind.complete(request()) == first


def test_what_cannot_be_loaded_leaves_nothing_held() -> None:
    load_once("one", lambda: 1)
    with pytest.raises(ZeroDivisionError):
        load_once("two", lambda: 1 // 0)
    assert load_once("one", lambda: 3) == 3
    release_model()
