"""The VQA accuracy: by numbers worked by hand, and beside a second implementation on everything odd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.vqa_accuracy import CONTRACTIONS, normalise, vqa_accuracy
from tests.lever.second_vqa_accuracy import CONTRACTED, prepared, second_accuracy, trimmed

TEN = 10
NORMALISED = [*map(json.loads, Path(__file__).with_name("normalised_answers.jsonl").read_text("utf-8").splitlines())]
"""Answers, and how they are compared, oddities of the authors' program included."""
PIECES = st.sampled_from(
    [*"abz09.,?!'-/_`;@ \n\t", "the ", "One", " ten ", "dont", "couldnt've", "1,000", ". ", "٣,٤", "İ", "ß", "\u00a0"]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def ten(answer: str, agree: int, other: str = "halt") -> list[str]:
    return [answer] * agree + [other] * (TEN - agree)


@pytest.mark.parametrize(
    ("agree", "accuracy"),
    # with m of 10 people: m × min((m - 1) / 3, 1) + (10 - m) × min(m / 3, 1), over 10
    [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (7, 1.0), (10, 1.0)],
)
def test_accuracy_leaves_each_person_out_once(agree: int, accuracy: float) -> None:
    assert vqa_accuracy("stop", ten("stop", agree)) == accuracy


def test_an_answer_of_nobody_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="nobody answered"):
        vqa_accuracy("stop", [])


@pytest.mark.parametrize(("answer", "same"), NORMALISED)
def test_answers_are_prepared_as_the_authors_of_the_metric_have_it(answer: str, same: str) -> None:
    assert normalise(answer) == same


def test_the_table_of_contractions_is_the_authors() -> None:
    assert CONTRACTIONS == CONTRACTED
    assert len(CONTRACTIONS) == 120


@pytest.mark.parametrize(
    ("answer", "given_answers", "accuracy"),
    [
        pytest.param("The Stop.", ten("stop", 10), 0.0, id="all agree: to the letter"),
        pytest.param(" stop\n", ten("stop\t", 10), 1.0, id="all agree: but for white space around"),
        pytest.param("two", [*ten("2", 9, "2"), "2 "], 0.0, id="white space is no disagreement"),
        pytest.param("The Stop.", ten("stop", 9), 1.0, id="one disagrees: normalised"),
        pytest.param("stop", ["stop.", *["Stop"] * 2, *["go"] * 7], 0.9, id="people are normalised too"),
    ],
)
def test_texts_are_prepared_only_where_people_disagree(answer: str, given_answers: list[str], accuracy: float) -> None:
    assert vqa_accuracy(answer, given_answers) == accuracy


@pytest.mark.parametrize(
    ("answer", "given_answers", "plain", "stemmed"),
    [
        pytest.param("clothes", ten("cloth", 5), 0.0, 1.0, id="a prediction that is no stem"),
        pytest.param("ponies", ten("pony", 5), 0.0, 1.0, id="both sides"),
        pytest.param("riding horses", ten("ride horse", 10), 0.0, 1.0, id="where all agree, too"),
        pytest.param("dog", ten("cat", 5), 0.0, 0.0, id="other words stay others"),
    ],
)
def test_stems_are_compared_on_demand(answer: str, given_answers: list[str], plain: float, stemmed: float) -> None:
    assert (vqa_accuracy(answer, given_answers), vqa_accuracy(answer, given_answers, stem=True)) == (plain, stemmed)


@given(TEXTS)
def test_any_text_is_prepared_as_by_the_second_implementation(text: str) -> None:
    assert normalise(text) == prepared(trimmed(text))


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_any_answer_scores_as_by_the_second_implementation(said: str, kinds: list[str], data: st.DataObject) -> None:
    answers = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12))
    for one in (said, answers[0], answers[0].upper()):
        assert vqa_accuracy(one, answers) == pytest.approx(second_accuracy(one, answers), abs=1e-12)
