"""vLLM behind whole commands: an evaluation in process and over HTTP, and an engine that is killed in the middle."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from models.backends import open_backend
from models.model_errors import ModelError, TransientModelError
from models.openai import OpenAIChat
from models.protocols import ChatRequest, ChatResponse, Message, Text
from models.vllm import JOBS_AT_ONCE
from tasks.bulk import ask_all
from tasks.calls import CallSettings, Limits
from tests.command import Done, run_apart
from tests.drills.evaluating import write_sums
from tests.engines.test_vllm_text import ENGINE
from tests.engines.test_vllm_vision import showing
from tests.kept_responses import Kept
from tests.models.tiny_vision import make_png

ITEMS = 6
CUT = "\ufffd"


def evaluated(tmp_path: Path, *model: object) -> list[Any]:
    """The answers of a run, in the order of the items."""
    data, out = write_sums(tmp_path / "data", ITEMS), tmp_path / "out"
    task: tuple[object, ...] = ("--tasks", "MATH500", "--data_dir", data, "--n_repeat", 1)
    limits = (*task, "--max_tokens", 24, "--gen_kwargs", "temperature=0")
    done: Done = run_apart("eval", "run", *model, *limits, "--output_path", out, "--json")
    assert done.code == 0, done.stderr
    assert done.json
    [samples] = out.rglob("*MATH500*.jsonl")
    texts = [json.loads(line)["response"] for line in samples.read_text("utf-8").splitlines()]
    return [[text.rstrip(CUT) for text in turns] for turns in texts]


@pytest.mark.engine
@pytest.mark.postgres
def test_an_evaluation_gives_the_answers_of_transformers_in_process_and_served(
    text_folder: Path, served: Callable[[Path], str], tmp_path: Path
):
    args = f"pretrained={text_folder},dtype=float32"
    expected = evaluated(tmp_path / "hf", "--model", "hf", "--model_args", args)
    small = f"{args},gpu_memory_utilization=0.1,enforce_eager=true"
    assert evaluated(tmp_path / "vllm", "--model", "vllm", "--model_args", small) == expected
    place = ("--model_name", "tiny", "--base-url", served(text_folder))
    assert evaluated(tmp_path / "served", "--model", "openai", *place) == expected


def test_a_served_model_that_sees_answers_as_the_one_in_process(
    seeing_folder: Path, small: dict[str, Any], served: Callable[[Path], str]
):
    request = showing(make_png(0), make_png(1, width=24))
    here = open_backend("vllm", args={"pretrained": str(seeing_folder), **small}, pictures=True)
    there = OpenAIChat("tiny", base_url=served(seeing_folder), timeout_s=60)
    # a server holds back the bytes of a character that the end cuts off
    assert there.complete(request).text.rstrip(CUT) == here.complete(request).text.rstrip(CUT)


def test_after_a_kill_in_the_middle_answered_items_are_not_asked_again(text_folder: Path, small: dict[str, Any]):
    chat = Counting(open_backend("vllm", args={"pretrained": str(text_folder), **small, "max_num_seqs": 2}))
    store, limits = Kept(), Limits(CallSettings(concurrency=1, tries=1), rng=random.Random(0))
    requests = [(number, asking(f"Say it {number}")) for number in range(JOBS_AT_ONCE + 40)]
    with pytest.raises(TransientModelError, match="another engine is opened"):
        ask_and_kill(chat, requests, responses=store, limits=limits)
    assert len(store.rows) == JOBS_AT_ONCE  # the first call of the engine had ended
    answers = dict(ask_all(chat, iter(requests), responses=store, limits=limits))
    assert len(answers) == JOBS_AT_ONCE + 40
    assert chat.asked == [JOBS_AT_ONCE + 40, 40]


def ask_and_kill(chat: Any, requests: Sequence[tuple[int, ChatRequest]], **place: Any) -> None:
    """Kills the engine when five answers have come, which its first call gave together with others."""
    for count, _ in enumerate(ask_all(chat, iter(requests), **place), start=1):
        if count == 5:
            kill_engine()


class Counting:
    """A backend whose requests are counted."""

    def __init__(self, chat: Any) -> None:
        self.id: str = chat.id
        self.asked: list[int] = []
        self._chat = chat

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        return self._chat.complete(request, on_text=on_text)

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        self.asked.append(len(requests))
        return self._chat.complete_many(requests)


def asking(prompt: str) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=(Text(text=prompt),)),), max_tokens=24)


def kill_engine() -> None:
    for child in psutil.Process().children(recursive=True):
        if child.name() == ENGINE:
            os.kill(child.pid, signal.SIGKILL)
