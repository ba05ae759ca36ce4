"""Answers files of questions; each answer is kept at once, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from storage import files
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.keys import content_key
from tasks.rag.answers import Answered, Turn
from tasks.rag.rag_errors import QuestionsUnusable

if TYPE_CHECKING:  # it takes a third of a second to import, and indexing needs none
    from tasks.rag.answering.assistant import Assistant

ANSWER_VERSION = 10
"""Increment when the same question on the same index would get another answer."""
SHARD_QUESTIONS = 25


class BatchQuestion(Record):
    """A question of a batch: one line of a JSONL file."""

    id: str
    question: str
    history: tuple[Turn, ...] = ()
    """Earlier turns of the conversation, for a follow-up."""


class Batch(Record):
    """The questions, and the index that they are asked of."""

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
    """Why the question itself cannot be answered, now or later: empty, too long, refused by the model; with what the
    documents say, where it is the model that refuses."""
    away: str | None = None
    """Why a model could not be asked; another run may."""


class BatchReport(Record):
    """Counts of a batch."""

    questions: int
    answered: int
    abstained: int
    unsupported: int
    """Answers with at least one sentence that is not supported."""
    failed: int
    """Questions that cannot be answered: empty, too long, refused by the model."""
    unfinished: int
    out: str
    digest: str


def read_batch(path: Path, *, index_digest: str) -> Batch:
    """The questions of a JSONL file, in shards; lines are `{id, question, history?}`. Raises QuestionsUnusable."""
    asked: dict[str, BatchQuestion] = {}
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # splitlines would cut inside a string, at U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsUnusable(f"{path} cannot be read ({error}); name a JSONL file of questions") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            one = BatchQuestion.model_validate(
                {name: fields[name] for name in BatchQuestion.model_fields if name in fields}
            )
        except (ValidationError, ValueError, TypeError, RecursionError) as error:
            raise QuestionsUnusable(f"{path}, line {number}: expected {{id, question}}, found {line[:80]!r}") from error
        if one.id in asked:
            raise QuestionsUnusable(f"{path}, line {number}: the id {one.id!r} stands there twice; ids must differ")
        asked[one.id] = one
    if not asked:
        raise QuestionsUnusable(f"{path} holds no question; write one {{id, question}} a line")
    every = tuple(asked.values())
    shards = tuple(every[start : start + SHARD_QUESTIONS] for start in range(0, len(every), SHARD_QUESTIONS))
    return Batch(shards=shards, index_digest=index_digest)


def answer_each(
    shard: Sequence[BatchQuestion],
    assistant: Assistant,
    artifacts: Artifacts,
    *,
    inputs: Mapping[str, object],
    on_progress: Callable[[], None],
) -> list[StoredAnswer]:
    """The answers of a shard, given or recalled; inputs: what changes an answer beside the question."""
    kept: list[StoredAnswer] = []
    for asked in shard:
        key = content_key("answer", ANSWER_VERSION, {"question": asked.question, "history": asked.history, **inputs})
        if answer := artifacts.recall(key):
            answered = artifacts.load(Answered, answer)
        else:
            try:
                answered = assistant.ask(asked.question, history=asked.history)
            except ValueError as error:
                kept.append(StoredAnswer(id=asked.id, error=str(error)))
                on_progress()
                continue
            answer = artifacts.save("answer", answered.model_copy(update={"timings": {}}))
            # what the documents say while a model is away is told, not remembered
            if not (answered.model_away or answered.model_refused):
                artifacts.remember(key, answer)
        notes = "; ".join(answered.notes)
        kept.append(
            StoredAnswer(
                id=asked.id,
                answer=answer,
                abstained=answered.abstained,
                unsupported=len(answered.unsupported),
                away=notes if answered.model_away else None,
                error=notes if answered.model_refused and not answered.model_away else None,
            )
        )
        on_progress()
    return kept


def write_answers(kept: Sequence[StoredAnswer], artifacts: Artifacts, *, out: Path) -> BatchReport:
    """Write one line of JSON per question: `{id, …}` with the answer, `error`, or both. Raises StoreUnreachable."""
    lines: list[str] = []
    for item in kept:
        error = {} if item.error is None else {"error": item.error}
        answer = {} if item.answer is None else artifacts.load(Answered, item.answer).model_dump(mode="json")
        lines.append(json.dumps({"id": item.id, **error, **answer}, ensure_ascii=False) + "\n")
    data = "".join(lines).encode()
    files.make_folder(out.parent)
    files.write(out, data)
    answered = [item for item in kept if item.error is None]
    return BatchReport(
        questions=len(kept),
        answered=sum(not item.abstained for item in answered),
        abstained=sum(item.abstained for item in answered),
        unsupported=sum(item.unsupported > 0 for item in answered),
        failed=sum(item.error is not None for item in kept),
        unfinished=sum(item.away is not None for item in kept),
        out=str(out),
        digest=hashlib.sha256(data).hexdigest(),
    )


def is_written(report: BatchReport) -> bool:
    """Whether the file of answers is still the one that was written."""
    out = Path(report.out)
    return out.is_file() and files.sha256_of(out) == report.digest
