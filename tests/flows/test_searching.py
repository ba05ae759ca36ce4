"""`trivet rag search` looks first in the documents that the question names."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.segments import CatalogueEntry
from tasks.rag.indexing.chunks import Chunk
from tests.command import run_here
from tests.storage.publishing import publish

NAMES = ["가람시_관제시스템 구축.pdf", "나래시_관제시스템 구축.pdf", "다솜시_관제시스템 구축.pdf"]
QUESTION = "나래시 관제시스템 구축의 사업 예산은?"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three documents that read the same."""
    out = tmp_path_factory.mktemp("index")
    chunks = [
        Chunk(id=f"{name}-0", document=name * 64, page=1, bbox=None, kind="text", text="사업 예산은 100원이다")
        for name in "abc"
    ]
    publish(
        out,
        chunks=chunks,
        catalogue=[
            CatalogueEntry(document=name * 64, name=file, metadata={"issuer": file[:3], "project_name": file[4:-4]})
            for name, file in zip("abc", NAMES, strict=True)
        ],
        embedder="minilm@1",
        settings={"embedder": "minilm"},
    )
    return out


def found(index: Path, *options: str) -> list[str]:
    done = run_here("rag", "search", QUESTION, "--index", index, "--json", *options)
    assert done.code == 0, done.stderr
    return [hit["document"] for hit in done.json["hits"]]


def test_the_document_that_the_question_names_comes_first(index: Path) -> None:
    assert found(index)[0] == NAMES[1]


def test_without_routing_documents_that_read_the_same_stand_in_order(index: Path) -> None:
    assert found(index, "--no-route") == NAMES


def test_a_document_that_is_asked_for_wins_over_the_question(index: Path) -> None:
    assert found(index, "--document", NAMES[2]) == [NAMES[2]]


def test_a_note_tells_where_the_search_looked_and_why(index: Path) -> None:
    done = run_here("rag", "search", QUESTION, "--index", index, "--json")
    [note] = [note for note in done.json["notes"] if "looked" in note]
    assert NAMES[1] in note
    assert "나래시" in note
