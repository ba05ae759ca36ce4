"""What a model thought is parted from what it answered."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.reading import FINAL_CHANNEL, TAGS, visible_answer, visible_text

HARMONY = "<|channel|>analysis<|message|>Is it 3?<|end|><|start|>assistant"
# no text of these signs holds a tag of any kind
plain = st.text("ab <>/[]◁▷|\n", max_size=20).filter(lambda text: not any(tag in text for pair in TAGS for tag in pair))


@pytest.mark.parametrize(("opening", "closing"), TAGS, ids=[opening for opening, _ in TAGS])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<It may be \\boxed{3}.>\n\nIt is 4. ", "It is 4."),
        ("It may be 3.>It is 4.", "It is 4."),
        ("<It is \\boxed{4}.", None),
        ("<a>It is 4.<Or is it 5?", None),
        ("<a<b>c>It is 4.", "It is 4."),
        ("It is 3. <No.> It is 4.", "It is 4."),
        ("<It is 4.>\n", ""),
    ],
    ids=["before", "the template began it", "never ends", "begins again", "nested", "between", "nothing behind"],
)
def test_reasoning_is_taken_away(opening: str, closing: str, text: str, answer: str | None) -> None:
    assert visible_answer(re.sub("[<>]", lambda sign: opening if sign[0] == "<" else closing, text)) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param("It is 4.", "It is 4.", id="no reasoning"),
        pytest.param("", "", id="empty"),
        pytest.param("1 < 2 and a/think b", "1 < 2 and a/think b", id="signs of tags"),
        pytest.param("<think>a</think><thinking>b</thinking>c", "c", id="two kinds"),
        pytest.param("<think>a</think>[THINK]b", None, id="two kinds, the second open"),
        pytest.param(f"{HARMONY}<|channel|>final<|message|>It is 4.<|return|>", "It is 4.", id="harmony"),
        pytest.param(f"{HARMONY}<|channel|>final<|message|>It is 4.", "It is 4.", id="harmony, no end"),
        pytest.param(
            f"{HARMONY}<|channel|>final<|message|>It is 4.<|end|><|start|>user", "It is 4.", id="harmony, more"
        ),
        pytest.param(HARMONY, None, id="harmony, thought only"),
        pytest.param("<|channel|>final<|message|>", "", id="harmony, empty"),
        pytest.param(
            "<|channel|>final<|message|>It is 3.<|end|><|channel|>final<|message|>It is 4.",
            "It is 4.",
            id="harmony, two",
        ),
        pytest.param(
            "<|channel|>commentary<|message|>I call.<|call|><|channel|>final<|message|>Done.",
            "Done.",
            id="harmony, tool",
        ),
    ],
)
def test_a_table_of_texts(text: str, answer: str | None) -> None:
    assert visible_answer(text) == answer


@given(plain, plain, st.sampled_from(TAGS))
def test_whatever_was_thought_the_answer_is_the_same(thought: str, answer: str, tags: tuple[str, str]) -> None:
    opening, closing = tags
    assert visible_answer(f"{opening}{thought}{closing}{answer}") == visible_answer(answer) == answer.strip()
    assert visible_answer(f"{HARMONY}{FINAL_CHANNEL}{answer}<|return|>") == answer.strip()


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 200_000,
        "</think>" * 200_000,
        "<|channel|>" * 100_000,
        "◁think▷x◁/think▷" * 100_000,
        "\x00\ud800<think>",
    ],
    ids=["opened", "closed", "channels", "many", "odd signs"],
)
def test_hostile_texts_neither_hang_nor_raise(text: str) -> None:
    assert visible_answer(text) in (None, "")


PROGRAM = "    if x:\n        return 1\n    return 2\n\n"


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        pytest.param(PROGRAM, PROGRAM, id="no reasoning"),
        pytest.param(f"<think>It is long.</think>\n\n{PROGRAM}", f"\n\n{PROGRAM}", id="blank lines before"),
        pytest.param(f"{HARMONY}{FINAL_CHANNEL}{PROGRAM}<|return|>", PROGRAM, id="harmony"),
        pytest.param("\t \r\n", "\t \r\n", id="white space"),
        pytest.param("<think>It is long.", None, id="never closed"),
    ],
)
def test_text_keeps_its_indentation_and_its_lines(text: str, visible: str | None) -> None:
    assert visible_text(text) == visible
