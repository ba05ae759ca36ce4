"""What a file of questions says of an index, and how the database holds it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tasks.rag.measuring.answer_checks import AnswerCheck
from tasks.rag.measuring.measured_figures import (
    Measurement,
    Provenance,
    Subject,
    list_estimates,
    measure,
    record,
    unknown_documents,
)
from tasks.rag.measuring.ranking_metrics import Place, Question, rank_questions

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def question(id: str, kind: str, *, answerable: bool = True) -> Question:
    return Question(
        id=id,
        question="?",
        document="a.pdf" if answerable else None,
        pages=(1,) if answerable else (),
        answerable=answerable,
        labels={"kind": kind},
    )


QUESTIONS = [
    question("1", "table"),
    question("2", "text"),
    question("3", "text"),
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


def test_gold_documents_that_the_index_lacks_are_named_and_counted() -> None:
    asked = [Question(id=str(at), question="?", document=f"{at % 5}.pdf") for at in range(10)]
    assert unknown_documents(asked, {f"{at}.pdf" for at in range(5)}) is None
    said = unknown_documents(asked, {"4.pdf"})
    assert said == (
        "the index has no document 0.pdf, 1.pdf, 2.pdf and 1 more, which is the gold of 8 of 10 questions; "
        "they count as misses"
    )


def test_every_figure_has_a_full_name_and_its_n() -> None:
    told = {(one.metric, one.part): (one.value, one.n) for one in list_estimates(measure(RANKED, CHECKS))}
    assert told["page.hit@1", ""] == (pytest.approx(1 / 3), 3)
    assert told["answers.number", ""] == (0.5, 2)
    assert told["answers.abstention.false_answer_rate", ""] == (1.0, 1)
    assert [told[f"answers.{name}", ""] for name in ("right", "wrong", "abstained")] == [(0.5, 4), (0.5, 4), (0.0, 4)]


def test_a_run_is_recorded_with_its_figures_and_items() -> None:
    measured = measure(RANKED, CHECKS)
    evaluated = record(
        Measurement(measured, RANKED, tuple(CHECKS)),
        QUESTIONS,
        run="r",
        provenance=Provenance("0.1.0", None, NOON, NOON),
        subject=Subject("000001-a", "d" * 64, {"embedder": "minilm"}),
        file=Path("sets/own.jsonl"),
        settings={"strategy": "rrf"},
    )
    assert (evaluated.dataset.name, evaluated.dataset.count) == ("own", 4)
    assert len({(result.metric, result.part) for result in evaluated.results}) == len(evaluated.results)
    assert [sample.item for sample in evaluated.samples] == ["1", "2", "3", "4"]
    assert "page" not in evaluated.samples[3].detail
