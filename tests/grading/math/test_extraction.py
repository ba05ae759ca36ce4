"""The answer is found in a response, or it is said that there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.math.boxes import last_boxed
from tasks.grading.math.math_extraction import answer_in, read_answers
from tasks.grading.reading import STRICT

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))


@pytest.mark.parametrize(("response", "answer"), ANSWERS["announced"])
def test_answer_of_a_response(response: str, answer: str | None) -> None:
    assert read_answers(response, STRICT).strict == answer


@pytest.mark.parametrize(("text", "answer"), ANSWERS["bare"])
def test_bare_answers_and_sentences_are_taken_too(text: str, answer: str) -> None:
    assert answer_in(text) == answer


@given(st.text(alphabet="ab{}\\$()[] \nboxed123", max_size=200))
def test_extraction_takes_any_text(text: str) -> None:
    assert read_answers(text, STRICT).strict is None or answer_in(text) is not None


@given(st.recursive(st.text("ab1+", max_size=5), lambda inner: inner.map(lambda text: f"{{{text}}}"), max_leaves=20))
def test_what_is_put_into_a_box_comes_out(content: str) -> None:
    assert last_boxed(f"text \\boxed{{{content}}} text") == content


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\\boxedx" * 1_400_000, id="no boxes"),
        pytest.param("\\boxed{" * 1_400_000, id="open boxes"),
        pytest.param("$$" * 5_000_000, id="dollars"),
        pytest.param("\\[" * 5_000_000, id="open displays"),
        pytest.param("answer is " * 1_000_000, id="phrases"),
        pytest.param("final answer is " * 600_000, id="Minerva's phrase"),
        pytest.param("\n" * 10_000_000, id="lines"),
        pytest.param("1," * 5_000_000, id="numbers"),
        pytest.param("the answer is a" + " " * 10_000_000 + "b", id="spaces"),
        pytest.param(" is our answer" * 700_000, id="announcements behind nothing"),
        pytest.param("<answer>" * 1_200_000, id="tags"),
        pytest.param("**1" * 3_000_000, id="stars"),
        pytest.param("(1," * 3_000_000, id="open brackets"),
        pytest.param("\0\ud800" * 5_000_000, id="signs that are none"),
        pytest.param("\\boxed{" + "{" * 3_000_000 + "}" * 3_000_000 + "}", id="deep braces"),
    ],
)
@pytest.mark.timeout(20)
@pytest.mark.slow
def test_ten_megabytes_are_read_in_time(text: str) -> None:
    for found in (read_answers(text, STRICT).strict, answer_in(text)):
        assert found is None or len(found) <= len(text)


def test_a_box_in_very_many_boxes_is_found_in_linear_time() -> None:
    deep = 300_000
    assert last_boxed("\\boxed{" * deep + "7" + "}" * deep) == "7"
