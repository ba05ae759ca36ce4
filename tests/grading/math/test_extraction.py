"""The answer is found in a response, or it is said that there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.math.boxes import last_boxed
from tasks.grading.math.math_extraction import answer_in, read
from tasks.grading.reading import STRICT


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        pytest.param(r"so \boxed{5} it is", "5", id="box"),
        pytest.param(
            r"\boxed{1}, no, that was wrong; after a long time and much work we come to see \boxed{2}",
            "2",
            id="last box",
        ),
        pytest.param(r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}", id="nested braces"),
        pytest.param(r"\boxed 5.", "5", id="box without braces"),
        pytest.param(r"\boxed{\boxed{3}}", "3", id="box in a box"),
        pytest.param(r"\fbox{7}", "7", id="fbox"),
        pytest.param(r"\boxed{a\}b}", r"a\}b", id="escaped brace"),
        pytest.param(r"x = \boxed{1} or \boxed{2}", "1, 2", id="two boxes of one sentence"),
        pytest.param(r"so \boxed{5}. Again: \boxed{5}", "5", id="the same box twice"),
        pytest.param("\\boxed{5\nThat was it.", "5", id="unclosed box of a line"),
        pytest.param(r"we get \boxed{12", None, id="box that the end cuts off"),
        pytest.param(r"\boxed{}", None, id="empty box"),
        pytest.param("The answer is 5.", "5", id="phrase"),
        pytest.param("The final answer is: $x = 5$, since 3 + 2 = 5.", "x = 5", id="phrase with mathematics"),
        pytest.param("**Final Answer**\n\n$7$", "7", id="heading"),
        pytest.param("# Answer\n\n12", "12", id="markdown heading"),
        pytest.param("9 + 9 = 18\n#### 18", "18", id="four hashes"),
        pytest.param("따라서 정답은 42입니다.", "42", id="Korean"),
        pytest.param(
            r"Here \boxed{3} is a step. Final Answer: The final answer is $4$. I hope it is correct.",
            "4",
            id="Minerva's words",
        ),
        pytest.param(r"<think>\boxed{1}</think> So \boxed{2}", "2", id="reasoning is no answer"),
        pytest.param(r"<think>It is \boxed{1}", None, id="reasoning that never ends"),
        pytest.param("I do not know.", None, id="nothing"),
        pytest.param(r"First \boxed{6}, then \boxed{8}", "8", id="a box after a step"),
        pytest.param(r"A guess: \boxed{6}. On reflection, \boxed{8}.", "8", id="a box in another sentence"),
        pytest.param(r"It is \boxed{6}. Put yours in \boxed{}.", "6", id="a box to be filled"),
        pytest.param(r"<answer>\frac{2}{9}</answer>", r"\frac{2}{9}", id="answer tags"),
        pytest.param("<Answer>: 31 <|im_end|>", "31", id="a tag as a phrase, and a token of a template"),
        pytest.param(r"<answer>4</answer>, that is \boxed{5}", "5", id="the box wins over tags"),
        pytest.param("The total is #### 31", "31", id="four hashes in a line"),
        pytest.param("#### Step 2: Add\nThat gives 31.", None, id="a heading is no answer"),
        pytest.param("The answer is 9, since 4 + 5 = 9.", "9", id="what follows is a reason"),
        pytest.param("Ans: 3.5", "3.5", id="short for answer"),
        pytest.param("Thus $28$ is our answer. See part 3.", "28", id="announced behind it"),
        pytest.param("", None, id="empty"),
    ],
)
def test_answer_of_a_response(response: str, answer: str | None) -> None:
    assert read(response, STRICT).strict == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("0.5", "0.5"),
        ("$x$", "x"),
        (r"\(x\)", "x"),
        ("$$\n9\n$$", "9"),
        ("Therefore we have 12 of them", "12"),
        ("5 cm", "5 cm"),
        ("she has 14 pens", "14"),
        ("The total is **$2,310.50**. We took 4 steps.", "$2,310.50"),
        ("The area is 4*sqrt(3).", "4*sqrt(3)"),
        ("The curve is y = x^2 + 7", "y = x^2 + 7"),
        ("The point is (4, 9).", "(4, 9)"),
        ("2x = 18\nx = 9", "x = 9"),
        ("a = 4\nb = 6", "a = 4, b = 6"),
        ("11\n5/6", "5/6"),
        ("I would take (D)", "D"),
        ("-sqrt(7), sqrt(7), 2/sqrt(7), sqrt(2)", "-sqrt(7), sqrt(7), 2/sqrt(7), sqrt(2)"),
        ("삼각형입니다", "삼각형"),
    ],
)
def test_bare_answers_and_sentences_are_taken_too(text: str, answer: str) -> None:
    assert answer_in(text) == answer


@given(st.text(alphabet="ab{}\\$()[] \nboxed123", max_size=200))
def test_extraction_takes_any_text(text: str) -> None:
    assert read(text, STRICT).strict is None or answer_in(text) is not None


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
    for found in (read(text, STRICT).strict, answer_in(text)):
        assert found is None or len(found) <= len(text)


def test_a_box_in_very_many_boxes_is_found_in_linear_time() -> None:
    deep = 300_000
    assert last_boxed("\\boxed{" * deep + "7" + "}" * deep) == "7"
