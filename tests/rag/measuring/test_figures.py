"""What a file of questions says of an index."""

from __future__ import annotations

import pytest

from tasks.rag.measuring.answer_checks import AnswerCheck
from tasks.rag.measuring.measured_figures import (
    choose,
    list_estimates,
    measure,
)
from tasks.rag.measuring.ranking_metrics import Place, Question, rank_questions


def question(id: str, kind: str, *, answerable: bool = True, split: str = "dev") -> Question:
    return Question(
        id=id,
        question="?",
        document="a.pdf" if answerable else None,
        pages=(1,) if answerable else (),
        answerable=answerable,
        labels={"kind": kind, "split": split},
    )


QUESTIONS = [
    question("1", "table"),
    question("2", "text"),
    question("3", "text", split="held"),
    question("4", "none", answerable=False),
]
RANKED = rank_questions(QUESTIONS, lambda one: [Place("a.pdf", 1 if one.id == "1" else 2)])
CHECKS = [
    AnswerCheck(id="1", answerable=True, number=True, citation=True),
    AnswerCheck(id="2", answerable=True, number=False, citation=True),
    AnswerCheck(id="3", answerable=True, contains=True, citation=False),
    AnswerCheck(id="4", answerable=False, abstained=False),
]


def test_questions_that_are_all_unanswerable_measure_abstention_alone() -> None:
    measured = measure([], CHECKS[3:])
    assert (measured.n, measured.page, measured.document) == (0, {}, {})
    assert measured.answers
    assert measured.answers.n == 1


def test_a_split_is_chosen_by_name() -> None:
    assert [one.id for one in choose(QUESTIONS, "held")] == ["3"]
    assert choose(QUESTIONS, None) == QUESTIONS


def test_every_figure_has_a_full_name_and_its_n() -> None:
    told = {(one.metric, one.part): (one.value, one.n) for one in list_estimates(measure(RANKED, CHECKS))}
    assert told["page.hit@1", ""] == (pytest.approx(1 / 3), 3)
    assert told["answers.number", ""] == (0.5, 2)
    assert told["answers.abstention.false_answer_rate", ""] == (1.0, 1)
    assert [told[f"answers.{name}", ""] for name in ("right", "wrong", "abstained")] == [(0.5, 4), (0.5, 4), (0.0, 4)]
