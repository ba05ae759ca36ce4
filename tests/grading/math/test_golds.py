"""Each gold of the published benchmarks equals itself in a full response, and not the next one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.grading.math.math_grader import MathGrader
from tests.grading.math.golds import FILES, bare, golds, responses

NOT_ITSELF = {
    ("OlympiadBench", "$t(0,4]$", "assigned"): "a slip in the data: `t` stands before the interval without a sign",
}
"""Gold and rewriting that do not match, with the reason."""
SAME_AS_NEXT = {("MATH500", "5", "x=5"): "two problems in a row have the same answer, once with its variable"}


@pytest.fixture(scope="module")
def grader() -> Iterator[MathGrader]:
    with MathGrader() as opened:
        yield opened


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
