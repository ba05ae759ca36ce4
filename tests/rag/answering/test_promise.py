"""Answers that are not sure enough are withheld, and say where the closest place is."""

import math

import pytest

from tasks.rag.answering.graph import kept, our_calibration, threshold
from tasks.rag.answers import AnswerSettings, Calibration, Citation, Draft

CITED = Citation(n=2, document="reports/harbour.pdf", digest="0" * 64, page=4, bbox=None, quote="Fees rose")
DRAFT = Draft("Fees rose [2].", (CITED,), confidence=0.6, reason="the best passage")


def test_a_sure_answer_is_given_as_it_is():
    assert kept("Did fees rise?", DRAFT, least=0.6) is DRAFT


def test_an_unsure_answer_names_the_place_and_not_the_answer():
    withheld = kept("Did fees rise?", DRAFT, least=0.7)
    assert withheld.abstained
    assert withheld.text == "No answer is sure enough. The closest place: harbour, page 4 [1]."
    assert [one.n for one in withheld.citations] == [1]
    assert "0.60" in str(withheld.reason)


def test_a_korean_question_is_answered_in_korean():
    assert kept("요금이 올랐나?", DRAFT, least=0.7).text.startswith(
        "충분히 확실한 답이 없습니다. 가장 가까운 곳: harbour 4쪽"
    )


@pytest.mark.parametrize(
    ("question", "place"), [("Did fees rise?", "plan.pptx, slide 4"), ("요금이 올랐나?", "plan.pptx 슬라이드 4")]
)
def test_a_page_of_a_presentation_is_a_slide(question: str, place: str):
    cited = CITED.model_copy(update={"document": "plan.pptx", "page_source": "slides"})
    assert f": {place} [1]." in kept(question, DRAFT._replace(citations=(cited,)), least=0.7).text


def test_an_answer_without_confidence_is_not_withheld():
    draft = DRAFT._replace(confidence=None)
    assert kept("Did fees rise?", draft, least=math.inf) is draft


@pytest.mark.parametrize(
    ("max_wrong", "least"), [(1.0, 0.5), (0.5, 0.0), (0.2, 0.2), (0.01, math.inf)], ids=["all", "half", "fifth", "none"]
)
def test_the_threshold_follows_from_the_calibration(max_wrong, least):
    known = Calibration(n=9, right=(0.9, 0.8), wrong=(0.2, 0.3))
    assert threshold(AnswerSettings(max_wrong=max_wrong, calibration=known)) == pytest.approx(least)


def test_our_calibration_is_large_enough_for_the_usual_promise():
    assert our_calibration().n >= 200
    assert 0 < threshold(AnswerSettings(max_wrong=0.05)) < 1
