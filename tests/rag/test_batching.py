"""The questions of a batch, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from storage.artifacts import Artifacts
from tasks.rag.answering.assistant import Assistant
from tasks.rag.answers import Answered, RetrievalPlan
from tasks.rag.batching import BatchQuestion, answer_each, read_batch, write_answers
from tasks.rag.rag_errors import QuestionsUnusable


def test_a_line_separator_inside_a_question_ends_no_line(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"id": "a", "question": "What is\u2028the budget?"}\n', encoding="utf-8")
    [[asked]] = read_batch(file, index_digest="d").shards
    assert asked.question == "What is\u2028the budget?"


def test_json_that_is_nested_too_deeply_is_refused_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(QuestionsUnusable, match=r"line 1: expected \{id, question\}"):
        read_batch(file, index_digest="d")


class Refused:
    """An assistant whose model does not take the question."""

    def ask(self, question: str, **how: object) -> Answered:
        nothing = RetrievalPlan(query_type="single", strategy="similarity", top_k=1, needs_multi_doc=False)
        return Answered(
            question=question,
            answer="$41,000",
            citations=(),
            plan=nothing,
            retrieved=(),
            notes=("the model does not take the question: too long",),
            model_refused=True,
        )


def test_a_question_that_the_model_refuses_has_failed_and_the_documents_answer(tmp_path: Path) -> None:
    artifacts, out = Artifacts(tmp_path / "store"), tmp_path / "out.jsonl"
    asked = [BatchQuestion(id="a", question="How large is it?")]
    kept = answer_each(asked, cast("Assistant", Refused()), artifacts, inputs={}, on_progress=lambda: None)
    report = write_answers(kept, artifacts, out=out)
    assert (report.answered, report.failed, report.unfinished) == (0, 1, 0)
    line = json.loads(out.read_text())
    assert (line["answer"], line["error"]) == ("$41,000", "the model does not take the question: too long")
