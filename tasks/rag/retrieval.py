"""A question finds chunks: by likeness of meaning, by words, or by both, within the documents that are allowed."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.embedders import embed_questions, family, reads
from models.protocols import Embedder
from storage.errors import IndexUnusable
from storage.index import Index
from storage.records import Record
from tasks.rag.chunks import Chunk
from tasks.rag.fusion import Fused, maximal_marginal_relevance, reciprocal_rank_fusion
from tasks.rag.tokens import WrongTokenizer, tokenize

Strategy = Literal["similarity", "mmr", "bm25", "rrf"]

MMR_TRADE_OFF = 0.7
MMR_POOL = 30
BM25_TOP_K = 30
RRF_RANK_CONSTANT = 60


class NoLexicalIndex(IndexUnusable):
    """The index holds no BM25 files."""


class Hit(Record):
    """A chunk that answers, best first."""

    chunk: Chunk
    document_name: str
    """Path below the indexed folder."""
    score: float
    """Cosine, marginal relevance, BM25 or fused score, as the strategy has it; comparable within one search."""
    ranks: dict[str, int]
    """Retriever → 1-based rank, for each that found the chunk."""


class Found(NamedTuple):
    """What a search gives."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...]
    """Where the search was not quite the one that was asked for, and why."""


class _Ranked(NamedTuple):
    rows: list[int]
    scores: list[float]


def search(
    index: Index,
    question: str,
    *,
    strategy: Strategy,
    top_k: int,
    embedder: Callable[[], Embedder],
    bm25_weight: float = 1.0,
    documents: Collection[str] | None = None,
) -> Found:
    """The `top_k` best chunks.

    embedder: called only by strategies that compare meaning, so that BM25 loads no model.
    documents: digests to search in; None is all, none is nothing.
    Raises WrongEmbedder, DamagedIndex, WrongTokenizer and NoLexicalIndex (rrf goes on without and notes it), and
    ValueError for an empty question or `top_k` below 1.
    """
    if not question.strip():
        raise ValueError("the question is empty; ask with at least one word")
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; ask for at least 1 chunk")
    searching = _Searching(index, unicodedata.normalize("NFC", question), top_k, embedder, documents)
    match strategy:
        case "similarity":
            found, notes = _alone("similarity", searching.similarity(top_k)), ()
        case "mmr":
            found, notes = _alone("mmr", searching.mmr(top_k)), ()
        case "bm25":
            found, notes = _alone("bm25", searching.bm25(top_k)), ()
        case "rrf":
            found, notes = _fused(searching, top_k, bm25_weight)
    return Found(tuple(_hit(index, one) for one in found[:top_k]), notes)


def read_chunk(index: Index, row: int) -> Chunk:
    """The chunk at `row`."""
    return Chunk.model_validate_json(index.chunk(row))


class _Searching:
    """One question on one index; its vector is made once, and only if a retriever needs it."""

    def __init__(
        self,
        index: Index,
        question: str,
        top_k: int,
        embedder: Callable[[], Embedder],
        documents: Collection[str] | None,
    ) -> None:
        self._index, self._question, self._embedder = index, question, embedder
        self._allowed = None if documents is None else index.rows_of(documents)
        self._pool = max(MMR_POOL, top_k)

    def similarity(self, k: int) -> _Ranked:
        nearest = self._index.vectors.search(self._vector, k, allowed=self._allowed)
        return _Ranked(nearest.rows.tolist(), nearest.scores.tolist())

    def mmr(self, k: int) -> _Ranked:
        pool = self._index.vectors.search(self._vector, self._pool, allowed=self._allowed)
        vectors = self._index.vectors.reconstruct(pool.rows)
        chosen = maximal_marginal_relevance(pool.scores, vectors, count=k, trade_off=MMR_TRADE_OFF)
        return _Ranked([int(pool.rows[one.position]) for one in chosen], [one.score for one in chosen])

    def bm25(self, k: int) -> _Ranked:
        lexical, tokenizer = self._index.lexical, self._index.manifest.tokenizer
        if lexical is None or tokenizer is None:
            raise NoLexicalIndex("the index was made without BM25; search with --strategy similarity or mmr")
        (words,) = tokenize([self._question], tokenizer=tokenizer)
        best = lexical.search(words, k, allowed=self._allowed)
        return _Ranked(best.rows.tolist(), best.scores.tolist())

    @property
    def embedder_name(self) -> str:
        return self._index.manifest.embedder

    @property
    def embedder_reads_question(self) -> bool:
        return reads(self.embedder_name, self._question)

    @cached_property
    def _vector(self) -> NDArray[np.float32]:
        embedder = self._embedder()
        self._index.require_embedder(family(embedder.id))
        return embed_questions(embedder, [self._question])[0]


def _alone(name: str, ranked: _Ranked) -> list[Fused]:
    pairs = zip(ranked.rows, ranked.scores, strict=True)
    return [Fused(row, score, {name: rank}) for rank, (row, score) in enumerate(pairs, start=1)]


def _fused(searching: _Searching, top_k: int, bm25_weight: float) -> tuple[list[Fused], tuple[str, ...]]:
    """Ranks of all retrievers that can read the question, fused."""
    depth, rankings, notes = max(MMR_POOL, top_k), dict[str, list[int]](), list[str]()
    try:
        rankings["bm25"] = searching.bm25(max(BM25_TOP_K, top_k)).rows
    except (NoLexicalIndex, WrongTokenizer) as error:
        notes.append(f"fused similarity and mmr only: {error}")
    if rankings and not searching.embedder_reads_question:
        # measured on the sample questions: with its votes Korean page hit@5 falls from .91 to .24
        notes.append(f"words alone decide: {searching.embedder_name} does not read the script of this question")
    else:
        rankings = {"similarity": searching.similarity(depth).rows, "mmr": searching.mmr(depth).rows} | rankings
    fused = reciprocal_rank_fusion(rankings, weights={"bm25": bm25_weight}, rank_constant=RRF_RANK_CONSTANT)
    return fused, tuple(notes)


def _hit(index: Index, fused: Fused) -> Hit:
    return Hit(
        chunk=read_chunk(index, fused.row),
        document_name=index.document(fused.row).name,
        score=fused.score,
        ranks=fused.ranks,
    )
