"""Models that see, in this process: what they answer and tell is what transformers' own processor and model say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import models.prompts
from models.causal_lm import HFVision
from models.local import release_model
from models.model_errors import ContextOverflow, ModelError, ModelUnavailable, RequestRefused
from models.prompts import open_picture, pictures_of
from models.protocols import BatchChat, ChatRequest, ChatResponse, Image, Message, Text
from tests.models.tiny_vision import (
    LLAVA_IMAGE,
    QWEN_IMAGE,
    make_png,
    make_tiny_llava,
    make_tiny_llava_next,
    make_tiny_qwen,
)

MAKERS = {"qwen": make_tiny_qwen, "llava": make_tiny_llava}
WRITTEN = {"qwen": QWEN_IMAGE, "llava": LLAVA_IMAGE}
TEMPLATES = pytest.mark.parametrize("template", [True, False], ids=["chat template", "as it stands"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: make(tmp_path_factory.mktemp(kind)) for kind, make in MAKERS.items()}


@pytest.fixture(scope="module")
def models_by_kind(folders: dict[str, Path]) -> dict[str, HFVision]:
    return {kind: HFVision(str(folder), device="cpu") for kind, folder in folders.items()}


@pytest.fixture(params=list(MAKERS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(models_by_kind: dict[str, HFVision], kind: str) -> HFVision:
    return models_by_kind[kind]


@pytest.fixture
def qwen(models_by_kind: dict[str, HFVision]) -> HFVision:
    return models_by_kind["qwen"]


def turn(role: Literal["system", "user", "assistant"], *parts: str | bytes) -> Message:
    content = tuple(Text(text=part) if isinstance(part, str) else Image(png=part) for part in parts)
    return Message(role=role, content=content)


def request(*parts: str | bytes, **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"messages": (turn("user", *parts),), "max_tokens": 6, **fields})


def shown(count: int, *, first: int = 0, **fields: Any) -> ChatRequest:
    """A question behind so many demonstrations; pictures differ in size."""
    pairs = [
        (make_png(seed, width=16 + 8 * (seed % 3)), f"Question:{seed}") for seed in range(first, first + count + 1)
    ]
    parts = [part for png, words in pairs for part in (png, f"{words} Short answer:word{len(words)} ")]
    return request(*parts, **fields)


MIXED = [shown(count, first=count, template=template) for count in range(3) for template in (True, False)]
ASKED = [*MIXED, request("no picture at all"), request("nor here", template=False)]


def answers(model: BatchChat, requests: list[ChatRequest]) -> list[ChatResponse | ModelError]:
    found = dict(model.complete_many(requests))
    return [found[number] for number in range(len(requests))]


def log_probs(model: HFVision, asked: list[tuple[ChatRequest, str]]) -> list[float]:
    found = dict(model.answer_log_probs(asked))
    return [found[number] for number in range(len(asked))]


def text_of(request: ChatRequest, written: str) -> str:
    """The prompt, written out by hand."""
    turns = [
        "".join(part.text if isinstance(part, Text) else written for part in message.content)
        for message in request.messages
    ]
    if request.template is False:
        return "\n\n".join(turns)
    return "".join(f"<|user|>{words}<|end|>" for words in turns) + "<|assistant|>"


def processed(model: HFVision, request: ChatRequest, written: str) -> dict[str, Any]:
    """The prompt as transformers' own processor gives it."""
    sight: Any = model._load().sight
    pictures = [open_picture(png) for png in pictures_of(request.messages)] or None
    return dict(sight.processor(text=[text_of(request, written)], images=pictures, return_tensors="pt"))


@pytest.mark.parametrize("number", range(len(ASKED)))
@torch.inference_mode()
def test_greedy_answers_are_those_of_a_bare_generate(model: HFVision, kind: str, number: int):
    answer = model.complete(ASKED[number])
    inputs = processed(model, ASKED[number], WRITTEN[kind])
    loaded = model._load()
    whole = loaded.model.generate(**inputs, max_new_tokens=6, do_sample=False)
    bare = whole[0, inputs["input_ids"].shape[1] :]
    assert answer.text == loaded.tokenizer.decode(bare, skip_special_tokens=True)
    assert answer.prompt_tokens == inputs["input_ids"].shape[1]


@pytest.mark.parametrize("number", range(len(ASKED)))
@torch.inference_mode()
def test_log_probabilities_are_those_of_a_bare_forward_pass(model: HFVision, kind: str, number: int):
    found = log_probs(model, [(ASKED[number], "word1 word2")])[0]
    loaded, inputs = model._load(), processed(model, ASKED[number], WRITTEN[kind])
    answer = loaded.tokenizer("word1 word2", add_special_tokens=False)["input_ids"] + [loaded.tokenizer.eos_token_id]
    tail = torch.tensor([answer])
    inputs["input_ids"] = torch.cat([inputs["input_ids"], tail], dim=1)
    for name, value in (("attention_mask", 1), ("mm_token_type_ids", 0)):
        if name in inputs:
            inputs[name] = torch.cat([inputs[name], torch.full_like(tail, value)], dim=1)
    logs = loaded.model(**inputs).logits[0, -len(answer) - 1 : -1].log_softmax(-1)
    assert found == pytest.approx(sum(logs[place, token].item() for place, token in enumerate(answer)), abs=1e-3)


def test_words_without_a_template_go_as_they_stand(qwen: HFVision):
    asked = request(make_png(0), "Question:a Short answer:b", make_png(1), "Question:c Short answer:", template=False)
    tokens = qwen._prompt(0, asked).tokens
    picture = f"<|vision_start|>{'<|image_pad|>' * 4}<|vision_end|>"
    expected = f"{picture}Question:a Short answer:b{picture}Question:c Short answer:"
    assert qwen._load().tokenizer.decode(tokens) == expected


@TEMPLATES
def test_words_that_stand_for_a_picture_are_refused(qwen: HFVision, template: bool):
    with pytest.raises(RequestRefused, match=r"2 places for 1 pictures: its words hold <\|image_pad\|>"):
        qwen.complete(request(make_png(0), "what is <|image_pad|>?", template=template))


def test_a_template_that_leaves_pictures_out_is_said(tmp_path: Path):
    model = HFVision(str(make_tiny_qwen(tmp_path, chat_template="{{ messages[0]['content'][1]['text'] }}")))
    with pytest.raises(RequestRefused, match="0 places for 1 pictures"):
        model.complete(request(make_png(0), "hi"))


def test_pictures_are_made_smaller_where_it_is_asked(folders: dict[str, Path], qwen: HFVision):
    small = HFVision(str(folders["qwen"]), device="cpu", max_pixels=256)
    asked = request(make_png(0, width=64, height=64), "hi")
    found = [model.complete(asked).prompt_tokens or 0 for model in (qwen, small)]
    assert found[0] - found[1] == 1024 // 64 - 256 // 64
    assert small.id == f"{qwen.id}:max_pixels=256"


def test_a_model_with_a_size_of_its_own_takes_no_other(folders: dict[str, Path]):
    model = HFVision(str(folders["llava"]), device="cpu", max_pixels=256)
    with pytest.raises(ModelUnavailable, match="leave max_pixels out"):
        model.complete(request(make_png(0), "hi"))


def test_likelihoods_that_can_be_told_come_before_the_error(tmp_path: Path):
    model = HFVision(str(make_tiny_qwen(tmp_path, context_tokens=64)), device="cpu")
    told = model.answer_log_probs([(shown(4), "a"), (request("a"), "a"), (request("a"), "b" * 80)])
    assert next(told)[0] == 1
    with pytest.raises(ContextOverflow, match="max_pixels"):
        next(told)


def test_a_picture_of_a_shape_that_the_model_does_not_take_is_refused(qwen: HFVision):
    with pytest.raises(RequestRefused, match="crop"):
        qwen.complete(request(make_png(0, width=900, height=4), "hi"))


def test_a_picture_is_prepared_once(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    model, prepared = HFVision(str(folders["qwen"]), device="cpu"), list[bytes]()
    real = models.prompts.Sight.picture_tensors

    def counted(self: models.prompts.Sight, png: bytes) -> dict[str, torch.Tensor]:
        prepared.append(png)
        return real(self, png)

    monkeypatch.setattr(models.prompts.Sight, "picture_tensors", counted)
    release_model()
    model._load()
    answers(model, [request(make_png(seed), make_png(0), "hi") for seed in (1, 2, 1)])
    answers(model, [request(make_png(2), "hi")])
    assert sorted(prepared) == sorted(make_png(seed) for seed in (0, 1, 2))


def test_another_preparation_of_pictures_is_another_model(tmp_path: Path):
    first = HFVision(str(make_tiny_qwen(tmp_path / "tiny"))).id
    settings = tmp_path / "tiny" / "preprocessor_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "image_mean": [0.5, 0.5, 0.5]}))
    assert HFVision(str(tmp_path / "tiny")).id != first


def test_a_model_that_cuts_pictures_up_is_refused_with_the_remedy(tmp_path: Path):
    model = HFVision(str(make_tiny_llava_next(tmp_path)), device="cpu")
    with pytest.raises(ModelUnavailable, match="serve this one behind an OpenAI-compatible endpoint"):
        model.complete(request(make_png(0), "hi"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_answers_and_tells_alike(folders: dict[str, Path], model: HFVision, kind: str):
    on_gpu = HFVision(str(folders[kind]), device="cuda")
    asked = [(one, "word1") for one in ASKED]
    assert log_probs(on_gpu, asked) == pytest.approx(log_probs(model, asked), abs=0.05)
    assert all(isinstance(answer, ChatResponse) for answer in answers(on_gpu, ASKED))
