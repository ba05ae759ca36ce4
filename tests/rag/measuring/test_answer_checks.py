"""Checks of answers: gold numbers in any spelling, gold words, citations on gold pages, abstention."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import pytest

from tasks.rag.answers import Answered, Citation, RetrievalPlan, Turn
from tasks.rag.measuring.answer_checks import AnswerCheck, check_answer, check_answers, summarise_answers
from tasks.rag.measuring.ranking_metrics import Question

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Event

PLAN = RetrievalPlan(query_type="single", strategy="rrf", top_k=3, needs_multi_doc=False)


def citation(document: str, page: int | None) -> Citation:
    return Citation(n=1, document=document, digest="d" * 64, page=page, bbox=None, quote="…", chunk_id="c")


def answered(
    text: str, *citations: Citation, question: str = "?", abstained: bool = False, unsupported: Sequence[str] = ()
) -> Answered:
    return Answered(
        question=question,
        answer=text,
        citations=citations,
        abstained=abstained,
        unsupported=tuple(unsupported),
        plan=PLAN,
        retrieved=(),
    )


def question(answer: str | None = None, *, document: str = "a.pdf", pages: tuple[int, ...] = (3,)) -> Question:
    return Question(id="1", question="?", document=document, pages=pages, answer=answer)


@pytest.mark.parametrize(
    ("cited", "on_page", "in_document"),
    [
        ([citation("a.pdf", 3)], True, True),
        ([citation("b.pdf", 3), citation("a.pdf", 3)], True, True),
        ([citation("a.pdf", 4)], False, True),
        ([citation("b.pdf", 3)], False, False),
        ([], False, False),
    ],
    ids=["gold page", "second citation", "other page", "other document", "none"],
)
def test_a_citation_counts_on_a_gold_page(cited: list[Citation], on_page: bool, in_document: bool) -> None:
    check = check_answer(question("x"), answered("x", *cited), document="a.pdf")
    assert (check.citation, check.document) == (on_page, in_document)


def test_a_gold_number_counts_in_another_unit() -> None:
    check = check_answer(question("$7,296 million"), answered("It was $7.3 billion [3]."), document="a.pdf")
    assert (check.number, check.verdict) == (True, "right")


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (AnswerCheck(id="1", answerable=True, number=True), "right"),
        (AnswerCheck(id="1", answerable=True, contains=False), "wrong"),
        (AnswerCheck(id="1", answerable=True, number=False, abstained=True), "abstained"),
        (AnswerCheck(id="1", answerable=False), "wrong"),
        (AnswerCheck(id="1", answerable=False, abstained=True), "abstained"),
        (AnswerCheck(id="1", answerable=True, citation=True), None),
        (AnswerCheck(id="1", answerable=True, abstained=True), None),
        (AnswerCheck(id="1", answerable=False, unscored="too loud"), None),
    ],
)
def test_a_verdict_is_right_wrong_or_abstained(check: AnswerCheck, verdict: str | None) -> None:
    assert check.verdict == verdict


class Echo:
    """Answers with the question before it, and refuses what is `!`."""

    def __init__(self) -> None:
        self.history: list[tuple[str, ...]] = []

    def ask(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        documents: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered:
        if question == "!":
            raise ValueError("too loud")
        self.history.append(tuple(turn.question for turn in history))
        return answered(question, citation("a.pdf", 3), question=question, abstained=question == "nobody")


def test_earlier_turns_are_asked_first() -> None:
    echo = Echo()
    check_answers([Question(id="1", question="and B?", document="a.pdf", turns=("What is A?", "Why?"))], echo)
    assert echo.history == [(), ("What is A?",), ("What is A?", "Why?")]


def test_a_question_that_is_refused_is_unscored_and_the_others_go_on() -> None:
    asked = [Question(id="1", question="!", document="a.pdf"), Question(id="2", question="fine", document="a.pdf")]
    refused, fine = check_answers(asked, Echo())
    assert (refused.unscored, fine.unscored) == ("too loud", None)
    figures = summarise_answers([refused, fine])
    assert (figures.n, figures.unscored) == (1, 1)


def test_the_gold_document_is_known_by_any_of_its_names() -> None:
    (check,) = check_answers(
        [Question(id="1", question="x", document="copy.pdf", pages=(3,))], Echo(), name_of=lambda _: "a.pdf"
    )
    assert check.citation


def test_each_kind_of_question_has_its_counts_its_curve_and_its_calibration_error() -> None:
    # of ten answers the surest six are right and the others wrong; a table is withheld
    texts = [
        AnswerCheck(id=f"{n}", kind="text", answerable=True, number=n < 6, confidence=round(0.95 - n / 20, 2))
        for n in range(10)
    ]
    withheld = AnswerCheck(id="t", kind="table", answerable=True, number=False, abstained=True, confidence=0.3)
    kinds = summarise_answers([*texts, withheld]).kinds
    assert [(name, one.n, one.right, one.wrong, one.abstained) for name, one in kinds.items()] == [
        ("all", 11, 6, 4, 1),
        ("table", 1, 0, 0, 1),
        ("text", 10, 6, 4, 0),
    ]
    text = kinds["text"]
    assert [text.risk_at(coverage) for coverage in (0.1, 0.6, 0.8, 1.0)] == [0, 0, 0.25, 0.4]
    assert text.calibration_error == pytest.approx(0.725 - 0.6)
    assert (kinds["all"].risk_at(1.0), kinds["table"].curve, kinds["table"].calibration_error) == (None, (), None)


def test_answers_of_equal_confidence_are_one_point_of_the_curve() -> None:
    checks = [AnswerCheck(id=f"{n}", answerable=True, number=n > 0, confidence=0.9) for n in range(4)]
    [point] = summarise_answers(checks).kinds["all"].curve
    assert (point.coverage, point.risk, point.confidence) == (1.0, 0.25, 0.9)


def test_the_shares_of_answers() -> None:
    checks = [
        AnswerCheck(id="1", answerable=True, number=True, citation=True, document=True, supported=True),
        AnswerCheck(id="2", answerable=True, number=False, citation=True, document=True, supported=False),
        AnswerCheck(id="3", answerable=True, contains=True, citation=False, document=True, supported=True),
        AnswerCheck(id="4", answerable=True, number=False, citation=False, document=False, abstained=True),
        AnswerCheck(id="5", answerable=False, abstained=True),
        AnswerCheck(id="6", answerable=False, abstained=True),
        AnswerCheck(id="7", answerable=False, abstained=False, supported=True),
    ]
    figures = summarise_answers(checks)
    shares = {name: (share.value, share.n) for name, share in figures if hasattr(share, "value")}
    assert shares == {
        "right": (pytest.approx(2 / 7), 7),
        "wrong": (pytest.approx(2 / 7), 7),
        "abstained": (pytest.approx(3 / 7), 7),
        "correct": (0.5, 4),
        "number": (pytest.approx(1 / 3), 3),
        "contains": (1.0, 1),
        "citation": (0.5, 4),
        "document": (0.75, 4),
        "supported": (0.75, 4),
    }
    abstention = figures.abstention
    assert abstention.answerable_answered
    assert abstention.unanswerable_abstained
    assert abstention.false_answer_rate
    assert abstention.answerable_answered.value == 0.75
    assert abstention.unanswerable_abstained.value == pytest.approx(2 / 3)
    assert abstention.false_answer_rate.value == pytest.approx(1 / 3)
