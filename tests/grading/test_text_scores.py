"""Scores of whole answers, beside figures worked by hand."""

from __future__ import annotations

import pytest

from tasks.grading.exact import Measure, f1, grade_text, includes, matches
from tasks.grading.grading_records import Item, Reply, Response

SLOW = "a" * 40 + "!"


def score(measure: Measure, answer: str, *golds: str) -> float | None:
    item = Item(id="1", prompts=("?",), gold=list(golds) or None)
    [sample] = grade_text([(item, Response(item="1", turns=(Reply(text=answer),)))], measure)
    return sample.score


@pytest.mark.parametrize(
    ("measure", "answer", "golds", "expected"),
    [
        (includes, "It is in PARIS, I think.", ("Paris",), 1),
        (includes, "It is in Rome.", ("Paris", "Lyon"), 0),
        (includes, "<think>Paris?</think>Rome.", ("Paris",), 0),
        (includes, "수도는 서울입니다.", ("부산", "서울"), 1),
        (matches(r"\d{4}-\d{2}"), "due 2026-11", (), 1),
        (matches(r"\d{4}-\d{2}"), "due soon", (), 0),
        (matches(r"total: (\S+)"), "total: 1\ntotal: 2", ("2",), 1),
        (matches(r"total: (\S+)"), "total: 2\ntotal: 1", ("2",), 0),
        (f1, "The cat sat.", ("a cat sat down",), 4 / 5),  # 2 words shared of 2 and 3
        (f1, "cat cat", ("cat",), 2 / 3),
        (f1, "the", ("dog",), 0),
        (f1, "dog", ("bird", "dog"), 1),
    ],
)
def test_an_answer_is_scored(measure: Measure, answer: str, golds: tuple[str, ...], expected: float) -> None:
    assert score(measure, answer, *golds) == pytest.approx(expected, abs=1e-9)


def test_a_pattern_that_takes_for_ever_leaves_its_answer_unscored() -> None:
    item = Item(id="1", prompts=("?",))
    [sample] = grade_text([(item, Response(item="1", turns=(Reply(text=SLOW),)))], matches("^(a|a|aa)+$"))
    assert (sample.status, "more than 2 s" in sample.reason) == ("unscored", True)


def test_no_answer_is_missing() -> None:
    item = Item(id="1", prompts=("?",), gold="x")
    [sample] = grade_text([(item, Response(item="1", turns=(Reply(text="<think>x"),)))], includes)
    assert (sample.score, sample.missing) == (0, True)
