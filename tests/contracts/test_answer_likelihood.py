"""What every model promises that tells how likely an answer to a request is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from models.model_errors import RequestRefused
from models.protocols import AnswerLikelihood, ChatRequest, Image, Message, Text
from models.scripted import ScriptedChat
from tasks.lever.digits.scenes import QUESTIONS
from tests.contracts.backends import BATCHES, JUDGES, SEES, those
from tests.models.tiny_vision import make_png

ANSWERS = ["dax", "wug", "dax wug", "wug dax", "", " dax", "word1", "예산", "half a pair \ud83d", "Yes"]
EVERY = those(JUDGES, SEES)
TEMPLATES = pytest.mark.parametrize("template", [True, False], ids=["chat template", "as it stands"])


def pictures(judge: AnswerLikelihood) -> Sequence[bytes]:
    """Four that this judge reads."""
    if judge.id.startswith("digits"):
        from tests.contracts.digits_world import scenes

        return scenes()
    return [make_png(seed, width=16 + 8 * seed) for seed in range(4)]


def asking(
    backend: AnswerLikelihood, number: int, *, shown: int = 0, template: bool = True, **fields: Any
) -> ChatRequest:
    """The question about the picture of that number, behind so many demonstrations."""
    pngs, parts = pictures(backend), list[Text | Image]()
    for place in range(shown, -1, -1):
        answer = ["", "dax", "wug"][place]
        png = pngs[(number + place) % len(pngs)]
        parts += [Image(png=png), Text(text=f"Question:{QUESTIONS[0]} Short answer:{answer}")]
    return ChatRequest(messages=(Message(role="user", content=tuple(parts)),), template=template, **fields)


def told(backend: AnswerLikelihood, asked: list[tuple[ChatRequest, str]]) -> list[float]:
    found = list(backend.answer_log_probs(asked))
    assert sorted(number for number, _ in found) == list(range(len(asked)))
    by_number = dict(found)
    return [by_number[number] for number in range(len(asked))]


@EVERY
@TEMPLATES
def test_neither_batch_nor_order_changes_a_likelihood(backend: AnswerLikelihood, template: bool):
    asked = [
        (asking(backend, number, shown=number % 3, template=template), answer) for number, answer in enumerate(ANSWERS)
    ]
    alone = [told(backend, [one])[0] for one in asked]
    assert told(backend, asked) == pytest.approx(alone, abs=1e-3)
    assert told(backend, asked[::-1]) == pytest.approx(alone[::-1], abs=1e-3)


@EVERY
@TEMPLATES
def test_different_answers_share_one_probability(backend: AnswerLikelihood, template: bool):
    question = asking(backend, 0, shown=1, template=template)
    logs = told(backend, [(question, answer) for answer in ANSWERS])
    assert all(math.isfinite(log) and log <= 0 for log in logs)
    assert 0 < sum(math.exp(log) for log in set(logs)) <= 1


@EVERY
@TEMPLATES
def test_another_picture_makes_another_likelihood(backend: AnswerLikelihood, template: bool):
    answer = "dax"
    if isinstance(backend, ScriptedChat):  # all but its own answer is equally unlikely to it
        answer = backend.complete(asking(backend, 0)).text
    first, second = told(backend, [(asking(backend, number, template=template), answer) for number in (0, 1)])
    assert abs(first - second) > 1e-4


@EVERY
def test_only_messages_and_template_matter(backend: AnswerLikelihood):
    plain = asking(backend, 0)
    other = asking(backend, 0, temperature=1.0, max_tokens=1, seed=4, top_p=0.5, stop=("a",), draw=3)
    first, second = told(backend, [(plain, "dax"), (other, "dax")])
    assert first == pytest.approx(second, abs=1e-4)


@those(JUDGES, SEES, BATCHES)
def test_what_is_no_picture_is_refused_behind_the_likelihoods_of_the_others(backend: AnswerLikelihood):
    broken = ChatRequest(messages=(Message(role="user", content=(Image(png=b"no picture"),)),))
    coming = iter(backend.answer_log_probs([(broken, "dax"), (asking(backend, 0), "dax")]))
    assert next(coming)[0] == 1
    with pytest.raises(RequestRefused):
        next(coming)
