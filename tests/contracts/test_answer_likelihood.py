"""What every model promises that tells how likely an answer to a request is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from models.protocols import AnswerLikelihood, ChatRequest, Image, Message, Text
from models.scripted import Rule, ScriptedChat
from models.vision_language import HFVision
from tasks.lever.digits.judge import DigitsJudge
from tasks.lever.digits.language import QUESTIONS
from tasks.lever.digits.net import DigitsNet, NetConfig, to_bytes
from tasks.lever.digits.scenes import load_digits, render, to_png
from tests.models.tiny_vision import make_png, make_tiny_llava, make_tiny_qwen

ANSWERS = ["dax", "wug", "dax wug", "wug dax", "", " dax", "word1", "예산", "half a pair \ud83d", "Yes"]
TEMPLATES = pytest.mark.parametrize("template", [True, False], ids=["chat template", "as it stands"])


class Subject(NamedTuple):
    """A judge, and pictures that it reads."""

    judge: AnswerLikelihood
    pngs: Sequence[bytes]


@pytest.fixture(scope="module", params=["qwen", "llava", "digits", "scripted", "scripted with rules"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("tiny")
    noise = [make_png(seed, width=16 + 8 * seed) for seed in range(4)]
    match request.param:
        case "qwen":
            return Subject(HFVision(str(make_tiny_qwen(folder)), device="cpu"), noise)
        case "llava":
            return Subject(HFVision(str(make_tiny_llava(folder)), device="cpu"), noise)
        case "digits":
            return Subject(DigitsJudge(to_bytes(untrained())), scenes())
        case "scripted":
            return Subject(ScriptedChat(), noise)
        case _:
            return Subject(ScriptedChat([Rule(prompt="nothing like it", answer="dax")]), noise)


def untrained() -> DigitsNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return DigitsNet(NetConfig())


def scenes() -> list[bytes]:
    """Four pictures of two digits each."""
    ink = load_digits()["train"].ink[:8].reshape(4, 2, 8, 8)
    return [to_png(scene.numpy()) for scene in render(ink, torch.Generator().manual_seed(0))]


def asking(subject: Subject, number: int, *, shown: int = 0, template: bool = True, **fields: Any) -> ChatRequest:
    """The question about the picture of that number, behind so many demonstrations."""
    parts: list[Text | Image] = []
    for place in range(shown, -1, -1):
        answer = ["", "dax", "wug"][place]
        png = subject.pngs[(number + place) % len(subject.pngs)]
        parts += [Image(png=png), Text(text=f"Question:{QUESTIONS[0]} Short answer:{answer}")]
    return ChatRequest(messages=(Message(role="user", content=tuple(parts)),), template=template, **fields)


def told(subject: Subject, asked: list[tuple[ChatRequest, str]]) -> list[float]:
    found = list(subject.judge.answer_log_probs(asked))
    assert sorted(number for number, _ in found) == list(range(len(asked)))
    by_number = dict(found)
    return [by_number[number] for number in range(len(asked))]


@TEMPLATES
def test_neither_batch_nor_order_changes_a_likelihood(subject: Subject, template: bool):
    asked = [
        (asking(subject, number, shown=number % 3, template=template), answer) for number, answer in enumerate(ANSWERS)
    ]
    alone = [told(subject, [one])[0] for one in asked]
    assert told(subject, asked) == pytest.approx(alone, abs=1e-3)
    assert told(subject, asked[::-1]) == pytest.approx(alone[::-1], abs=1e-3)


@TEMPLATES
def test_different_answers_share_one_probability(subject: Subject, template: bool):
    question = asking(subject, 0, shown=1, template=template)
    logs = told(subject, [(question, answer) for answer in ANSWERS])
    assert all(math.isfinite(log) and log <= 0 for log in logs)
    assert 0 < sum(math.exp(log) for log in set(logs)) <= 1


def test_an_answer_may_be_told_twice(subject: Subject):
    question = asking(subject, 0)
    first, second = told(subject, [(question, "dax"), (question, "dax")])
    assert first == pytest.approx(second, abs=1e-4)


@TEMPLATES
def test_another_picture_makes_another_likelihood(subject: Subject, template: bool):
    answer = "dax"
    if isinstance(subject.judge, ScriptedChat):  # all but its own answer is equally unlikely to it
        answer = subject.judge.complete(asking(subject, 0)).text
    first, second = told(subject, [(asking(subject, number, template=template), answer) for number in (0, 1)])
    assert abs(first - second) > 1e-4


def test_only_messages_and_template_matter(subject: Subject):
    plain = asking(subject, 0)
    other = asking(subject, 0, temperature=1.0, max_tokens=1, seed=4, top_p=0.5, stop=("a",), draw=3)
    first, second = told(subject, [(plain, "dax"), (other, "dax")])
    assert first == pytest.approx(second, abs=1e-4)


def test_nothing_asked_is_nothing_told(subject: Subject):
    assert list(subject.judge.answer_log_probs([])) == []


def test_the_protocol_knows_it(subject: Subject):
    assert isinstance(subject.judge, AnswerLikelihood)
