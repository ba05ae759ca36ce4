"""A text model in vLLM answers as it does in transformers, token for token, and finds texts as likely."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from models.backends import open_backend
from models.model_errors import ModelUnavailable, TransientModelError
from models.protocols import ChatRequest, LogProb, Message, Text
from tests.models.tiny import make_tiny_model
from tests.models.tiny_adapter import merge_adapter
from tests.models.tiny_vision import read, write

PROMPTS = ("Say it", "word1 word2", "", "예산은 얼마인가? 😀", "A", "Say \ud83d", "word3 " * 40)
ENGINE = "VLLM::EngineCore"
STOPS = ((), ("word",), ("<|user|>",), (" word7", "9"))


def asking(prompt: str, *, image: bytes | None = None, **fields: Any) -> ChatRequest:
    parts: list[Any] = [Text(text=prompt), *([{"type": "image", "png": image}] if image else [])]
    given: dict[str, Any] = {"max_tokens": 24, **fields}
    return ChatRequest(messages=(Message(role="user", content=tuple(parts)),), **given)


REQUESTS = {
    template: [asking(prompt, stop=stop, template=template) for prompt in PROMPTS for stop in STOPS]
    for template in (True, False)
}
PAIRS = [
    ("The answer is", " word1 word2"),
    ("The answer is ", "A"),
    ("", "word3 abc"),
    ("예산은", " 얼마 😀"),
    ("word1", " word2" * 40),
    ("word1", ""),
]
TEXTS = ["word1 " * 300, "abc"]


class Told(NamedTuple):
    """What transformers say to all that is asked here."""

    id: str
    answers: dict[bool, dict[int, tuple[Any, ...]]]
    likely: dict[int, LogProb]
    rolling: dict[int, float]


@pytest.fixture(scope="module")
def expected(text_folder: Path) -> Told:
    """All of it before the engine is opened: two models are not in one process."""
    args = {"pretrained": str(text_folder), "device": "cpu"}
    hf: Any = open_backend("hf", args=args)
    shorter: Any = open_backend("hf", args={**args, "max_length": 255})
    answers = {template: told(hf, requests) for template, requests in REQUESTS.items()}
    return Told(hf.id, answers, dict(hf.loglikelihood(PAIRS)), dict(shorter.loglikelihood_rolling(TEXTS)))


@pytest.fixture(scope="module")
def chat(text_folder: Path, small: dict[str, Any]) -> Any:
    return open_backend("vllm", args={"pretrained": str(text_folder), **small})


def told(chat: Any, requests: Sequence[ChatRequest]) -> dict[int, tuple[Any, ...]]:
    return {
        number: (one.text, one.finish_reason, one.prompt_tokens, one.completion_tokens)
        for number, one in chat.complete_many(requests)
    }


@pytest.mark.parametrize("template", [True, False], ids=["chat template", "as it stands"])
def test_answers_are_those_of_transformers_token_for_token(chat: Any, expected: Told, template: bool):
    assert told(chat, REQUESTS[template]) == expected.answers[template]


def test_texts_are_as_likely_as_in_transformers(chat: Any, expected: Told):
    found = dict(chat.loglikelihood(PAIRS))
    totals = {number: one.total for number, one in expected.likely.items()}
    assert {number: one.total for number, one in found.items()} == pytest.approx(totals, abs=1e-3)
    assert all(found[number].greedy == one.greedy for number, one in expected.likely.items())


def test_a_text_beyond_the_context_is_told_in_windows(chat: Any, expected: Told):
    assert dict(chat.loglikelihood_rolling(TEXTS)) == pytest.approx(expected.rolling, rel=1e-4)


def test_equal_answers_to_one_question_are_equally_likely(chat: Any):
    logs = dict(chat.answer_log_probs([(asking("word1 " * 200), answer) for answer in ("A", "B", "C", "A")]))
    assert logs[0] == logs[3]
    assert all(math.isfinite(log) for log in logs.values())


def test_one_engine_serves_all_who_ask_for_the_same(chat: Any, text_folder: Path, small: dict[str, Any]):
    chat.complete(asking("Say it"))
    before = engines()
    other = open_backend("vllm", args={"pretrained": str(text_folder), **small})
    assert other.complete(asking("Say it")) == chat.complete(asking("Say it"))
    assert engines() == before
    assert len(before) == 1


def test_a_killed_engine_is_named_and_another_is_opened(chat: Any):
    expected = chat.complete(asking("Say it"))
    [engine] = engines()
    os.kill(engine, signal.SIGKILL)
    with pytest.raises(TransientModelError, match="ended with 1 requests unanswered"):
        chat.complete(asking("Say it"))
    assert chat.complete(asking("Say it")) == expected
    assert engines() != {engine}


def test_another_model_ends_the_engine(chat: Any, text_folder: Path):
    chat.complete(asking("Say it"))
    assert engines()
    open_backend("hf", args={"pretrained": str(text_folder), "device": "cpu"}).complete(asking("Say it"))
    assert not engines()


def test_an_adapter_is_part_of_the_model(text_folder: Path, tmp_path: Path, small: dict[str, Any]):
    merged = merge_adapter(text_folder, adapter=tmp_path / "adapter", merged=tmp_path / "merged")
    expected = told(open_backend("hf", args={"pretrained": str(merged), "device": "cpu"}), REQUESTS[True])
    args = {"pretrained": str(text_folder), "peft": str(tmp_path / "adapter"), **small}
    adapted = open_backend("vllm", args=args)
    assert "+adapter@" in adapted.id
    assert told(adapted, REQUESTS[True]) == expected


@pytest.mark.parametrize(
    ("args", "changed", "said"),
    [
        ({"gpu_memory_utilization": 0.999}, {}, "gpu_memory_utilization"),
        ({"gpu_memory_utilization": 0.1, "max_model_len": 4096}, {}, "max_model_len"),
        ({"gpu_memory_utilization": 0.1}, {"architectures": ["AbacusForCausalLM"]}, "--model hf"),
    ],
    ids=["memory", "context", "architecture"],
)
def test_an_engine_that_cannot_be_opened_names_what_to_change(
    tmp_path: Path, args: dict[str, Any], changed: dict[str, Any], said: str
):
    folder = make_tiny_model(tmp_path, hidden=64, context_tokens=256)
    write(folder / "config.json", read(folder / "config.json") | changed)
    chat = open_backend("vllm", args={"pretrained": str(folder), "enforce_eager": True, **args})
    with pytest.raises(ModelUnavailable, match=said):
        chat.complete(asking("Say it"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"pretrained": "/nowhere"}, "there is no folder /nowhere"),
        ({"dtype": "float64"}, "dtype: Input should be 'auto', 'float32'"),
        ({"data_parallel_size": 2}, "data_parallel_size"),
        ({"peft": "/nowhere"}, "there is no folder /nowhere with a LoRA"),
    ],
)
def test_a_model_that_is_not_there_is_refused_before_an_engine_starts(
    text_folder: Path, args: dict[str, Any], said: str
):
    with pytest.raises(ModelUnavailable, match=said):
        open_backend("vllm", args={"pretrained": str(text_folder)} | args)


def engines() -> set[int]:
    """The processes of engines of this one."""
    children = psutil.Process().children(recursive=True)
    return {one.pid for one in children if one.name() == ENGINE and one.status() != psutil.STATUS_ZOMBIE}
