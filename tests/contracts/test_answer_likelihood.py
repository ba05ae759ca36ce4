"""What every model promises that tells how likely an answer to a request is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from models.protocols import AnswerLikelihood, Chat, ChatRequest, Image, Message, Text
from models.scripted import Rule, ScriptedChat
from models.vision_language import HFVision
from tests.models.tiny_vision import make_png, make_tiny_llava, make_tiny_qwen

ANSWERS = ["yes", "no", "yes no", "", "word1", " word1", "예산", "half a pair \ud83d", "Yes"]
TEMPLATES = pytest.mark.parametrize("template", [True, False], ids=["chat template", "as it stands"])


class Judge(Chat, AnswerLikelihood, Protocol):
    """Answers, and tells how likely answers are."""

    id: str


@pytest.fixture(scope="module", params=["qwen", "llava", "scripted", "scripted with rules"])
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    folder: Path = tmp_path_factory.mktemp("tiny")
    match request.param:
        case "qwen":
            return HFVision(str(make_tiny_qwen(folder)), device="cpu")
        case "llava":
            return HFVision(str(make_tiny_llava(folder)), device="cpu")
        case "scripted":
            return ScriptedChat()
        case _:
            return ScriptedChat([Rule(prompt="What is it", answer="yes")])


def request(*parts: str | bytes, template: bool = True, **fields: Any) -> ChatRequest:
    """Words and pictures of one question."""
    return ChatRequest(messages=(turn("user", *parts),), template=template, **fields)


def turn(role: Literal["user", "assistant"], *parts: str | bytes) -> Message:
    content = tuple(Text(text=part) if isinstance(part, str) else Image(png=part) for part in parts)
    return Message(role=role, content=content)


def told(judge: AnswerLikelihood, asked: list[tuple[ChatRequest, str]]) -> list[float]:
    found = list(judge.answer_log_probs(asked))
    assert sorted(number for number, _ in found) == list(range(len(asked)))
    by_number = dict(found)
    return [by_number[number] for number in range(len(asked))]


@TEMPLATES
def test_neither_batch_nor_order_changes_a_likelihood(judge: Judge, template: bool):
    asked = [
        (request(*["shown ", make_png(number), "more "] * (number % 3), "What is it?", template=template), answer)
        for number, answer in enumerate(ANSWERS)
    ]
    alone = [told(judge, [one])[0] for one in asked]
    assert told(judge, asked) == pytest.approx(alone, abs=1e-3)
    assert told(judge, asked[::-1]) == pytest.approx(alone[::-1], abs=1e-3)


@TEMPLATES
def test_different_answers_share_one_probability(judge: Judge, template: bool):
    question = request(make_png(0), "What is it?", template=template)
    logs = told(judge, [(question, answer) for answer in ANSWERS])
    assert all(math.isfinite(log) and log <= 0 for log in logs)
    assert 0 < sum(math.exp(log) for log in logs) <= 1


@TEMPLATES
def test_another_picture_makes_another_likelihood(judge: Judge, template: bool):
    asked = [(request(make_png(seed), "Look", template=template), describe(judge)) for seed in (0, 1)]
    first, second = told(judge, asked)
    assert first != pytest.approx(second, abs=1e-2)


def describe(judge: Judge) -> str:
    """What the judge says to the first picture; a rule may say the same to all."""
    return judge.complete(request(make_png(0), "Look", max_tokens=512 if isinstance(judge, ScriptedChat) else 3)).text


@TEMPLATES
def test_the_answer_that_is_shown_matters(judge: Judge, template: bool):
    def asked(shown: str) -> ChatRequest:
        messages = (turn("user", make_png(1), "And it?"), turn("assistant", shown), turn("user", make_png(0), "This?"))
        return ChatRequest(messages=messages, template=template)

    answer = judge.complete(request("And it?\nyes\nThis?")).text
    first, second = told(judge, [(asked("yes"), answer), (asked("no"), answer)])
    if not isinstance(judge, ScriptedChat):  # it does not read what it has said
        assert first != pytest.approx(second, abs=1e-3)


def test_only_messages_and_template_matter(judge: Judge):
    plain = request(make_png(0), "What is it?")
    other = request(make_png(0), "What is it?", temperature=1.0, max_tokens=1, seed=4, top_p=0.5, stop=("y",), draw=3)
    first, second = told(judge, [(plain, "yes"), (other, "yes")])
    assert first == pytest.approx(second, abs=1e-4)


def test_nothing_asked_is_nothing_told(judge: Judge):
    assert list(judge.answer_log_probs([])) == []


def test_the_protocol_knows_it(judge: Judge):
    assert isinstance(judge, AnswerLikelihood)
