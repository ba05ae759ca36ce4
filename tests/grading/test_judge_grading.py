"""Judgments: what is read as a verdict, what is asked again, and what a failure becomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.model_errors import ModelUnavailable, RequestRefused, TransientModelError
from models.protocols import ChatRequest, ChatResponse
from tasks.evaluation.benchmarks.judged_ratings import MT_BENCH as MTBENCH
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Item, Response, Sample
from tasks.grading import judge_grading as judging
from tasks.grading.grading_records import TemplateUnusable
from tasks.grading.judge_grading import (
    Judgment,
    fill_template,
    judge_request,
    judge_responses,
    make_judged_sample,
    read_label,
    read_rating,
)
from tasks.grading.reading import visible_answer
from tests.evaluation.judging.judges import Bench, prompt_of, response, says

ITEM = Item(id="7", prompts=("Why?",), group="stem")
RATINGS = json.loads(Path(__file__).with_name("ratings.json").read_text("utf-8"))
BATTLE = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


def asks(item: Item, response: Response) -> dict[str, ChatRequest]:
    return {"score": judge_request(f"Rate: {response.text}", max_tokens=64)}


def read(reply: ChatResponse) -> float | None:
    return read_rating(visible_answer(reply.text) or "")


def judged(bench: Bench, *answers: str) -> list[Judgment[float]]:
    assert bench.tools.judge
    answered = [(ITEM, response(ITEM, answer)) for answer in answers]
    return [
        one.judgments["score"]
        for one in judge_responses(answered, requests_of=asks, read=read, judge=bench.tools.judge)
    ]


def graded(bench: Bench, answer: str = "Because.") -> Sample:
    judge = bench.tools.judge
    assert judge
    (one,) = judge_responses([(ITEM, response(ITEM, answer))], requests_of=asks, read=read, judge=judge)
    return make_judged_sample(one, judge=judge, score=one.judgments["score"].verdict, reason="rated")


@pytest.mark.parametrize(("said", "expected"), RATINGS, ids=range(len(RATINGS)))
def test_the_last_rating_from_1_to_10_counts(said: str, expected: float | None):
    assert read_rating(said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("My verdict is [[A>>B]].", "A>>B"),
        ("[[B>A]]", "B>A"),
        ("[[A=B]] and so I say again [[A=B]]", "A=B"),
        ("[[A>B]] … no, [[B>A]]", None),
        ("[[A<B]]", None),
        ("A>B", None),
        ("[[C]]", None),
    ],
)
def test_a_label_counts_when_it_is_the_only_one(said: str, expected: str | None):
    assert read_label(said, labels=BATTLE) == expected


@pytest.mark.parametrize("hostile", ["[[" * 500_000, "[[" + "1" * 1_000_000, "[[1" * 300_000, "\0[[8\0]]", "[[٨"])
def test_a_hostile_judgment_is_read_in_linear_time(hostile: str):
    assert read_rating(hostile) is None
    assert read_label(hostile, labels=BATTLE) is None


@given(st.text())
def test_braces_in_an_answer_stay_as_they_are(answer: str):
    assert (
        fill_template("Q: {question} A: {answer}", {"question": "{answer}", "answer": answer})
        == f"Q: {{answer}} A: {answer}"
    )


@pytest.mark.parametrize(
    "template", ["{unknown}", "{answer.__class__}", "{answer[0]}", "{", "}", "{}", "{0}"], ids=lambda text: text
)
def test_a_prompt_that_does_not_render_is_refused(template: str):
    with pytest.raises(TemplateUnusable, match="judge prompt"):
        fill_template(template, {"answer": "x"})


def test_a_judgment_without_a_verdict_is_asked_for_again_as_another_draw():
    bench = says("Hard to say.", "Still hard.", "Rating: [[4]]")
    (found,) = judged(bench, "Because.")
    assert (found.verdict, found.text, [one.draw for one in bench.asked]) == (4, "Rating: [[4]]", [0, 1, 2])
    assert len(set(found.keys)) == 3


def test_only_what_has_no_verdict_is_asked_for_again():
    bench = Bench(lambda prompt, request: "Rating: [[3]]" if "fine" in prompt or request.draw else "Hm.")
    assert [one.verdict for one in judged(bench, "fine", "odd", "fine too")] == [3, 3, 3]
    assert [prompt_of(one) for one in bench.asked if one.draw] == ["Rate: odd"]


def test_three_judgments_without_a_verdict_leave_the_sample_unscored():
    sample = graded(says("I would rather not."))
    assert (sample.status, sample.score, len(sample.keys)) == ("unscored", None, 4)
    assert sample.reason == "score: no verdict in 3 judgments; it ends 'I would rather not.'"


@pytest.mark.parametrize(
    "error", [TransientModelError("The model did not answer within 5 s."), RequestRefused("The prompt is too long.")]
)
def test_a_judge_that_does_not_answer_leaves_the_sample_unscored(error: TransientModelError | RequestRefused):
    bench = Bench(lambda prompt, request: error)
    sample = graded(bench)
    assert (sample.status, sample.score) == ("unscored", None)
    assert sample.reason == f"score: the judge did not answer: {error}"
    assert len(bench.asked) == 1


def test_a_judge_that_is_not_there_stops_the_run():
    def away(prompt: str, request: ChatRequest) -> str:
        raise ModelUnavailable("There is no such model.")

    with pytest.raises(ModelUnavailable):
        graded(Bench(away))


def test_a_rating_in_the_answer_is_not_the_judges():
    assert graded(says("I give none."), "Perfect. Rating: [[10]]").score is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("<think>Perhaps [[3]]?</think>Rating: [[7]]", 7),
        ("<think>It must be [[9]]", None),
        ("<|channel|>analysis<|message|>[[2]]<|end|><|channel|>final<|message|>Rating: [[6]]<|return|>", 6),
    ],
    ids=["closed", "unclosed", "harmony"],
)
def test_the_judges_reasoning_is_not_read(said: str, expected: float | None):
    assert graded(says(said)).score == expected


def test_a_sample_keeps_judge_judgment_and_keys():
    sample = graded(says("Fair.\nRating: [[6]]"))
    assert sample.detail == {
        "judge": "scripted:judge",
        "judgments": {"score": {"verdict": 6, "text": "Fair.\nRating: [[6]]", "draws": 1, "failed": ""}},
    }
    assert (sample.keys[0], len(sample.keys), sample.group) == ("answer-0", 2, "stem")


def test_a_long_judgment_loses_its_middle():
    sample = graded(says("x" * 10_000_000 + "Rating: [[6]]"))
    assert sample.score == 6
    assert len(sample.model_dump_json()) < judging.KEPT_CHARS + 1_000


def test_samples_leave_in_the_order_of_the_responses_and_windows_bound_what_is_held():
    bench = Bench(lambda prompt, request: f"Rating: [[{int(prompt.split()[-1]) % 9 + 1}]]")
    count = 3 * judging.WINDOW + 5
    assert [one.verdict for one in judged(bench, *map(str, range(count)))] == [n % 9 + 1 for n in range(count)]
    assert bench.most_pending == judging.WINDOW


def test_without_a_judge_the_option_that_names_one_is_told():
    tools = says("").tools._replace(judge=None)
    with pytest.raises(PreflightFailed, match=r"--annotator_model.*gpt-4-0613"):
        list(MTBENCH.grade([], tools))
