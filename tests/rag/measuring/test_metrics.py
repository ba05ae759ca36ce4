from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.rag.measuring.ranking_metrics import (
    Place,
    Question,
    ndcg,
    rank_questions,
    read_questions,
    score_ranking,
    summarise,
)


def test_ndcg_compares_with_the_best_order_that_gold_allows() -> None:
    # gold at ranks 2 and 3; best would be 1 and 2
    assert ndcg(["a", "b", "c"], {"b", "c"}, k=10) == pytest.approx((1 / log2(3) + 1 / 2) / (1 + 1 / log2(3)))


def test_the_figures_of_one_ranking() -> None:
    figures = score_ranking([f"p{rank}" for rank in range(1, 12)], {"p6", "p11"})
    best = 1 + 1 / log2(3)
    assert figures == pytest.approx(
        {"hit@1": 0, "hit@5": 0, "hit@10": 1, "mrr@10": 1 / 6, "ndcg@10": 1 / log2(7) / best}
    )


def test_several_chunks_of_a_page_count_as_one_rank() -> None:
    places = [Place("x.pdf", 1), Place("x.pdf", 1), Place("x.pdf", 1), Place("y.pdf", 4)]
    result = summarise(rank_questions([Question(id="1", question="?", document="y.pdf", pages=(4,))], lambda _: places))
    assert (result.page["mrr@10"].value, result.document["mrr@10"].value) == (0.5, 0.5)


def test_a_document_without_pages_counts_by_document_only() -> None:
    questions = [
        Question(id="1", question="a", document="x.docx"),
        Question(id="2", question="b", document="y.pdf", pages=(1, 2)),
    ]
    result = summarise(rank_questions(questions, lambda _: [Place("x.docx", None)]))
    assert (result.n, result.paged) == (2, 1)
    assert (result.document["hit@1"].value, result.page["hit@1"].value) == (0.5, 0.0)


def write_lines(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_what_else_a_line_may_hold(tmp_path: Path) -> None:
    line = {
        "id": "1",
        "question": "And B?",
        "document": "a.pdf",
        "answer": " 12 ",
        "turns": ["What is A?"],
        "lang": "en",
    }
    (question,) = read_questions(write_lines(tmp_path / "q.jsonl", line | {"difficulty": 3, "notes": ["x"]}))
    assert (question.answer, question.turns, question.labels) == (
        "12",
        ("What is A?",),
        {"lang": "en", "difficulty": "3"},
    )


def test_a_line_without_a_gold_document_is_unanswerable(tmp_path: Path) -> None:
    line = {"id": "1", "question": "?!", "document": None, "pages": [], "answer": ""}
    (question,) = read_questions(write_lines(tmp_path / "q.jsonl", line))
    assert (question.answerable, question.document, question.answer) == (False, None, None)


def test_a_line_separator_within_a_string_ends_no_line(tmp_path: Path) -> None:
    line = '{"id": "1", "question": "one\u2028two", "document": "a.pdf"}'
    (question,) = read_questions(write_lines(tmp_path / "q.jsonl", line))
    assert question.question == "one\u2028two"


GOOD = {"id": "1", "question": "How?", "document": "a.pdf"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: expected"),
        ("[1]", "line 2: expected"),
        ("[" * 100_000, "line 2: expected"),
        ('{"id": "2"}', r"question: Field required"),
        ({**GOOD, "id": "2", "question": " "}, "the question is empty"),
        ({**GOOD, "id": "2", "pages": [0]}, "pages count from 1"),
        ({**GOOD, "id": "2", "pages": "three"}, "pages: Input should be a valid tuple"),
        ({**GOOD, "id": "2", "document": None, "answerable": True}, "needs its gold document"),
        (GOOD, "line 2: line 1 has the id '1' too"),
    ],
    ids=["half", "list", "deep", "no question", "blank", "page 0", "no pages", "no gold", "double id"],
)
def test_a_line_that_is_no_question_is_named(line: dict[str, Any] | str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        read_questions(write_lines(tmp_path / "q.jsonl", GOOD, line))


def test_unanswerable_questions_are_not_looked_up() -> None:
    questions = [
        Question(id="1", question="a", document="x.pdf", pages=(1,)),
        Question(id="2", question="b", answerable=False),
        Question(id="3", question="c", document="x.pdf", answerable=False),
    ]
    asked: list[str] = []

    def search(question: Question) -> list[Place]:
        asked.append(question.id)
        return [Place("x.pdf", 1)]

    assert [one.id for one in rank_questions(questions, search)] == asked == ["1"]


@given(st.lists(st.integers(0, 30), max_size=15, unique=True), st.sets(st.integers(0, 30), min_size=1))
def test_figures_of_a_ranking_are_shares_and_hits_grow_with_k(ranked: list[int], gold: set[int]) -> None:
    figures = score_ranking(ranked, gold)
    assert all(0 <= value <= 1 + 1e-12 for value in figures.values())
    assert figures["hit@1"] <= figures["hit@5"] <= figures["hit@10"]
    assert figures["hit@1"] <= figures["mrr@10"] <= figures["hit@10"]
