"""Answers that are not sure enough are withheld, and say where the closest place is."""

import math

import pytest

from tasks.rag.answering.graph import confidence_threshold, load_calibration, withhold_unsure
from tasks.rag.answers import AnswerSettings, Calibration, Citation, Draft

CITED = Citation(n=2, document="reports/harbour.pdf", digest="0" * 64, page=4, bbox=None, quote="Fees rose")
DRAFT = Draft("Fees rose [2].", (CITED,), confidence=0.6, reason="the best passage")


def test_a_sure_answer_is_given_as_it_is():
    assert withhold_unsure("Did fees rise?", DRAFT, least=0.6) is DRAFT


def test_an_unsure_answer_names_the_place_and_not_the_answer():
    withheld = withhold_unsure("Did fees rise?", DRAFT, least=0.7)
    assert withheld.abstained
    assert withheld.text == "No answer is sure enough. The closest place: harbour, page 4 [1]."
    assert [one.n for one in withheld.citations] == [1]
    assert "0.60" in str(withheld.reason)


@pytest.mark.parametrize(
    ("max_wrong", "least"), [(1.0, 0.0), (0.5, 0.0), (0.2, 0.2), (0.01, math.inf)], ids=["all", "half", "fifth", "none"]
)
def test_the_threshold_follows_from_the_calibration(max_wrong, least):
    known = Calibration(n=9, right=(0.9, 0.8), wrong=(0.2, 0.3))
    assert confidence_threshold(AnswerSettings(max_wrong=max_wrong, calibration=known)) == pytest.approx(least)


def test_our_calibration_is_large_enough_for_the_usual_promise():
    assert load_calibration().n >= 200
    assert 0 < confidence_threshold(AnswerSettings(max_wrong=0.05)) < 1
