"""What two small indexes hold differently, by hand."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from storage.catalogue import CatalogueEntry
from storage.index import open_index
from storage.index_generation import Index
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.measuring.index_differences import asked, difference
from tasks.rag.measuring.ranking_metrics import Place, Question
from tests.storage.publishing import publish

NUMBER = b"""{"document": "%s", "value": "5", "shown": "5", "scale": "1", "unit": "", "sign": "none", "period": null, \
"row_path": ["Fee"], "column_path": [], "page": 1, "table": 0, "row": 0, "col": 1, "identities": []}
"""


def published(out: Path, *documents: tuple[str, str, list[str]], numbers: int = 0) -> Index:
    """documents: name, first digit of the digest, texts of the chunks; one that begins with `|` is a table."""
    chunks = [
        Chunk(
            id=f"{digit}{row}",
            document=digit * 64,
            page=1,
            bbox=None,
            kind="table" if text.startswith("|") else "text",
            text=text,
        )
        for _, digit, texts in documents
        for row, text in enumerate(texts)
    ]
    publish(
        out,
        chunks=chunks,
        vectors=np.eye(8, dtype=np.float16)[: len(chunks)],
        tokens=None,
        catalogue=[
            CatalogueEntry(document=digit * 64, name=name, chunks=len(texts), status="ok" if texts else "encrypted")
            for name, digit, texts in documents
        ],
        embedder="none@1",
        tokenizer=None,
        numbers=[NUMBER % (b"a" * 64)] * numbers,
    )
    return open_index(out)


def test_documents_and_counts(tmp_path: Path) -> None:
    one = published(
        tmp_path / "one",
        ("kept.md", "a", ["x", "|y"]),
        ("recut.md", "b", ["long text"]),
        ("edited.md", "c", ["old"]),
        ("gone.md", "d", ["z"]),
        ("locked.pdf", "e", []),
        numbers=1,
    )
    other = published(
        tmp_path / "other",
        ("kept.md", "a", ["x", "|y"]),
        ("recut.md", "b", ["long", "text"]),
        ("edited.md", "f", ["new"]),
        ("come.md", "0", ["z"]),
        numbers=3,
    )
    found = difference(one, other)
    assert (found.added, found.removed, found.changed, found.recut) == (
        *(("come.md",), ("gone.md",)),
        *(("edited.md",), ("recut.md",)),
    )
    assert (found.one.documents, found.one.chunks, found.one.tables, found.one.numbers) == (4, 5, 1, 1)
    assert (found.other.documents, found.other.chunks, found.other.tables, found.other.numbers) == (4, 6, 1, 3)
    same = difference(one, one)
    assert same.one == same.other
    assert same.added + same.removed + same.changed + same.recut == ()


def test_an_index_of_an_older_version_has_no_numbers(tmp_path: Path) -> None:
    one = published(tmp_path / "one", ("kept.md", "a", ["x"]), numbers=1)
    older = published(tmp_path / "older", ("kept.md", "a", ["x"]), numbers=1)
    [path] = (tmp_path / "older").rglob("*.segment-numbers")
    duckdb.execute(f"COPY (SELECT * EXCLUDE doubt FROM read_parquet('{path}')) TO '{path}.old' (FORMAT parquet)")
    Path(f"{path}.old").replace(path)
    found = difference(older, one)
    assert (found.one.numbers, found.other.numbers) == (None, 1)


def question(name: str, *, page: int) -> Question:
    return Question(id=name, question=f"{name}?", document="a.pdf", pages=(page,))


def test_questions_that_find_other_pages() -> None:
    """q finds its gold page in the other index alone; r finds the same pages in another order; s loses a sixth page."""
    places = {
        "q": ([Place("a.pdf", 1), Place("b.md", None)], [Place("a.pdf", 3), Place("a.pdf", 1)]),
        "r": ([Place("a.pdf", 1), Place("a.pdf", 1), Place("a.pdf", 2)], [Place("a.pdf", 2), Place("a.pdf", 1)]),
        "s": ([Place("a.pdf", page) for page in range(1, 7)], [Place("a.pdf", page) for page in range(1, 6)]),
    }
    questions = [question("q", page=3), question("r", page=1), question("s", page=1)]
    found = asked(questions, lambda one: places[one.id][0], lambda one: places[one.id][1])
    [moved] = found.moved
    assert (moved.id, moved.gained, moved.lost) == ("q", ("a.pdf, page 3",), ("b.md",))
    assert found.difference
    assert found.difference.value == pytest.approx(1 / 3)


def test_without_gold_pages_there_is_no_difference() -> None:
    one = Question(id="q", question="q?", answerable=False)
    assert asked([one], lambda _: [], lambda _: []).difference is None
