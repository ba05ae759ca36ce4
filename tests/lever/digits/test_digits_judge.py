"""The digits' judge reads prompts of every style alike, answers each as if it were alone, and refuses the rest."""

from __future__ import annotations

import random
from functools import cache
from itertools import product

import numpy as np
import pytest

from models.model_errors import ContextOverflow, ModelUnavailable, RequestRefused
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text, VisionEmbedder
from tasks.lever.digits import net
from tasks.lever.digits.digits_judge import CHUNK, NEVER, DigitsEncoder, DigitsJudge
from tasks.lever.digits.scenes import BOTH, LEFT, QUESTIONS, RIGHT, lexicon
from tests.lever.digits.prompts import Question, picture, question, request, weights

ASKED = question(BOTH, 3, 7)
SHOWN = (question(LEFT, 3, 1, seed=1), question(RIGHT, 5, 7, seed=2))


@pytest.fixture(scope="module")
def judge() -> DigitsJudge:
    return DigitsJudge(weights())


def some_requests(count: int) -> list[ChatRequest]:
    dice = random.Random(0)

    def one() -> Question:
        return question(dice.randrange(3), dice.randrange(10), dice.randrange(10), seed=dice.randrange(2))

    return [request(one(), *(one() for _ in range(dice.randrange(5)))) for _ in range(count)]


def test_a_chat_is_read_as_a_completion_is(judge: DigitsJudge):
    plain, other = request(ASKED, *SHOWN), request(ASKED, *SHOWN, style="chat")
    assert judge.complete(other) == judge.complete(plain)
    assert likely(judge, other, "dax wug") == likely(judge, plain, "dax wug")


def test_a_log_probability_does_not_depend_on_what_is_asked_with_it_to_the_last_bit(judge: DigitsJudge):
    pairs = [(one, answer) for one, answer in product(some_requests(CHUNK + 5), ("dax", "wug fep"))]
    together = dict(judge.answer_log_probs(pairs))
    backwards = dict(judge.answer_log_probs(pairs[::-1]))
    assert [together[number] for number in range(len(pairs))] == [likely(judge, *pair) for pair in pairs]
    assert [together[number] for number in range(len(pairs))] == [
        backwards[len(pairs) - 1 - number] for number in range(len(pairs))
    ]


@pytest.mark.parametrize("answer", ["", "a b c", "daxx", "dax daxx"])
def test_an_answer_without_words_of_the_judge_is_never_said(judge: DigitsJudge, answer: str):
    assert likely(judge, request(ASKED, *SHOWN), answer) == NEVER


def bare(*parts: Text | Image, **fields: float) -> ChatRequest:
    messages = (Message(role="user", content=parts),) if parts else ()
    return ChatRequest.model_validate({"messages": messages, **fields})


CUE = Text(text=f"Question:{QUESTIONS[0]} Short answer:")
SEEN = Image(png=picture(1, 2))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(bare(Text(text="Say it")), id="no question"),
        pytest.param(bare(SEEN, SEEN, CUE), id="a picture too many"),
        pytest.param(bare(SEEN, Text(text="Question:Why? Short answer:")), id="strange question"),
        pytest.param(bare(SEEN, CUE, temperature=0.5), id="drawing"),
    ],
)
def test_what_it_cannot_read_is_refused(judge: DigitsJudge, asked: ChatRequest):
    with pytest.raises(RequestRefused, match="with a picture for each question of its world"):
        judge.complete(asked)


def test_more_demonstrations_than_it_was_trained_on_are_too_many(judge: DigitsJudge):
    with pytest.raises(ContextOverflow, match="5 demonstrations"):
        judge.complete(request(ASKED, *[SHOWN[0]] * 5))


@pytest.mark.parametrize("data", [b"", b"nonsense" * 10, weights()[:-1], weights()[:500]])
def test_other_bytes_are_no_judge(data: bytes):
    with pytest.raises(ModelUnavailable, match="no judge of the digits' world"):
        DigitsJudge(data)


def answered(answer: object) -> str:
    assert isinstance(answer, ChatResponse)
    return answer.text


def likely(judge: DigitsJudge, asked: ChatRequest, answer: str) -> float:
    [(_, value)] = judge.answer_log_probs([(asked, answer)])
    return value


@cache
def trained() -> bytes:
    return net.train_judge()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_trained_judge_answers_in_any_lexicon_what_its_demonstrations_reveal_and_only_that(seed: int):
    judge, dice, names = DigitsJudge(trained()), random.Random(seed), lexicon(seed)
    right, blind = 0, 0
    for number in range(150):
        left, other, third = dice.sample(range(10), 3)
        asked = question(BOTH, left, other, seed=number, names=names)
        telling = (question(LEFT, left, third, seed=1, names=names), question(RIGHT, third, other, seed=2, names=names))
        silent = (question(RIGHT, left, third, seed=1, names=names), telling[1])
        right += judge.complete(request(asked, *telling)).text == asked.answer
        blind += judge.complete(request(asked, *silent)).text == asked.answer
    assert right >= 0.9 * 150
    assert blind <= 0.3 * 150


PNGS = [picture(left, right, seed) for left in (1, 4) for right in (2, 7) for seed in (0, 1)]


@pytest.fixture(scope="module")
def encoder() -> VisionEmbedder:
    return DigitsEncoder(weights())


def test_vectors_are_unit_vectors_of_one_space(encoder: VisionEmbedder):
    images, texts = encoder.embed_images(PNGS), encoder.embed_texts(QUESTIONS)
    assert images.shape == (8, encoder.dimension)
    assert texts.shape == (3, encoder.dimension)
    for vectors in (images, texts):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_like_pictures_are_nearer(encoder: VisionEmbedder):
    same_pair = np.repeat(np.eye(4, dtype=bool), 2, 0).repeat(2, 1) & ~np.eye(8, dtype=bool)
    other_pair = ~np.repeat(np.eye(4, dtype=bool), 2, 0).repeat(2, 1)
    images = encoder.embed_images(PNGS)
    likeness = images @ images.T
    assert likeness[same_pair].mean() > likeness[other_pair].mean() + 0.2
