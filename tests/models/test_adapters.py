"""A model with an adapter answers, and finds answers as likely, as the model that has it in its weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.backends import open_backend
from models.causal_lm import CausalLM, HFVision
from models.model_errors import ModelUnavailable
from models.protocols import ChatRequest, Image, Message, Text
from tests.models.tiny import make_tiny_model
from tests.models.tiny_adapter import CONFIG, WEIGHTS, merge_adapter
from tests.models.tiny_vision import (
    make_png,
    make_tiny_llava,
    make_tiny_qwen,
    make_tiny_qwen2,
    make_tiny_qwen3,
    read,
    write,
)

pytest.importorskip("peft", reason="adapters need peft, which is not installed here")

SEEING: dict[str, Callable[[Path], Path]] = {
    "qwen2": make_tiny_qwen2,
    "qwen2.5": make_tiny_qwen,
    "qwen3": make_tiny_qwen3,
    "llava": make_tiny_llava,
}
QUESTIONS = ("Say it", "word1 word2", "예산은 얼마인가?", "A")
PAIRS = [("The answer is", " word1 word2"), ("", "word3 abc")]


def asking(question: str, *pictures: bytes) -> ChatRequest:
    parts = (*(Image(png=png) for png in pictures), Text(text=question))
    return ChatRequest(messages=(Message(role="user", content=parts),), max_tokens=12)


def answers(model: CausalLM, requests: list[ChatRequest]) -> list[str]:
    found = dict(model.complete_many(requests))
    return [str(getattr(found[number], "text", found[number])) for number in range(len(requests))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path / "model", hidden=64)


@pytest.fixture
def adapter(folder: Path, tmp_path: Path) -> Path:
    merge_adapter(folder, adapter=tmp_path / "adapter", merged=tmp_path / "merged")
    return tmp_path / "adapter"


def test_a_model_of_text_with_an_adapter_is_the_model_that_it_makes(folder: Path, adapter: Path, tmp_path: Path):
    plain, with_it, merged = CausalLM(str(folder)), CausalLM(str(folder), peft=str(adapter)), tmp_path / "merged"
    requests = [asking(question) for question in QUESTIONS]
    expected = CausalLM(str(merged))
    assert answers(with_it, requests) == answers(expected, requests) != answers(plain, requests)
    told, wanted = dict(with_it.loglikelihood(PAIRS)), dict(expected.loglikelihood(PAIRS))
    assert [told[number].total for number in told] == pytest.approx([wanted[number].total for number in told], abs=1e-4)
    assert "+adapter@" in with_it.id


@pytest.mark.parametrize("kind", list(SEEING))
def test_a_model_that_sees_with_an_adapter_is_the_model_that_it_makes(kind: str, tmp_path: Path):
    folder = SEEING[kind](tmp_path / "model")
    merged = merge_adapter(folder, adapter=tmp_path / "adapter", merged=tmp_path / "merged")
    with_it = open_backend("hf", args={"pretrained": str(folder), "peft": str(tmp_path / "adapter")}, pictures=True)
    expected, plain = HFVision(str(merged)), HFVision(str(folder))
    assert isinstance(with_it, HFVision)
    requests = [asking(question, make_png(number), make_png(9)) for number, question in enumerate(QUESTIONS)]
    assert answers(with_it, requests) == answers(expected, requests) != answers(plain, requests)
    asked = [(each, "word1 word2") for each in requests]
    told, wanted = dict(with_it.answer_log_probs(asked)), dict(expected.answer_log_probs(asked))
    assert [told[number] for number in sorted(told)] == pytest.approx(
        [wanted[number] for number in sorted(told)], abs=1e-3
    )
    assert "+adapter@" in with_it.id


@pytest.mark.parametrize("make", [make_tiny_model, make_tiny_qwen])
def test_what_the_library_itself_has_saved_is_read(make: Callable[[Path], Path], tmp_path: Path):
    from peft import LoraConfig, get_peft_model  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

    folder, kind = (
        make(tmp_path / "model"),
        AutoModelForCausalLM if make is make_tiny_model else AutoModelForImageTextToText,
    )
    config = LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    theirs: Any = get_peft_model(kind.from_pretrained(folder), config).eval()
    theirs.save_pretrained(str(tmp_path / "theirs"))
    read: Any = AutoTokenizer.from_pretrained(folder)
    tokens, context = read("word1 word2 word3", return_tensors="pt")["input_ids"], len(read("word1")["input_ids"])
    with torch.inference_mode():
        logs = theirs(input_ids=tokens).logits.log_softmax(-1)[0, context - 1 : -1]
    wanted = float(logs.gather(1, tokens[0, context:, None]).sum())
    opened: Any = open_backend("hf", args={"pretrained": str(folder), "peft": str(tmp_path / "theirs")}, pictures=True)
    [(_, told)] = opened.loglikelihood([("word1", " word2 word3")])
    assert told.total == pytest.approx(wanted, abs=1e-3)


def without_a_weight(adapter: Path) -> None:
    weights = load_file(adapter / WEIGHTS)
    save_file(dict(list(weights.items())[1:]), adapter / WEIGHTS)


def of_a_deeper_model(adapter: Path) -> None:
    weights = load_file(adapter / WEIGHTS)
    deeper = {name.replace("layers.0", "layers.7"): value.clone() for name, value in weights.items()}
    save_file({**weights, **deeper}, adapter / WEIGHTS)


def of_a_wider_model(adapter: Path) -> None:
    save_file({name: value.repeat(2, 2) for name, value in load_file(adapter / WEIGHTS).items()}, adapter / WEIGHTS)


def on_other_modules(adapter: Path) -> None:
    write(adapter / CONFIG, read(adapter / CONFIG) | {"target_modules": ["c_attn"]})


def damaged(adapter: Path) -> None:
    (adapter / WEIGHTS).write_bytes((adapter / WEIGHTS).read_bytes()[:-100])


def a_learned_prompt(adapter: Path) -> None:
    write(adapter / CONFIG, {"peft_type": "PROMPT_TUNING", "task_type": "CAUSAL_LM", "num_virtual_tokens": 4})


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (without_a_weight, "does not fit the model: .* is missing in its file"),
        (of_a_deeper_model, r"does not fit the model: .*layers\.7.* has no place in this one"),
        (of_a_wider_model, "does not fit the model: .*give the model that it was trained with"),
        (on_other_modules, "does not fit the model: .*c_attn"),
        (damaged, "adapter"),
        (a_learned_prompt, "of the kind PROMPT_TUNING"),
    ],
)
def test_an_adapter_that_is_not_this_models_is_refused(
    folder: Path, adapter: Path, harm: Callable[[Path], None], said: str
):
    harm(adapter)
    with pytest.raises(ModelUnavailable, match=said):
        CausalLM(str(folder), peft=str(adapter)).complete(asking("Say it"))


def test_a_folder_without_an_adapter_is_refused_before_anything_is_loaded(folder: Path, adapter: Path):
    with pytest.raises(ModelUnavailable, match=r"holds no adapter: there is no adapter_config\.json"):
        CausalLM(str(folder), peft=str(folder))
    shutil.move(adapter / WEIGHTS, adapter / "adapter_model.bin")
    with pytest.raises(ModelUnavailable, match=r"holds no adapter_model\.safetensors"):
        CausalLM(str(folder), peft=str(adapter))
