"""Answers files of questions; each answer is stored at once, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from storage import files
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.keys import content_key
from tasks.rag.answers import Answered, Turn
from tasks.rag.planning.names import find_named_documents
from tasks.rag.rag_errors import QuestionsUnusable

if TYPE_CHECKING:  # it takes a third of a second to import, and indexing needs none
    from tasks.rag.answering.assistant import Assistant

ANSWER_VERSION = 23
"""Version of answers in the cache key: increment it when the same question on the same index would get another
answer."""
SHARD_QUESTIONS = 25
"""Questions in a shard, which one task run answers."""


class BatchQuestion(Record):
    """A question of a batch: one line of a JSONL file."""

    id: str = Field(coerce_numbers_to_str=True)
    question: str
    history: tuple[Turn, ...] = ()
    """Earlier turns of the conversation, for a follow-up."""
    documents: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Names or patterns of the documents to look in; None: in those that the question means."""


class Batch(Record):
    """The questions of a file in shards, and the index that is to answer them."""

    shards: tuple[tuple[BatchQuestion, ...], ...]
    index_digest: str
    """Digest of the index's content when the batch began; another index gives other answers."""


class StoredAnswer(Record):
    """An answer in the artifact store, or why there is none."""

    id: str
    answer: Ref | None = None
    """tasks.rag.answers.Answered as JSON, without timings: they are the run's, not the answer's."""
    abstained: bool = False
    unsupported: int = 0
    """Sentences with a number that no cited block holds."""
    error: str | None = None
    """Why the question itself cannot be answered, now or later: empty, too long, of a document that is not there,
    refused by the model; with what the documents say, where it is the model that refuses."""
    away: str | None = None
    """Why a model could not be asked; another run may."""


class BatchReport(Record):
    """Counts of a batch, and the file that its answers were written to."""

    questions: int
    answered: int
    abstained: int
    unsupported: int
    """Answers with at least one sentence that its citations do not support."""
    failed: int
    """Questions that cannot be answered: empty, too long, of an unknown document, refused by the model."""
    unfinished: int
    """Questions whose model could not be reached; another run may answer them."""
    out: str
    digest: str
    """SHA-256 of the file of answers."""


def read_batch(path: Path, *, index_digest: str) -> Batch:
    """Return the questions of a JSONL file in shards: one a line, each id once. Raises QuestionsUnusable."""
    questions: dict[str, BatchQuestion] = {}
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # splitlines would cut inside a string, at U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsUnusable(f"{path} cannot be read ({error}); name a JSONL file of questions") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            known_fields = {name: fields[name] for name in BatchQuestion.model_fields if name in fields}
            question = BatchQuestion.model_validate(known_fields)
        except (ValidationError, ValueError, TypeError, RecursionError) as error:
            raise QuestionsUnusable(f"{path}, line {number}: expected {{id, question}}, found {line[:80]!r}") from error
        if question.id in questions:
            raise QuestionsUnusable(
                f"{path}, line {number}: the id {question.id!r} stands there twice; ids must differ"
            )
        questions[question.id] = question
    if not questions:
        raise QuestionsUnusable(f"{path} holds no question; write one {{id, question}} a line")
    in_order = tuple(questions.values())
    shards = tuple(in_order[start : start + SHARD_QUESTIONS] for start in range(0, len(in_order), SHARD_QUESTIONS))
    return Batch(shards=shards, index_digest=index_digest)


def answer_each(
    shard: Sequence[BatchQuestion],
    assistant: Assistant,
    artifacts: Artifacts,
    *,
    inputs: Mapping[str, object],
    on_progress: Callable[[], None],
) -> list[StoredAnswer]:
    """Return the answers to a shard of questions, in their order; those that are stored already are recalled.

    inputs: everything beside the question that may change an answer; it is part of the cache key. on_progress: called
    after each question. A ValueError, as of an unknown document, becomes the `error` of its question.
    """
    stored: list[StoredAnswer] = []
    for question in shard:
        try:
            names = question.documents
            documents = find_named_documents(names, assistant.index.catalogue) if names else None
            fields = {"question": question.question, "history": question.history, "documents": documents, **inputs}
            key = content_key("answer", ANSWER_VERSION, fields)
            answer = artifacts.recall(key)
            answered = (
                artifacts.load(Answered, answer)
                if answer
                else assistant.ask(question.question, history=question.history, documents=documents)
            )
        except ValueError as error:
            stored.append(StoredAnswer(id=question.id, error=str(error)))
            on_progress()
            continue
        if answer is None:
            answer = artifacts.save("answer", answered.model_copy(update={"timings": {}}))
            # what the documents say while a model is away is told, not remembered
            if not (answered.model_away or answered.model_refused):
                artifacts.remember(key, answer)
        notes = "; ".join(answered.notes)
        stored.append(
            StoredAnswer(
                id=question.id,
                answer=answer,
                abstained=answered.abstained,
                unsupported=len(answered.unsupported),
                away=notes if answered.model_away else None,
                error=notes if answered.model_refused and not answered.model_away else None,
            )
        )
        on_progress()
    return stored


def write_answers(stored: Sequence[StoredAnswer], artifacts: Artifacts, *, out: Path) -> BatchReport:
    """Write a line of JSON per question, in order: `{id, …}` with answer, `error` or both. Raises StoreUnreachable."""
    lines: list[str] = []
    for item in stored:
        error = {} if item.error is None else {"error": item.error}
        answer = {} if item.answer is None else artifacts.load(Answered, item.answer).model_dump(mode="json")
        lines.append(json.dumps({"id": item.id, **error, **answer}, ensure_ascii=False) + "\n")
    data = "".join(lines).encode()
    files.make_folder(out.parent)
    files.write(out, data)
    answered = [item for item in stored if item.error is None]  # unfinished ones too: sentences stand in for the model
    return BatchReport(
        questions=len(stored),
        answered=sum(not item.abstained for item in answered),
        abstained=sum(item.abstained for item in answered),
        unsupported=sum(item.unsupported > 0 for item in answered),
        failed=sum(item.error is not None for item in stored),
        unfinished=sum(item.away is not None for item in stored),
        out=str(out),
        digest=hashlib.sha256(data).hexdigest(),
    )


def is_written(report: BatchReport) -> bool:
    """Return whether the file of answers still has the content that was written."""
    out = Path(report.out)
    return out.is_file() and files.sha256_of(out) == report.digest
