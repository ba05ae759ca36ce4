"""Three readers of one response: strict, flexible, and the rule of the benchmark's source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading import choice, exact, reading
from tasks.grading.choice import ChoiceQuestion, grade_choice
from tasks.grading.exact import grade_exact
from tasks.grading.math import math_extraction
from tasks.grading.math.math_grader import MathGrader, grade_math
from tasks.grading.reading import FLEXIBLE, STRICT, Pattern, Readings, Rule, last_box, readings_of, score_under

RESPONSES = json.loads(Path(__file__).with_name("responses.json").read_text("utf-8"))
BOX = Rule(("last_box",))


def math(response: str, rule: Rule = BOX) -> Readings:
    return math_extraction.read_answers(response, rule)


def letters(response: str, rule: Rule = BOX) -> Readings:
    return choice.read_choices(response, ChoiceQuestion("ABCD", ("Rome", "Oslo", "Bern", "Lima")), rule).readings


@pytest.mark.parametrize(("response", "published", "strict", "flexible"), RESPONSES["mathematics"])
def test_of_mathematics_strict_wants_it_announced_and_flexible_takes_where_it_stands(
    response: str, published: str | None, strict: str | None, flexible: str | None
) -> None:
    assert math(response) == (published, strict, flexible)


@pytest.mark.parametrize("response", RESPONSES["announced"])
def test_answers_are_announced_in_seven_languages(response: str) -> None:
    assert math(f"9 × 2 = 17?\n{response}").strict == "18"


@pytest.mark.parametrize(("response", "strict"), RESPONSES["letters"])
def test_letters_are_announced_too(response: str, strict: str) -> None:
    assert letters(response).strict == strict


@pytest.mark.parametrize(("response", "flexible"), RESPONSES["prose"])
def test_letters_in_prose_are_read_flexibly_only(response: str, flexible: str | None) -> None:
    assert letters(response) == (None, None, flexible)


def test_short_answers_are_bold_or_the_last_line() -> None:
    assert exact.read_answers("It is near.\nShe means **Venus**, I think.", FLEXIBLE) == ("Venus", None, "Venus")
    assert exact.read_answers("La respuesta es: Venus", STRICT) == ("Venus", "Venus", "Venus")


GSM8K = Rule((Pattern(last=r"(-?[$0-9.,]{2,})|(-?[0-9]+)"),))
MMLU_PRO = Rule(
    (
        Pattern(first=r"answer is \(?([A-J])\)?"),
        Pattern(first=r"(?m)^.*[aA]nswer:\s*([A-J])"),
        Pattern(last=r"\b([A-J])\b"),
    )
)


@pytest.mark.parametrize(
    ("response", "published"),
    [
        ("She makes 18 dollars.", "18"),
        ("It costs $1,250.", "$1,250."),
        ("That is 7", "7"),
        ("nothing", None),
        (r"\boxed{18}, within 7 days", "7"),  # the source's rule, though it is wrong here
    ],
)
def test_a_rule_takes_the_last_match(response: str, published: str | None) -> None:
    assert math(response, GSM8K).published == published


@pytest.mark.parametrize(
    ("response", "published"),
    [
        ("The answer is (B). No, the answer is (C).", "B"),
        ("answer: A, or answer: B\nanswer: C", "B"),
        ("It may be C or D.", "D"),
        ("no idea", None),  # the source guesses
    ],
)
def test_the_first_step_that_finds_something_decides(response: str, published: str | None) -> None:
    assert letters(response, MMLU_PRO).published == published


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{1} or \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"$\boxed 5$ it is", "5"),
        (r"\fbox{3}", "3"),
        (r"\boxed{3", None),
        ("3", None),
    ],
)
def test_the_last_box_is_that_of_hendrycks(text: str, content: str | None) -> None:
    assert last_box(text) == content


@pytest.mark.parametrize("broken", [{"last": "("}, {"last": "x"}, {}, {"first": "(x)", "last": "(x)"}])
def test_a_pattern_is_one_regular_expression_with_a_group(broken: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Pattern.model_validate(broken)


def graded(text: str, rule: Rule, gold: str = "18") -> Sample:
    answered = [(Item(id="a", prompts=("?",), gold=gold), Response(item="a", turns=(Reply(text=text),)))]
    with MathGrader() as grader:
        return next(grade_math(answered, grader, rule))


def test_a_right_answer_without_its_box_is_missing_as_published_and_right_flexibly() -> None:
    sample = graded("She makes **18** dollars.", BOX)
    assert (sample.score, sample.missing) == (0.0, True)
    assert readings_of(sample) == {"flexible": {"extracted": "18", "score": 1.0}}
    assert [score_under(policy, sample) for policy in ("published", "strict", "flexible")] == [0, 0, 1]


def test_equal_readings_keep_nothing_more() -> None:
    assert graded(r"\boxed{18}", BOX).detail == {}


def test_the_headline_is_of_the_chosen_policy() -> None:
    sample = graded("She makes **18** dollars.", BOX._replace(headline="flexible"))
    assert (sample.score, sample.extracted, sample.missing) == (1.0, "18", False)
    assert readings_of(sample) == {policy: {"extracted": None, "score": 0.0} for policy in ("published", "strict")}


def test_lines_are_searched_from_the_last_on_for_a_pattern_that_stays_within_a_line() -> None:
    def published(text: str, *, within_line: bool) -> str | None:
        return math(text, Rule((Pattern(last=r"\b(\d+)\b", within_line=within_line),))).published

    for text in ("1 2\nthree\n4 5\n", "\n", "6", "7\n\nnone", "8 x"):
        assert published(text, within_line=True) == published(text, within_line=False)


@pytest.mark.parametrize("policy", ["published", "strict", "flexible"])
def test_letters_and_words_are_graded_under_each_policy(policy: str) -> None:
    expected = float(policy == "flexible")
    response = Response(item="a", turns=(Reply(text="I think it's B"),))
    rule = BOX._replace(headline=policy)  # type: ignore[arg-type]
    item = Item(id="a", prompts=("?",), gold="B", detail={"options": ["Rome", "Oslo"]})
    assert next(grade_choice([(item, response)], rule)).score == expected
    response = Response(item="a", turns=(Reply(text="So it is.\nOslo"),))
    item = Item(id="a", prompts=("?",), gold="Oslo")
    assert next(grade_exact([(item, response)], rule)).score == expected


def test_a_pattern_that_backtracks_reads_nothing_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reading, "PATTERN_S", 0.05)
    rule = Rule((Pattern(first=r"((?:a|aa)+)$"), "last_box"))
    assert rule.read("a" * 60 + r"b\boxed{18}", None, None).published == "18"
    assert "published pattern took over" in caplog.text
