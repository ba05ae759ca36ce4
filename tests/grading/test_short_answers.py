"""Exact answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.grading.exact import grade_exact, read, same_words
from tasks.grading.reading import FLEXIBLE


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Answer: Venus", "Venus"),
        ("**Answer:** Venus", "Venus"),
        ("Explanation: no moon.\nAnswer: Venus\nConfidence: 90%", "Venus"),
        ("The answer is Venus", "Venus"),
        ("The answer is Mars. No.\nAnswer: Venus", "Venus"),
        ("So \\boxed{Venus}. Answer: Mars", "Venus"),
        ("정답: 금성", "금성"),
        ("It has no moon.\n\nVenus", "Venus"),
        ("Answer:\n\nVenus", "Venus"),
        ("<think>Answer: Mars</think>Venus", "Venus"),
        ("<think>Answer: Venus", None),
        ("", None),
    ],
)
def test_the_answer_is_the_box_the_announced_or_the_last_line(response: str, answer: str | None) -> None:
    assert read(response, FLEXIBLE).flexible == answer


@pytest.mark.parametrize(
    ("gold", "said", "same"),
    [
        ("Venus", "venus.", True),
        ("the Moon", "Moon", True),
        ("New York", "new  york", True),
        ("1,250", "1250", True),
        ("0.50", "0.5", True),
        ("①", "1", True),
        ("*Homo sapiens*", "Homo sapiens", True),
        ("Venus", "Venus and Mars", False),
        ("10", "100", False),
        ("1e5", "100000", True),
        ("nan", "inf", False),
        ("a", "an a", True),
        ("A", "", False),
    ],
)
def test_words_are_the_same_whatever_their_dress(gold: str, said: str, same: bool) -> None:
    assert same_words(gold, said) is same


def test_any_of_several_golds_is_right() -> None:
    item = Item(id="1", prompts=("?",), gold=["colour", "color"])
    answered = [(item, Response(item="1", turns=(Reply(text=f"Answer: {said}"),))) for said in ("Color", "hue")]
    assert [sample.score for sample in grade_exact(answered)] == [1.0, 0.0]


@given(st.text(max_size=200))
def test_any_text_is_the_same_as_itself(text: str) -> None:
    assert same_words(text, text)
