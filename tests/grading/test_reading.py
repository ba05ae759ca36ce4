"""Three readers of one response: strict, flexible, and the rule of the benchmark's source."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading import choice, exact, reading
from tasks.grading.choice import Asked, grade_choice
from tasks.grading.exact import grade_exact
from tasks.grading.math import math_extraction
from tasks.grading.math.math_grader import MathGrader, grade_math
from tasks.grading.reading import (
    FLEXIBLE,
    STRICT,
    Pattern,
    Readings,
    Rule,
    last_box,
    readings_of,
    score_under,
)

BOX = Rule(("last_box",))


def math(response: str, rule: Rule = BOX) -> Readings:
    return math_extraction.read(response, rule)


def letters(response: str, rule: Rule = BOX) -> Readings:
    return choice.read(response, Asked("ABCD", ("Rome", "Oslo", "Bern", "Lima")), rule).readings


@pytest.mark.parametrize(
    ("response", "published", "strict", "flexible"),
    [
        (r"So \boxed{18}.", "18", "18", "18"),
        ("The answer is 18.", None, "18", "18"),
        ("9 * 2 = 18\n#### 18", None, "18", "18"),
        ('{"reasoning": "9 * 2", "answer": "18"}', None, "18", "18"),
        ('{"steps": 2, "final_answer": 18}', None, "18", "18"),
        ("18", None, None, "18"),
        ("$18$", None, None, "18"),
        ("Therefore, she makes 18 dollars every day.", None, None, "18"),
        ("She makes **18** dollars.", None, None, "18"),
        ("9*2=18\n\n18", None, None, "18"),
        ("It follows that she makes\n18", None, None, "18"),
        ("She sells 9 eggs for $2 each.\nSo $x = 18$ dollars in total.", None, None, "x = 18"),
        ("<think>The answer is 18.</think>" + "I cannot say, since nobody counted them. " * 6, None, None, None),
        ("<think>The answer is 18.", None, None, None),
    ],
)
def test_of_mathematics_strict_wants_it_announced_and_flexible_takes_where_it_stands(
    response: str, published: str | None, strict: str | None, flexible: str | None
) -> None:
    assert math(response) == (published, strict, flexible)


@pytest.mark.parametrize(
    "response",
    [
        "정답은 18입니다.",
        "답: 18",
        "최종 답은 18이다.",
        "答案是18。",
        "所以，最终答案为：18",
        "答：18",
        "答えは18です。",
        "したがって、答え：18",
        "正解は 18 である。",
        "Die Antwort ist 18.",
        "Die Antwort auf die Frage lautet 18.",
        "**Antwort:** 18",
        "Das Ergebnis beträgt 18.",
        "La réponse est 18.",
        "La réponse à la question est 18.",
        "Réponse finale : 18",
        "La respuesta es 18.",
        "Respuesta final: 18",
        "La respuesta correcta es **18**.",
    ],
)
def test_answers_are_announced_in_seven_languages(response: str) -> None:
    assert math(f"9 × 2 = 17?\n{response}").strict == "18"


@pytest.mark.parametrize(
    ("response", "strict"),
    [
        ("정답은 (B)입니다.", "B"),
        ("答案是B。", "B"),
        ("答えはBです。", "B"),
        ("Die Antwort lautet B.", "B"),
        ("La bonne réponse est (B).", "B"),
        ("La respuesta correcta es B.", "B"),
        ("#### B", "B"),
        ('{"answer": "B"}', "B"),
        ("B is the correct answer.", "B"),
    ],
)
def test_letters_are_announced_too(response: str, strict: str) -> None:
    assert letters(response).strict == strict


@pytest.mark.parametrize(
    ("response", "flexible"),
    [
        ("B", "B"),
        ("It rains there.\n\nB\n\nThat is why I took my coat along.", "B"),
        ("I think it's B", "B"),
        ("Hmm, for sure D, given how far it lies.", "D"),
        ("I would say C because of the lakes.", "C"),
        ("Of all these **B) Oslo** lies farthest north, as maps show it.", "B"),
        ("I think a city would do.", None),
        ("I think I know a place where it rains.", None),
    ],
)
def test_letters_in_prose_are_read_flexibly_only(response: str, flexible: str | None) -> None:
    assert letters(response) == (None, None, flexible)


def test_short_answers_are_bold_or_the_last_line() -> None:
    assert exact.read("It is near.\nShe means **Venus**, I think.", FLEXIBLE) == ("Venus", None, "Venus")
    assert exact.read("La respuesta es: Venus", STRICT) == ("Venus", "Venus", "Venus")


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
    with MathGrader(workers=1) as grader:
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
