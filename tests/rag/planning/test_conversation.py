"""A conversation as its next question sees it."""

from __future__ import annotations

import pytest

from tasks.rag.answers import Answered, Citation, Filters, RetrievalPlan
from tasks.rag.planning.plan import history_of, recall, turn_of


def answer(question: str, *, cites: str = "", within: str = "") -> Answered:
    filters = Filters(mode="only", documents=tuple(within)) if within else Filters()
    return Answered(
        question=question,
        answer=f"to {question}",
        citations=tuple(citation(n, digest) for n, digest in enumerate(cites, start=1)),
        plan=RetrievalPlan(query_type="single", strategy="rrf", top_k=5, needs_multi_doc=False, filters=filters),
        retrieved=(),
    )


def citation(n: int, digest: str) -> Citation:
    return Citation(n=n, document=f"{digest}.pdf", digest=digest, page=1, bbox=None, quote="q", chunk_id="c")


def asked(*questions: str) -> list[str]:
    return [turn.question for turn in history_of([answer(question) for question in questions])]


@pytest.mark.parametrize(
    ("cites", "within", "documents"),
    [("aba", "", ("a", "b")), ("", "ab", ("a", "b")), ("a", "ab", ("a",)), ("", "", ())],
    ids=["cited", "looked-in", "cited-first", "anywhere"],
)
def test_a_follow_up_is_about_what_was_cited_or_else_looked_in(
    cites: str, within: str, documents: tuple[str, ...]
) -> None:
    assert turn_of(answer("?", cites=cites, within=within)).documents == documents


def test_history_is_oldest_first() -> None:
    assert asked("one?", "two?") == ["one?", "two?"]


def test_history_begins_at_the_last_question_that_begins_anew() -> None:
    assert asked("one?", "새 질문: two?", "three?", "새 질문: four?", "five?") == ["새 질문: four?", "five?"]


def test_kept_answers_come_back() -> None:
    answers = (answer("one?", cites="a"), answer("two?"))
    assert recall([each.model_dump(mode="json") for each in answers]) == (answers, 0)


def test_an_answer_of_another_version_is_left_out_and_counted() -> None:
    kept = answer("one?").model_dump(mode="json")
    assert recall([kept | {"mood": "good"}, None, kept]) == ((answer("one?"),), 2)
