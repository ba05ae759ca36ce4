"""A model that sees, in vLLM: answers and likelihoods are those of transformers, of a figure and of a judge too."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models.backends import open_backend
from models.protocols import ChatRequest, Image, Message, Text
from models.vllm import SEEN_AT_ONCE
from models.vllm_engine import load_picture
from tasks.calls import CallSettings, Limits
from tasks.lever.judge.judging import Judgment
from tasks.rag.indexing.figures import FigureRecord, FigureSettings, describe
from tests.kept_responses import Kept
from tests.lever.small_judges import asked, five_questions, judging
from tests.models.tiny_vision import make_png, make_tiny_qwen, make_tiny_qwen3


class Told(NamedTuple):
    """What one backend says to all that is asked here."""

    answers: dict[int, tuple[str, int | None]]
    log_probs: dict[int, float]
    figure: FigureRecord
    judgments: list[Judgment]
    likely: list[float]


@pytest.fixture(scope="module", params=[make_tiny_qwen, make_tiny_qwen3], ids=["Qwen2.5-VL", "Qwen3-VL"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return request.param(tmp_path_factory.mktemp("seeing"), context_tokens=4096)


@pytest.fixture(scope="module")
def chat(folder: Path, small: dict[str, Any]) -> Any:
    return open_backend("vllm", args={"pretrained": str(folder), **small}, pictures=True)


@pytest.fixture(scope="module")
def expected(folder: Path, pictures: Path) -> Told:
    """All of it before the engine is opened: two models are not in one process."""
    hf = open_backend("hf", args={"pretrained": str(folder), "device": "cpu"}, pictures=True)
    return told(hf, pictures)


@pytest.fixture(scope="module")
def found(expected: Told, chat: Any, pictures: Path) -> Told:
    return told(chat, pictures)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


def told(chat: Any, pictures: Path) -> Told:
    judge, questions = judging(chat, five_questions(pictures)), asked("abq", "bq", "q")
    return Told(
        answers={number: (one.text, one.prompt_tokens) for number, one in chat.complete_many(REQUESTS)},
        log_probs=dict(chat.answer_log_probs([(one, answer) for one in REQUESTS for answer in ANSWERS])),
        figure=described(chat),
        judgments=[one._replace(key=None) for one in judge.judge(questions)],
        likely=judge.gt_prob(questions),
    )


def described(chat: Any) -> FigureRecord:
    kept = FigureRecord(
        document="a" * 64, page=1, bbox=(1, 2, 3, 4), n=1, source="raster", image=None, status="kept", measures=None
    )
    limits = Limits(CallSettings(concurrency=1, tries=1), rng=random.Random(0))
    settings = FigureSettings(qwen3_vl_max_tokens=48)
    said = describe(kept, FIGURE, chat=chat, responses=Kept(), limits=limits, settings=settings)
    return said.model_copy(update={"response_key": None})


def showing(*pngs: bytes, template: bool = True) -> ChatRequest:
    parts: list[Text | Image] = []
    for number, png in enumerate(pngs):
        parts += [Image(png=png), Text(text=f"word{number} is it?")]
    parts.append(Text(text="Short answer:"))
    return ChatRequest(messages=(Message(role="user", content=tuple(parts)),), max_tokens=12, template=template)


PNGS = [make_png(seed, width=width) for seed, width in enumerate((16, 24, 40))]
FIGURE = make_png(5, width=64, height=48)
REQUESTS = [showing(*PNGS[:count], template=template) for count in (0, 1, 3) for template in (True, False)]
ANSWERS = ("word1", " word2 word3", "", "a longer answer than 8")


def test_answers_about_pictures_are_those_of_transformers_token_for_token(expected: Told, found: Told):
    assert found.answers == expected.answers


def test_answers_are_as_likely_as_in_transformers(expected: Told, found: Told):
    assert found.log_probs == pytest.approx(expected.log_probs, abs=2e-3)


def test_a_figure_is_described_in_the_words_of_transformers(expected: Told, found: Told):
    assert found.figure == expected.figure
    assert found.figure.status in ("described", "uninformative"), "the model has answered"


def test_a_judge_judges_and_finds_answers_as_likely(expected: Told, found: Told):
    assert found.judgments == expected.judgments
    assert found.likely == pytest.approx(expected.likely, rel=1e-2)


def test_pictures_are_decoded_as_answers_come(found: Told, chat: Any):
    asked = [showing(make_png(100 + number)) for number in range(2 * SEEN_AT_ONCE)]
    before = load_picture.cache_info().misses
    with closing(chat.complete_many(asked)) as answers:
        numbers = [next(answers)[0]]
        assert load_picture.cache_info().misses - before <= SEEN_AT_ONCE
        numbers += [number for number, _ in answers]
    assert sorted(numbers) == list(range(len(asked)))
