from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.protocols import Embedder
from storage.errors import WrongEmbedder
from storage.index import CatalogueEntry, Index, open_index, publish
from tasks.rag.chunks import Chunk
from tasks.rag.retrieval import NoLexicalIndex, search
from tasks.rag.tokens import BIGRAM, WrongTokenizer, tokenize_chunks

TEXTS = [
    ("a", "The bid price is 35,750,000 won"),
    ("a", "The bid price is 35,750,000 won"),
    ("a", "Delivery takes twelve months"),
    ("b", "The bid price is 41,000,000 won"),
    ("b", "사업 기간은 6개월"),
]
AXES = ["price", "delivery", "months", "6개월", "won"]


class WordEmbedder:
    """Counts a few words: what lies near can be worked out by hand."""

    id = "words@1"
    dimension = len(AXES)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array([[text.lower().count(axis) + 0.01 for axis in AXES] for text in texts], np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def no_embedder() -> Embedder:
    raise AssertionError("this strategy needs no vectors")


def published(out: Path, *, tokenizer: str | None = BIGRAM, embedder: str = WordEmbedder.id) -> Index:
    chunks = [
        Chunk(id=f"{name}-{row}", document=name * 64, page=row + 1, bbox=None, kind="text", text=text)
        for row, (name, text) in enumerate(TEXTS)
    ]
    publish(
        out,
        chunks=chunks,
        vectors=WordEmbedder().embed([chunk.text for chunk in chunks]).astype(np.float16),
        tokens=tokenize_chunks(chunks, tokenizer=BIGRAM) if tokenizer else None,
        catalogue=[CatalogueEntry(document=name * 64, name=f"{name}.pdf") for name in "ab"],
        embedder=embedder,
        tokenizer=tokenizer,
        settings={},
    )
    return open_index(out)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return published(tmp_path_factory.mktemp("index"))


def pages(index: Index, question: str, strategy: str, top_k: int = 3, **more: object) -> list[int | None]:
    found = search(index, question, strategy=strategy, top_k=top_k, embedder=WordEmbedder, **more)  # pyright: ignore[reportArgumentType]
    return [hit.chunk.page for hit in found.hits]


def test_similarity_ranks_by_cosine_and_ties_by_row(index: Index) -> None:
    assert pages(index, "price in won", "similarity") == [1, 2, 4]


def test_mmr_leaves_the_repetition_for_last(index: Index) -> None:
    assert pages(index, "won price delivery", "mmr", top_k=5).index(2) > 1


def test_bm25_finds_a_number_and_loads_no_embedder(index: Index) -> None:
    found = search(index, "41,000,000", strategy="bm25", top_k=3, embedder=no_embedder)
    assert [(hit.chunk.page, hit.document_name, hit.ranks) for hit in found.hits] == [(4, "b.pdf", {"bm25": 1})]


def test_rrf_gives_the_rank_in_each_retriever(index: Index) -> None:
    found = search(index, "delivery months", strategy="rrf", top_k=1, embedder=WordEmbedder)
    assert found.hits[0].ranks == {"similarity": 1, "mmr": 1, "bm25": 1}
    assert found.hits[0].score == pytest.approx(3 / 61)
    assert not found.notes


def test_the_weight_of_bm25_decides_between_words_and_meaning(index: Index) -> None:
    question = "won price 12 months 6개월 bid 41,000,000"
    assert pages(index, question, "rrf", top_k=1, bm25_weight=50.0) == pages(index, question, "bm25", top_k=1)


def test_rrf_without_bm25_files_fuses_the_rest_and_says_so(tmp_path: Path) -> None:
    found = search(
        published(tmp_path, tokenizer=None), "price", strategy="rrf", top_k=2, embedder=WordEmbedder
    )  # fmt: skip
    assert found.hits[0].ranks == {"similarity": 1, "mmr": 1}
    assert "without BM25" in found.notes[0]


def test_bm25_without_its_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoLexicalIndex, match="without BM25"):
        search(published(tmp_path, tokenizer=None), "price", strategy="bm25", top_k=2, embedder=no_embedder)


def test_a_korean_question_to_another_tokenizers_words_is_refused_or_noted(tmp_path: Path) -> None:
    other = published(tmp_path, tokenizer="kiwi-0.1.0")
    with pytest.raises(WrongTokenizer):
        search(other, "사업 기간", strategy="bm25", top_k=2, embedder=no_embedder)
    assert "kiwi-0.1.0" in search(other, "사업 기간", strategy="rrf", top_k=2, embedder=WordEmbedder).notes[0]


@pytest.mark.parametrize("strategy", ["similarity", "mmr", "bm25", "rrf"])
def test_a_filter_keeps_every_strategy_within_its_documents(index: Index, strategy: str) -> None:
    assert pages(index, "bid price won", strategy, documents={"b" * 64})[0] == 4
    assert pages(index, "bid price won", strategy, documents=set()) == []


@pytest.mark.parametrize("strategy", ["similarity", "mmr", "bm25", "rrf"])
def test_the_same_question_gives_the_same_hits(index: Index, strategy: str) -> None:
    assert pages(index, "bid price", strategy) == pages(index, "bid price", strategy)


def test_another_embedder_is_refused(index: Index) -> None:
    class Other(WordEmbedder):
        id = "other@1"

    with pytest.raises(WrongEmbedder, match=r"words@1.*other@1"):
        search(index, "price", strategy="similarity", top_k=1, embedder=Other)


@pytest.mark.parametrize(("question", "top_k"), [(" ", 3), ("price", 0)])
def test_an_empty_question_or_no_chunks_to_find_are_refused(index: Index, question: str, top_k: int) -> None:
    with pytest.raises(ValueError, match="ask"):
        search(index, question, strategy="bm25", top_k=top_k, embedder=no_embedder)


def test_bm25_imports_neither_torch_nor_faiss_nor_kiwi(tmp_path: Path) -> None:
    published(tmp_path)
    code = f"""
import sys
from pathlib import Path
from storage.index import open_index
from tasks.rag.retrieval import search
with open_index(Path({str(tmp_path)!r})) as index:
    assert search(index, "bid price", strategy="bm25", top_k=1, embedder=lambda: None).hits
print(sorted({{"torch", "faiss", "kiwipiepy", "prefect"}} & set(sys.modules)))
"""
    answer = subprocess.check_output([sys.executable, "-c", code], cwd=Path(__file__).parents[2], text=True)
    assert answer == "[]\n"


def test_an_english_embedder_has_no_vote_on_a_korean_question(tmp_path: Path) -> None:
    english = published(tmp_path, embedder="minilm@123456")

    def refuse() -> WordEmbedder:
        raise AssertionError("the model was loaded")

    found = search(english, "사업 기간", strategy="rrf", top_k=2, embedder=refuse)

    assert "does not read" in found.notes[0]
    assert all(hit.ranks.keys() == {"bm25"} for hit in found.hits)
