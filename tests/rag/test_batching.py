"""The questions of a batch, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.rag.batching import read_batch
from tasks.rag.errors import QuestionsUnusable


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
