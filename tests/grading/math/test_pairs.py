"""Labelled pairs of our own: a gold, answers that say the same, and near misses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.grading.math.math_grader import MathGrader

PAIRS = [
    (group["gold"], answer, equal)
    for line in Path(__file__).with_name("pairs.jsonl").read_text("utf-8").splitlines()
    for group in [json.loads(line)]
    for equal, answers in ((True, group["equal"]), (False, group["unequal"]))
    for answer in answers
]


@pytest.fixture(scope="module")
def grader() -> Iterator[MathGrader]:
    with MathGrader() as opened:
        yield opened


def test_there_are_as_many_near_misses_as_answers() -> None:
    assert len(PAIRS) >= 400
    assert sum(not equal for _, _, equal in PAIRS) * 2 >= len(PAIRS)


@pytest.mark.parametrize(("gold", "answer", "equal"), PAIRS, ids=[f"{g} {'=' if e else '≠'} {a}" for g, a, e in PAIRS])
def test_pair_is_judged_as_labelled(gold: str, answer: str, equal: bool, grader: MathGrader) -> None:
    verdict = grader.compare(gold, answer)
    assert (verdict.equal, verdict.failed) == (equal, None)


@pytest.mark.parametrize(("gold", "answer", "equal"), PAIRS, ids=[f"{g} {'=' if e else '≠'} {a}" for g, a, e in PAIRS])
def test_pair_is_judged_the_same_inside_a_response(gold: str, answer: str, equal: bool, grader: MathGrader) -> None:
    inner = re.fullmatch(r"\\boxed\{(.*)\}|(?<!\\)\$(.*)\$|\\\((.*)\\\)", answer)
    answer = next((group for group in inner.groups() if group), "") if inner else answer
    response = f"First $a = 3$, so 17 remain.\n\nHence the answer is $\\boxed{{{answer}}}$."
    assert grader.compare(gold, response).equal == equal
