"""Samples of mathematics."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading.math import math_grader
from tasks.grading.math.math_grader import MathGrader, grade_math
from tests.grading.math.golds import FILES, bare, golds, responses


@pytest.fixture(scope="module")
def grader() -> Iterator[MathGrader]:
    with MathGrader() as opened:
        yield opened


def graded(grader: MathGrader, gold: JsonValue, text: str, **detail: JsonValue) -> Sample:
    item = Item(id="1", prompts=("?",), gold=gold, detail=detail, group="algebra")
    response = Response(item="1", turns=(Reply(text=text, key="k"),))
    (sample,) = grade_math([(item, response)], grader)
    return sample


def test_sample_says_what_was_compared(grader: MathGrader) -> None:
    assert graded(grader, "1/2", "So \\boxed{0.5}") == Sample(
        item="1", score=1, extracted="0.5", gold="1/2", reason="numeric: 0.5 = 1/2", group="algebra", keys=("k",)
    )


@pytest.mark.parametrize("text", ["", "I give up.", "<think>\\boxed{5}", "\\boxed{}"])
def test_response_without_an_answer_is_missing(text: str, grader: MathGrader) -> None:
    sample = graded(grader, "5", text)
    assert (sample.status, sample.score, sample.extracted, sample.missing) == ("scored", 0, None, True)
    assert "no answer" in sample.reason


def test_cut_off_response_is_marked(grader: MathGrader) -> None:
    item = Item(id="1", prompts=("?",), gold="5")
    response = Response(item="1", turns=(Reply(text="so \\boxed{5", finish_reason="length"),))
    (sample,) = grade_math([(item, response)], grader)
    assert (sample.truncated, sample.missing, sample.score) == (True, True, 0)


@pytest.mark.parametrize(
    ("gold", "detail", "answer", "score"),
    [
        pytest.param(["1", "2", "3"], {}, "3, 1, 2", 1, id="several, any order"),
        pytest.param(["1", "2", "3"], {}, "3, 1", 0, id="several, one missing"),
        pytest.param(["$221,$8$"], {}, "8, 221", 1, id="a gold with a dollar too many"),
        pytest.param(["$(1,2)$", "$(3,4)$"], {}, "(3,4), (1,2)", 1, id="several pairs"),
        pytest.param(["4.2"], {"tolerance": "1e-1", "unit": "%"}, "4.25\\%", 1, id="within the tolerance"),
        pytest.param(["4.2"], {"tolerance": 0.1}, "4.31", 0, id="beyond the tolerance"),
        pytest.param(["4.2"], {"tolerance": 0.1}, "x", 0, id="tolerance without a number"),
        pytest.param(["\\frac{41}{12}"], {"unit": "km"}, "\\frac{41}{12} \\text{ km}", 1, id="unit"),
        pytest.param(["\\frac{41}{12}"], {"unit": "km"}, "\\frac{41}{12}", 1, id="without the unit"),
        pytest.param(["\\frac{41}{12}"], {"unit": "km"}, "\\frac{41}{12}\\text{ m}", 0, id="another unit"),
        pytest.param(["90"], {"unit": "^{\\circ}"}, "90^\\circ", 1, id="degrees"),
        pytest.param(18, {}, "18", 1, id="a number"),
    ],
)
def test_gold_of_an_item(
    gold: JsonValue, detail: dict[str, JsonValue], answer: str, score: float, grader: MathGrader
) -> None:
    assert graded(grader, gold, f"So $\\boxed{{{answer}}}$", **detail).score == score


def test_item_without_gold_is_named(grader: MathGrader) -> None:
    with pytest.raises(ValueError, match="item 1 has no gold"):
        graded(grader, None, "5")


def test_failing_grader_leaves_the_sample_unscored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(math_grader, "WORKER", tmp_path / "not there.py")
    with MathGrader() as grader:
        sample = graded(grader, r"\int_0^1 2x\,dx", "\\boxed{1}")
    assert (sample.status, sample.score) == ("unscored", None)
    assert sample.reason


# Each gold of the published benchmarks equals itself in a full response, and not the next one.


NOT_ITSELF = {
    ("OlympiadBench", "$t(0,4]$", "assigned"): "a slip in the data: `t` stands before the interval without a sign",
}
"""Gold and rewriting that do not match, with the reason."""
SAME_AS_NEXT = {("MATH500", "5", "x=5"): "two problems in a row have the same answer, once with its variable"}


@pytest.mark.shared
@pytest.mark.parametrize("task", FILES)
def test_gold_equals_itself_in_a_response(task: str, shared: Path, grader: MathGrader) -> None:
    pairs = [(gold, name, response) for gold in golds(shared, task) if gold for name, response in responses(gold)]
    wrong = {(task, gold, name) for gold, name, response in pairs if not grader.compare(gold, response).equal}
    assert wrong == {listed for listed in NOT_ITSELF if listed[0] == task}


@pytest.mark.shared
@pytest.mark.parametrize("task", FILES)
def test_gold_does_not_equal_the_next_one(task: str, shared: Path, grader: MathGrader) -> None:
    listed = golds(shared, task)
    pairs = [(gold, after) for gold, after in itertools.pairwise(listed) if gold != after]
    same = {
        (task, gold, after) for gold, after in pairs if grader.compare(gold, f"So $\\boxed{{{bare(after)}}}$.").equal
    }
    assert same == {listed for listed in SAME_AS_NEXT if listed[0] == task}


# Labelled pairs of our own: a gold, answers that say the same, and near misses.


PAIRS = [
    (group["gold"], answer, equal)
    for line in Path(__file__).with_name("pairs.jsonl").read_text("utf-8").splitlines()
    for group in [json.loads(line)]
    for equal, answers in ((True, group["equal"]), (False, group["unequal"]))
    for answer in answers
]


def test_pairs_are_judged_as_labelled(grader: MathGrader) -> None:
    judged = [(gold, answer, equal, grader.compare(gold, answer)) for gold, answer, equal in PAIRS]
    assert [each for each in judged if (each[-1].equal, each[-1].failed) != (each[2], None)] == []


def test_pairs_are_judged_the_same_inside_a_response(grader: MathGrader) -> None:
    def response(answer: str) -> str:
        inner = re.fullmatch(r"\\boxed\{(.*)\}|(?<!\\)\$(.*)\$|\\\((.*)\\\)", answer)
        answer = next((group for group in inner.groups() if group), "") if inner else answer
        return f"First $a = 3$, so 17 remain.\n\nHence the answer is $\\boxed{{{answer}}}$."

    assert [pair for pair in PAIRS if grader.compare(pair[0], response(pair[1])).equal != pair[2]] == []
