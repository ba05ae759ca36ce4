"""Cutting is done once for a document, and never for another one that happens to read the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.documents.blocks import Block, Document, Page, PageStatus
from tasks.language.tokens import BIGRAM
from tasks.rag.corpus import Chunked, Parsed, Pictured, Searchable, Source
from tasks.rag.indexing.document_stages import cut

DOCUMENT = Document(
    format="txt",
    reader="text",
    page_source="none",
    pages=(Page(number=None, status=PageStatus.OK, blocks=(Block(kind="paragraph", text="가나다 one two"),)),),
)


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path)


def _cut(artifacts: Artifacts, digest: str, *, chunk_chars: int = 800, document: Document = DOCUMENT) -> Chunked:
    source = Source(content=Ref(kind="document", digest=digest, size=1), suffix=".txt")
    parsed = Parsed(source=source, document=artifacts.save("document-blocks", document), format="txt")
    return cut(Pictured(parsed=parsed), artifacts, chunk_chars=chunk_chars, overlap_chars=20, tokenizer=BIGRAM)


def test_two_documents_that_read_the_same_have_chunks_of_their_own(artifacts: Artifacts) -> None:
    one, other = _cut(artifacts, "a" * 64), _cut(artifacts, "b" * 64)

    assert [one.digest[0], other.digest[0]] == ["a", "b"]
    assert artifacts.load(Searchable, other.chunks).chunks[0].id.startswith("b" * 16)


def test_a_lost_file_of_chunks_is_made_again(artifacts: Artifacts) -> None:
    artifacts.path(_cut(artifacts, "a" * 64).chunks).unlink()

    assert artifacts.verify(_cut(artifacts, "a" * 64).chunks)
