"""What people say of answers, kept as labelled questions: a JSONL file per index that `trivet rag eval` takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from storage import files
from tasks.language.sentences import without_marks
from tasks.rag.answers import Answered

FOLDER = "labelled"
_writing = Lock()


def file_of(home: Path, index: Path) -> Path:
    """The file of an index."""
    whole = str(index.resolve())
    return home / FOLDER / f"{index.resolve().name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}.jsonl"


def right(line_id: str, turns: Sequence[Answered]) -> dict[str, Any]:
    """The last answer is right: its text and its pages are gold, or the documents do not tell."""
    last = turns[-1]
    if last.abstained or not last.citations:
        return _line(line_id, turns, verdict="right")
    first = last.citations[0].document
    pages = sorted({one.page for one in last.citations if one.document == first and one.page})
    answer = without_marks(last.answer)
    return _line(line_id, turns, verdict="right", document=first, pages=pages, answer=answer)


def corrected(line_id: str, turns: Sequence[Answered], *, answer: str, document: str | None, page: int | None) -> Any:
    """The last answer is wrong, and this is right; document: None where no document tells."""
    if document is None:
        return _line(line_id, turns, verdict="wrong")
    return _line(line_id, turns, verdict="wrong", document=document, pages=[page] if page else [], answer=answer)


def _line(line_id: str, turns: Sequence[Answered], **told: Any) -> dict[str, Any]:
    earlier = [one.question for one in turns[:-1]]
    line = {"id": line_id, "question": turns[-1].question, "document": None, "kind": "labelled", **told}
    return line | ({"turns": earlier} if earlier else {})


def keep(path: Path, line: dict[str, Any]) -> None:
    """Add a line, or replace the one of the same id. Raises StoreUnreachable."""
    with _writing:
        kept = {one["id"]: one for one in read(path)} | {line["id"]: line}
        files.make_folder(path.parent)
        written = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept.values())
        files.write(path, written.encode("utf-8", "replace"))


def read(path: Path) -> list[dict[str, Any]]:
    """The lines that were kept."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
