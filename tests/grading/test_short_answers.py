"""Exact answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.grading.exact import are_same_words, grade_exact, read_answers
from tasks.grading.reading import FLEXIBLE

CASES = json.loads(Path(__file__).with_name("short_answers.json").read_text("utf-8"))


@pytest.mark.parametrize(("response", "answer"), CASES["answers"])
def test_the_answer_is_the_box_the_announced_or_the_last_line(response: str, answer: str | None) -> None:
    assert read_answers(response, FLEXIBLE).flexible == answer


@pytest.mark.parametrize(("gold", "said", "same"), CASES["same"])
def test_words_are_the_same_whatever_their_dress(gold: str, said: str, same: bool) -> None:
    assert are_same_words(gold, said) is same


def test_any_of_several_golds_is_right() -> None:
    item = Item(id="1", prompts=("?",), gold=["colour", "color"])
    answered = [(item, Response(item="1", turns=(Reply(text=f"Answer: {said}"),))) for said in ("Color", "hue")]
    assert [sample.score for sample in grade_exact(answered)] == [1.0, 0.0]


@given(st.text(max_size=200))
def test_any_text_is_the_same_as_itself(text: str) -> None:
    assert are_same_words(text, text)
