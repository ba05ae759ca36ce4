"""What every reranker must do, whichever runs behind the protocol."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from models.errors import ModelUnavailable
from models.protocols import Reranker
from models.rerankers import open_reranker
from tests.models.cross_encoders import ASKED, write_trained

TEXTS = [*ASKED.values(), "", "no\0byte", "half a pair \ud83d", "공고 번호 20240001 😀", "the red door " * 3_000]


@pytest.fixture(scope="module", params=["scripted", "one label", "two labels"])
def reranker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    if request.param == "scripted":
        return open_reranker("scripted")
    folder: Path = tmp_path_factory.mktemp("cross-encoder")
    return open_reranker(str(write_trained(folder, labels=1 if request.param == "one label" else 2)))


def test_there_is_one_finite_score_per_text(reranker: Reranker) -> None:
    scores = reranker.score("what is the price", TEXTS)
    assert (scores.shape, scores.dtype) == ((len(TEXTS),), np.float32)
    assert np.isfinite(scores).all()


def test_no_texts_have_no_scores(reranker: Reranker) -> None:
    assert reranker.score("what is the price", []).shape == (0,)


@pytest.mark.parametrize("question", ASKED, ids=["price", "colour"])
def test_the_text_that_answers_scores_highest(reranker: Reranker, question: str) -> None:
    answers = list(ASKED.values())
    assert answers[int(np.argmax(reranker.score(question, answers)))] == ASKED[question]


@pytest.mark.parametrize("question", ["", "half a pair \ud83d", "가격은 얼마입니까?", "what is the price " * 3_000])
def test_any_question_is_taken(reranker: Reranker, question: str) -> None:
    assert np.isfinite(reranker.score(question, TEXTS)).all()


def test_a_score_depends_on_its_pair_alone(reranker: Reranker) -> None:
    together = reranker.score("what is the price", TEXTS)
    alone = np.concatenate([reranker.score("what is the price", [text]) for text in TEXTS])
    turned = reranker.score("what is the price", TEXTS[::-1])[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    np.testing.assert_allclose(together, turned, atol=1e-4)


def test_the_same_call_gives_the_same_bits(reranker: Reranker) -> None:
    assert np.array_equal(reranker.score("what", TEXTS), reranker.score("what", TEXTS))


def test_threads_may_share_a_reranker(reranker: Reranker) -> None:
    questions = [*ASKED] * 8
    with ThreadPoolExecutor(4) as pool:
        scores = list(pool.map(lambda question: reranker.score(question, TEXTS), questions))
    expected = {question: reranker.score(question, TEXTS) for question in ASKED}
    for question, found in zip(questions, scores, strict=True):
        np.testing.assert_allclose(found, expected[question], atol=1e-4)


@pytest.mark.parametrize("name", ["", "  ", "no such/model name", "nobody/nothing@main", "/no/such/folder", "a" * 999])
def test_a_wrong_name_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="the reranker"):
        open_reranker(name)
