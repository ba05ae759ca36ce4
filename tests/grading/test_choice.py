from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.grading.choice import Asked, find_choice, find_unannounced, grade_choice
from tasks.grading.reasoning import visible_answer

CITIES = ("Lisbon", "Porto", "Coimbra", "Faro")
NUMBERS = ("4", "8", "15", "16")
FORMULAS = ("$\\frac{1}{2}$", "$\\dfrac{3}{4}$", "$x^{2}+1$", "$90^\\circ$")
SENTENCES = ("It rises.", "It falls.", "It stays the same.", "None of the above")
VITAMINS = ("K", "C", "A", "D")

# response, the letters it settles on
BOXES = [
    (r"\boxed{B}", "B"),
    (r"So we get \boxed{C}.", "C"),
    (r"$\boxed{D}$", "D"),
    (r"\(\boxed{A}\)", "A"),
    (r"\boxed{(B)}", "B"),
    (r"\boxed{[C]}", "C"),
    (r"\boxed{\text{B}}", "B"),
    (r"\boxed{\text{(C)}}", "C"),
    (r"\boxed{\textbf{(D)}}", "D"),
    (r"\boxed{\mathrm{A}}", "A"),
    (r"\boxed{\mathbf{B}}", "B"),
    (r"\boxed{\boxed{C}}", "C"),
    (r"\boxed{ D }", "D"),
    (r"\boxed{b}", "B"),
    (r"\boxed{(c)}", "C"),
    (r"\boxed{B.}", "B"),
    (r"\boxed{C)}", "C"),
    (r"\boxed{Option B}", "B"),
    (r"\boxed{\text{Option C}}", "C"),
    (r"\boxed{\text{Answer: D}}", "D"),
    (r"\boxed{B) Porto}", "B"),
    (r"\boxed{(C) Coimbra}", "C"),
    (r"\boxed{\text{D. Faro}}", "D"),
    (r"\boxed{A: Lisbon}", "A"),
    (r"\boxed{Porto}", "B"),
    (r"\boxed{\text{Coimbra}}", "C"),
    (r"\boxed{\text{faro.}}", "D"),
    (r"A, B and C all look possible, but A and B fail. \boxed{C}", "C"),
    (r"The answer is A. No: \boxed{D}", "D"),
    (r"\boxed{B}. The answer is (A) in the older edition.", "B"),
    (r"First \boxed{A}. After checking, the final one:" + "\n\n" + r"\boxed{B}", "B"),
    (r"\boxed{①}", "A"),
    (r"\boxed{3번}", "C"),
    (r"\boxed{\,B\,}", "B"),
    (r"\boxed{\,\text{C}\;}", "C"),
    (r"\fbox{D}", "D"),
    (r"The value is \boxed{17}. The answer is (B).", "B"),
    (r"\boxed{B or C}", "BC"),
    (r"\boxed{A, C}", "AC"),
]
STATEMENTS = [
    ("ANSWER: C", "C"),
    ("Answer: C", "C"),
    ("answer: C.", "C"),
    ("Answer:C", "C"),
    ("Answer : C", "C"),
    ("Answer - C", "C"),
    ("Answer: (C)", "C"),
    ("Answer: [C]", "C"),
    ("Answer: $C$", "C"),
    ("**Answer: A**", "A"),
    ("**Answer:** B", "B"),
    ("**Answer**: B", "B"),
    ("__Answer__: D", "D"),
    ("Answer: **D**", "D"),
    ("Answer: `C`", "C"),
    ('Answer: "C"', "C"),
    ("Answer: C) Coimbra", "C"),
    ("Answer: C. Coimbra", "C"),
    ("Answer: Coimbra", "C"),
    ("Answer: coimbra.", "C"),
    ("Final Answer: D", "D"),
    ("### Final Answer\n\n**B**", "B"),
    ("### Answer\nC", "C"),
    ("## Answer: C", "C"),
    ("Final answer → B", "B"),
    ("The answer is (D)", "D"),
    ("The answer is (D).", "D"),
    ("The answer is D.", "D"),
    ("The answer is: D", "D"),
    ("The answer is **D**.", "D"),
    ("The answer is option B.", "B"),
    ("The answer is Option (B).", "B"),
    ("The answer is choice A, since the others fail.", "A"),
    ("The answer is therefore C.", "C"),
    ("The answer is clearly B", "B"),
    ("The answer must be A.", "A"),
    ("the correct answer is B because the river is longer.", "B"),
    ("The correct answer is A because the river is longer.", "A"),
    ("The correct option is (C).", "C"),
    ("The correct choice is: B", "B"),
    ("The best answer is C.", "C"),
    ("My answer is D", "D"),
    ("The right answer was B.", "B"),
    ("The answer to the question is C", "C"),
    ("Answer choice: B", "B"),
    ("The answer is \\text{C}.", "C"),
    ("The answer is \\(\\mathbf{B}\\).", "B"),
    ("The answer is Porto.", "B"),
    ("The answer is Porto, on the Douro.", "B"),
    ("The answer is (b).", "B"),
    ("Answer: b", "B"),
    ("Answer: c)", "C"),
    ("The answer is A. Wait, that forgets the harbour. The answer is B.", "B"),
    ("Option A is tempting. Option C is correct for the north only. ANSWER: D", "D"),
    ("Answer: C\nConfidence: 90%", "C"),
    ("Explanation: A and D are ruled out.\nAnswer: B\nConfidence: 75%", "B"),
    ("The answer is either B or C.", "BC"),
    ("The answer is A and B.", "AB"),
    ("The answer is C, D would be farther south.", "C"),
    ("Could the answer be A? No. The answer is D", "D"),
    ("정답: ②", "B"),
    ("정답: C", "C"),
    ("정답은 C", "C"),
    ("정답은 C입니다.", "C"),
    ("정답은 ③입니다.", "C"),
    ("정답은 ③번입니다.", "C"),
    ("정답은 2번입니다.", "B"),
    ("정답: 3", "C"),
    ("정답은 (D)이다.", "D"),
    ("답은 A입니다.", "A"),
    ("따라서 답: B", "B"),
    ("**정답: D**", "D"),
    ("최종 정답은 **B**입니다.", "B"),
    ("정답은 Porto입니다.\n\nB", "B"),
    ("答案是C。", "C"),
    ("答案：B", "B"),
]
REMARKS = [
    ("Option C is correct.", "C"),
    ("So option (B) is the correct one here.", "B"),
    ("C is the correct answer.", "C"),
    ("(D) is the best option.", "D"),
    ("I would choose B.", "B"),
    ("I'd pick option D here.", "D"),
    ("Therefore, (C).", "C"),
    ("Thus option B.", "B"),
    ("③번이 정답입니다.", "C"),
    ("C가 정답이다.", "C"),
    ("B가 맞습니다.", "B"),
]
LINES = [
    ("C", "C"),
    ("c", "C"),
    ("(C)", "C"),
    ("**C**", "C"),
    ("C.", "C"),
    ("C)", "C"),
    ("②", "B"),
    ("Porto", "B"),
    ("B. Porto", "B"),
    ("(B) Porto", "B"),
    ("The river is long and wide.\n\nB", "B"),
    ("The river is long and wide.\n\n**(D)**", "D"),
    ("B\n\nThe river is long and wide.", "B"),
    ("<think>A? no, the answer is A…</think>\nC", "C"),
    ("The harbour, then.\n\nFaro", "D"),
]
NONE = [
    "",
    "I do not know.",
    "I think a good answer needs more data.",
    "The answer is a prime number.",
    "The answer is I think not among these.",
    "The answer is not B.",
    "A, B, C and D are all wrong.",
    "Answer: E",
    "\\boxed{E}",
    "\\boxed{}",
    "\\boxed{C",
    "Option C is not correct.",
    "Option A is incorrect.",
    "The answers are hard to find.",
    "<think>The answer is C",
    "See Appendix A.",
    "A B-movie is shown in Faro today",
    "정답을 알 수 없습니다.",
    "대답은 어렵습니다.",
]


def found(response: str, options: tuple[str, ...] = CITIES, *, several: bool = False) -> str | None:
    visible = visible_answer(response)
    asked = Asked("ABCDEFGHIJ"[: len(options)], options, several)
    if visible is None:
        return None
    choice = find_choice(visible, asked) or find_unannounced(visible, asked)
    return choice and choice.letters


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(BOXES) + len(STATEMENTS) + len(REMARKS) + len(LINES) + len(NONE) >= 120


@pytest.mark.parametrize(("response", "letters"), BOXES)
def test_a_box_names_the_choice(response: str, letters: str) -> None:
    assert found(response) == letters


@pytest.mark.parametrize(("response", "letters"), STATEMENTS)
def test_a_statement_names_the_choice(response: str, letters: str) -> None:
    assert found(response) == letters


@pytest.mark.parametrize(("response", "letters"), REMARKS)
def test_a_remark_names_the_choice_when_nothing_is_stated(response: str, letters: str) -> None:
    assert found(response) == letters


@pytest.mark.parametrize(("response", "letters"), LINES)
def test_a_line_of_its_own_names_the_choice(response: str, letters: str) -> None:
    assert found(response) == letters


@pytest.mark.parametrize("response", NONE)
def test_stray_letters_are_no_choice(response: str) -> None:
    assert found(response) is None


@pytest.mark.parametrize(
    ("response", "options", "letters"),
    [
        (r"\boxed{15}", NUMBERS, "C"),
        ("The answer is 8.", NUMBERS, "B"),
        ("정답: 4", NUMBERS, "A"),  # the option, not the fourth
        ("정답: 4번", NUMBERS, "D"),
        (r"\boxed{\frac12}", FORMULAS, "A"),
        (r"\boxed{\frac{3}{4}}", FORMULAS, "B"),
        (r"The answer is $x^2 + 1$.", FORMULAS, "C"),
        (r"\boxed{90^{\circ}}", FORMULAS, "D"),
        (r"\boxed{\text{It stays the same}}", SENTENCES, "C"),
        ("The answer is: none of the above.", SENTENCES, "D"),
        ("The answer is it rises.", SENTENCES, "A"),
        (r"\boxed{A}", VITAMINS, "A"),  # a letter is a letter, though an option reads so too
        ("The answer is K.", VITAMINS, "A"),
        ("Answer: J", tuple("abcdefghij"), "J"),
        ("The answer is I.", tuple("qrstuvwxyz"), "I"),
        ("The answer is I because it is the only one left.", tuple("qrstuvwxyz"), "I"),
    ],
)
def test_the_text_of_an_option_counts_as_its_letter(response: str, options: tuple[str, ...], letters: str) -> None:
    assert found(response, options) == letters


@pytest.mark.parametrize(
    ("response", "letters"),
    [
        (r"\boxed{ABD}", "ABD"),
        (r"\boxed{A, B, D}", "ABD"),
        (r"\boxed{A B D}", "ABD"),
        (r"\boxed{\text{A and C}}", "AC"),
        (r"\boxed{(A), (C)}", "AC"),
        (r"\boxed{(A)(C)}", "AC"),
        (r"\boxed{DA}", "AD"),
        (r"\boxed{C}", "C"),
        ("The correct options are A, B and D.", "ABD"),
        ("The answers are (A) and (C).", "AC"),
        ("Answer: A, C", "AC"),
        ("정답: A, C", "AC"),
        ("정답은 A와 C입니다.", "AC"),
        ("Answer: ABD", "ABD"),
    ],
)
def test_several_letters_may_be_right(response: str, letters: str) -> None:
    assert found(response, ("1", "2", "3", "4"), several=True) == letters


def graded(response: str, *, gold: str = "B", several: bool = False, finish: str = "stop") -> dict[str, object]:
    item = Item(id="7", prompts=("?",), gold=gold, detail={"options": list(CITIES), "several": several})
    answer = Response(item="7", repeat=2, turns=(Reply(text=response, finish_reason=finish),))
    (sample,) = grade_choice([(item, answer)])
    return sample.model_dump()


@pytest.mark.parametrize(
    ("response", "gold", "score"),
    [("ACD", "ACD", 1.0), ("A, C", "ACD", 0.5), ("A", "ACD", 0.25), ("A, B", "ACD", 0.0), ("A, B, C, D", "ACD", 0.0)],
)
def test_a_part_of_several_letters_is_worth_a_quarter_each(response: str, gold: str, score: float) -> None:
    assert graded(f"\\boxed{{{response}}}", gold=gold, several=True)["score"] == score


def test_two_letters_are_wrong_where_one_is_asked_for() -> None:
    assert graded("\\boxed{A, B}")["score"] == 0.0


def test_a_sample_says_what_was_chosen_and_where() -> None:
    sample = graded("It is far north.\n\\boxed{B}")
    wanted = {"item": "7", "repeat": 2, "score": 1.0, "extracted": "B", "gold": "B", "reason": "box", "missing": False}
    assert {name: sample[name] for name in wanted} == wanted
    assert sample["detail"] == {"chosen": "Porto"}


def test_reasoning_that_was_cut_off_is_a_missing_answer_and_says_so() -> None:
    sample = graded("<think>B looks right, so the answer is B", finish="length")
    assert (sample["score"], sample["missing"], sample["truncated"]) == (0.0, True, True)
    assert sample["reason"] == "the reasoning was never closed"


def test_a_response_that_never_came_says_why() -> None:
    item = Item(id="1", prompts=("?",), gold="A", detail={"options": list(CITIES)})
    (sample,) = grade_choice([(item, Response(item="1", missed="longer than the context"))])
    assert sample.reason == "no response: longer than the context"


@given(letter=st.sampled_from("ABCD"), noise=st.text(max_size=60))
def test_whatever_stands_before_a_box_the_box_wins(letter: str, noise: str) -> None:
    before = re.sub(r"[\\<◁\[]|/?think", "", noise)
    assert found(f"{before}\n\n\\boxed{{{letter}}}") == letter


@given(st.text(max_size=300))
def test_any_text_is_graded(text: str) -> None:
    assert graded(text)["status"] == "scored"


HOSTILE = {
    "announcements": "the answer is " * 700_000,
    "colons": "answer:" + " " * 10_000_000,
    "boxes": r"\boxed{" * 1_400_000,
    "nested": r"\boxed{" * 5_000 + "?" + "}" * 5_000,
    "brackets": "((((" * 2_500_000 + "B",
    "letters": "A, B, C, " * 1_100_000,
    "newlines": "answer\n" * 1_400_000,
    "nul": "\0" * 10_000_000,
    "korean": "정답은 " * 2_500_000,
    "dashes": "answer" + "-" * 10_000_000,
    "surrogate": "\ud800 answer: \udfff" * 10_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_ten_megabytes_of_anything_are_graded(name: str) -> None:
    """Each takes about a second; a quadratic step would take hours, which the time-out of the run ends."""
    assert graded(HOSTILE[name])["score"] == 0.0


def test_ten_megabytes_before_the_answer_do_not_hide_it() -> None:
    assert graded("So the answer is A or so. " * 400_000 + "\n\nThe answer is (B).")["score"] == 1.0
