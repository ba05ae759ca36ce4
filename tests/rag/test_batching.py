"""The questions of a batch, line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from storage.artifacts import Artifacts
from storage.index import open_index
from storage.segments import CatalogueEntry
from tasks.rag.answering.assistant import Assistant
from tasks.rag.answers import Answered, RetrievalPlan
from tasks.rag.batching import BatchQuestion, answer_each, read_batch, write_answers
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.rag_errors import QuestionsUnusable
from tests.rag.answering.test_graph import Letters
from tests.storage.publishing import publish


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


BUDGETS = {"north/plan.txt": "The budget of the furnace is $41,000.", "south/plan2.txt": "The budget is $52,000."}


def answer_lines(folder: Path, asked: Sequence[BatchQuestion]) -> dict[str, dict[str, Any]]:
    """Answer questions from an index of two documents, one of them under two names."""
    texts = {str(n) * 64: text for n, text in enumerate(BUDGETS.values())}
    chunks = [
        Chunk(id=f"{digest[:16]}-0", document=digest, page=1, bbox=None, kind="text", text=text)
        for digest, text in texts.items()
    ]
    catalogue = [CatalogueEntry(document=digest, name=name) for digest, name in zip(texts, BUDGETS, strict=True)]
    catalogue[0] = catalogue[0].model_copy(update={"aliases": ("copy.txt",)})
    vectors = Letters().embed(list(texts.values())).astype(np.float16)
    publish(folder / "index", chunks=chunks, vectors=vectors, catalogue=catalogue, embedder=Letters.id)
    artifacts, out = Artifacts(folder / "store"), folder / "out.jsonl"
    with open_index(folder / "index") as index:
        assistant = Assistant(index, embedder=Letters)
        kept = answer_each(asked, assistant, artifacts, inputs={}, on_progress=lambda: None)
    write_answers(kept, artifacts, out=out)
    return {line["id"]: line for line in map(json.loads, out.read_text().splitlines())}


def test_a_line_is_asked_of_its_documents_and_cites_them_by_the_names_it_gives(tmp_path: Path) -> None:
    named = {"a": "plan.txt", "b": "copy.txt", "c": "south/*", "d": "plam.txt"}
    question = "What is the budget of the furnace?"
    asked = [BatchQuestion(id=id, question=question, documents=(name,)) for id, name in named.items()]
    lines = answer_lines(tmp_path, asked)
    assert (
        lines.pop("d")["error"]
        == "the index has no document 'plam.txt'; nearest: north/plan.txt, south/plan2.txt, copy.txt"
    )
    [cited] = zip(*(line["citations"] for line in lines.values()), strict=True)
    assert [one["document"] for one in cited] == ["north/plan.txt", "copy.txt", "south/plan2.txt"]
    assert [one["quote"].split()[-1] for one in cited] == ["$41,000.", "$41,000.", "$52,000."]
