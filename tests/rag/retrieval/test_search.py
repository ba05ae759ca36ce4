from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.protocols import Embedder
from storage.index import Index, open_index
from storage.segments import CatalogueEntry
from storage.storage_errors import WrongEmbedder
from tasks.language.tokens import BIGRAM, WrongTokenizer
from tasks.rag.answers import Filters, NameMatch, RetrievalPlan, RouteMode
from tasks.rag.indexing.chunks import Chunk, tokenize_chunks
from tasks.rag.rag_errors import NoLexicalIndex
from tasks.rag.retrieval.retrievers import SearchSettings
from tasks.rag.retrieval.search import retrieve, search
from tests.storage.publishing import publish

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
    )
    return open_index(out)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return published(tmp_path_factory.mktemp("index"))


def pages(index: Index, question: str, strategy: str, top_k: int = 3, **more: object) -> list[int | None]:
    found = search(index, question, strategy=strategy, top_k=top_k, **{"embedder": WordEmbedder, **more})  # pyright: ignore[reportArgumentType]
    return [hit.chunk.page for hit in found.hits]


def test_similarity_ranks_by_cosine_and_ties_by_row(index: Index) -> None:
    assert pages(index, "price in won", "similarity") == [1, 2, 4]


def test_bm25_finds_a_number_and_loads_no_embedder(index: Index) -> None:
    found = search(index, "41,000,000", strategy="bm25", top_k=3, embedder=no_embedder)
    assert [(hit.chunk.page, hit.document_name, hit.ranks) for hit in found.hits] == [(4, "b.pdf", {"bm25": 1})]


SEED = SearchSettings(words_weight=0)
"""rrf of similarity, mmr and BM25, all weights 1."""


def test_rrf_of_the_seed_sums_the_reciprocal_ranks_of_three_retrievers(index: Index) -> None:
    found = search(index, "delivery months", strategy="rrf", top_k=1, embedder=WordEmbedder, settings=SEED)
    assert found.hits[0].ranks == {"similarity": 1, "mmr": 1, "bm25": 1}
    assert found.hits[0].score == pytest.approx(3 / 61)
    assert not found.notes


def test_without_weight_words_have_no_say(index: Index) -> None:
    question = "won price 12 months 6개월 bid 41,000,000"
    ranks = [
        hit.ranks for hit in search(index, question, strategy="rrf", top_k=5, embedder=WordEmbedder, bm25_weight=0).hits
    ]
    assert all(one.keys() == {"similarity", "mmr"} for one in ranks)
    fused = [1 / (60 + one["similarity"]) + 1 / (60 + one["mmr"]) for one in ranks]
    assert fused == sorted(fused, reverse=True)


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
from tasks.rag.retrieval.search import search
with open_index(Path({str(tmp_path)!r})) as index:
    assert search(index, "bid price", strategy="bm25", top_k=1, embedder=lambda: None).hits
print(sorted({{"torch", "faiss", "kiwipiepy", "prefect"}} & set(sys.modules)))
"""
    answer = subprocess.check_output([sys.executable, "-c", code], cwd=Path(__file__).parents[3], text=True)
    assert answer == "[]\n"


def test_an_english_embedder_has_no_vote_on_a_korean_question(tmp_path: Path) -> None:
    english = published(tmp_path, embedder="minilm@123456")

    def refuse() -> WordEmbedder:
        raise AssertionError("the model was loaded")

    found = search(english, "사업 기간", strategy="rrf", top_k=2, embedder=refuse)

    assert "does not read" in found.notes[0]
    assert all(hit.ranks.keys() <= {"bm25", "words"} for hit in found.hits)


STRATEGIES: list[str] = ["similarity", "mmr", "bm25", "rrf"]
A, B = "a" * 64, "b" * 64
SAID_B = NameMatch(field="issuer", value="B", said="bid", confidence=1.0)


def routed(mode: RouteMode, *documents: str, **more: object) -> Filters:
    return Filters(mode=mode, documents=documents, matches=(SAID_B,), groups=(documents,), **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_the_named_documents_are_searched(index: Index, strategy: str) -> None:
    filters = routed("only", B)
    found = search(index, "bid price won", strategy=strategy, top_k=5, embedder=WordEmbedder, filters=filters)
    assert {hit.chunk.document for hit in found.hits} == {B}
    assert (found.filters, found.notes) == (filters, ())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_preferred_documents_come_first_and_the_others_stay_below(index: Index, strategy: str) -> None:
    preferred = pages(index, "The bid price in won", strategy, top_k=5, filters=routed("prefer", B))
    assert preferred[0] == 4
    assert {1, 2, 4} <= set(preferred)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_favoured_document_comes_before_the_others_that_are_meant(index: Index, strategy: str) -> None:
    filters = routed("only", A, B, favoured=(B,))
    assert pages(index, "The bid price in won", strategy, top_k=5, filters=filters)[0] == 4


@pytest.mark.parametrize("documents", [("f" * 64,), (B,)], ids=["not in the index", "without the word"])
def test_a_filter_that_finds_nothing_falls_back_and_says_so(index: Index, documents: tuple[str, ...]) -> None:
    found = search(
        index, "delivery", strategy="bm25", top_k=3, embedder=no_embedder, filters=routed("only", *documents)
    )  # fmt: skip
    assert [hit.chunk.page for hit in found.hits] == [3]
    assert "documents that bid stands for" in found.notes[0]
    assert found.filters.mode == "all"


@pytest.mark.parametrize("mode", ["only", "prefer"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_sides_of_a_comparison_are_among_the_hits(index: Index, strategy: str, mode: RouteMode) -> None:
    filters = Filters(mode=mode, documents=(A, B), groups=((A,), (B,)))
    found = search(index, "delivery months won", strategy=strategy, top_k=2, embedder=WordEmbedder, filters=filters)
    assert {hit.chunk.document for hit in found.hits} == {A, B}


def test_a_side_that_holds_nothing_is_named(index: Index) -> None:
    filters = Filters(mode="only", documents=(A, B), groups=((A,), (B,)))
    found = search(index, "delivery", strategy="bm25", top_k=4, embedder=no_embedder, filters=filters)
    assert found.notes == ("nothing was found in b.pdf",)


class LastFirst:
    """Finds what contains `41,000,000` best, then what is longer."""

    id = "last-first@1"

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([len(text) + 1000 * ("41,000,000" in text) for text in texts], np.float32)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_reranker_reads_the_pool_before_it_is_cut(index: Index, strategy: str) -> None:
    found = search(
        index, "bid price won", strategy=strategy, top_k=1, embedder=WordEmbedder, reranker=LastFirst()
    )  # fmt: skip
    assert [hit.chunk.page for hit in found.hits] == [4]
    assert found.hits[0].ranks["rerank"] == 1
    assert found.hits[0].ranks[strategy if strategy != "rrf" else "bm25"] > 1


def plan(strategy: str, **more: object) -> RetrievalPlan:
    return RetrievalPlan(query_type="single", strategy=strategy, top_k=3, needs_multi_doc=False).model_copy(update=more)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_the_plan_says_is_what_runs(index: Index, strategy: str) -> None:
    planned = retrieve(index, "bid price", plan(strategy), embedder=WordEmbedder)
    assert planned == search(index, "bid price", strategy=strategy, top_k=3, embedder=WordEmbedder)


@pytest.mark.parametrize("strategy", ["similarity", "mmr"])
def test_words_run_where_the_plan_has_an_embedder_that_cannot_read(tmp_path: Path, strategy: str) -> None:
    found = retrieve(published(tmp_path, embedder="minilm@1"), "사업 기간", plan(strategy), embedder=no_embedder)
    assert [hit.chunk.page for hit in found.hits][:1] == [5]
    assert f"{strategy} was planned" in found.notes[0]


def test_meaning_runs_where_the_plan_has_bm25_and_the_index_has_none(tmp_path: Path) -> None:
    found = retrieve(published(tmp_path, tokenizer=None), "price", plan("bm25"), embedder=WordEmbedder)
    assert found.hits[0].ranks == {"similarity": 1, "mmr": 1}
    assert "bm25 was planned" in found.notes[0]


def test_words_that_named_the_document_do_not_choose_the_chunk(tmp_path: Path) -> None:
    texts = ["Harbor harbor harbor: contents", "The harbor closes at nine", "Library hours", "Museum", "Garden", "Farm"]
    chunks = [
        Chunk(id=f"{row}", document=A if row < 2 else B, page=row + 1, bbox=None, kind="text", text=text)
        for row, text in enumerate(texts)
    ]
    publish(
        tmp_path,
        chunks=chunks,
        vectors=WordEmbedder().embed(texts).astype(np.float16),
        catalogue=[CatalogueEntry(document=name, name=f"{name[0]}.pdf") for name in (A, B)],
        embedder="minilm@1",
    )
    named = NameMatch(field="name", value="harbor", said="harbor", confidence=1.0)
    filters = Filters(mode="only", documents=(A,), matches=(named,), groups=((A,),))
    question = "harbor harbor nine 시"  # Hangul, so that no embedder is asked
    assert pages(open_index(tmp_path), question, "rrf", top_k=1, filters=filters) == [2]


class Elsewhere:
    """Finds every question nearest to the second of ten texts."""

    dimension = 10

    def __init__(self, id: str) -> None:
        self.id = id

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.eye(10, dtype=np.float32)[[1] * len(texts)]


@pytest.mark.parametrize(
    ("embedder", "question", "first"),
    [
        ("e5@1", "harbor ferry", 1),
        ("e5@1", "harbor skiff wharf jetty", 2),  # three words that no chunk holds
        ("e5@1", "항구 나루 선착장 부두", 2),
        ("minilm@1", "harbor skiff wharf jetty", 1),
        ("minilm@1", "항구 나루 선착장 부두", 1),
    ],
)
def test_meaning_decides_where_words_reach_little_and_the_embedder_spans_languages(
    tmp_path: Path, embedder: str, question: str, first: int
) -> None:
    texts = ["harbor ferry 항구", *(f"word{row}" for row in range(9))]
    chunks = [
        Chunk(id=f"{row}", document=A, page=row + 1, bbox=None, kind="text", text=text)
        for row, text in enumerate(texts)
    ]
    entries = [CatalogueEntry(document=A, name="a.pdf")]
    publish(tmp_path, chunks=chunks, vectors=np.eye(10, dtype=np.float16), catalogue=entries, embedder=embedder)
    assert pages(open_index(tmp_path), question, "rrf", top_k=1, embedder=partial(Elsewhere, embedder)) == [first]
