"""What every reranker must do, whichever runs behind the protocol."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from models.embedders import open_reranker
from models.model_errors import ModelUnavailable
from models.protocols import Reranker
from tests.contracts.backends import RERANKS, those
from tests.models.cross_encoders import ASKED

TEXTS = [*ASKED.values(), "", "no\0byte", "half a pair \ud83d", "공고 번호 20240001 😀", "the red door " * 3_000]


EVERY = those(RERANKS)


@EVERY
def test_there_is_one_finite_score_per_text(backend: Reranker) -> None:
    scores = backend.score("what is the price", TEXTS)
    assert (scores.shape, scores.dtype) == ((len(TEXTS),), np.float32)
    assert np.isfinite(scores).all()


@EVERY
@pytest.mark.parametrize("question", ASKED, ids=["price", "colour"])
def test_the_text_that_answers_scores_highest(backend: Reranker, question: str) -> None:
    answers = list(ASKED.values())
    assert answers[int(np.argmax(backend.score(question, answers)))] == ASKED[question]


@EVERY
@pytest.mark.parametrize("question", ["", "half a pair \ud83d", "가격은 얼마입니까?", "what is the price " * 3_000])
def test_any_question_is_taken(backend: Reranker, question: str) -> None:
    assert np.isfinite(backend.score(question, TEXTS)).all()


@EVERY
def test_a_score_depends_on_its_pair_alone(backend: Reranker) -> None:
    together = backend.score("what is the price", TEXTS)
    alone = np.concatenate([backend.score("what is the price", [text]) for text in TEXTS])
    turned = backend.score("what is the price", TEXTS[::-1])[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    np.testing.assert_allclose(together, turned, atol=1e-4)


@EVERY
def test_threads_may_share_a_reranker(backend: Reranker) -> None:
    questions = [*ASKED] * 8
    with ThreadPoolExecutor(4) as pool:
        scores = list(pool.map(lambda question: backend.score(question, TEXTS), questions))
    expected = {question: backend.score(question, TEXTS) for question in ASKED}
    for question, found in zip(questions, scores, strict=True):
        np.testing.assert_allclose(found, expected[question], atol=1e-4)


@pytest.mark.parametrize("name", ["", "  ", "no such/model name", "nobody/nothing@main", "/no/such/folder", "a" * 999])
def test_a_wrong_name_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="reranker"):
        open_reranker(name)
