"""A question finds chunks: by likeness of meaning, by words, or by both, first in the documents that it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.protocols import Embedder, Reranker
from storage.index import Index
from storage.records import Record
from tasks.rag.answers import Filters, RetrievalPlan, Strategy
from tasks.rag.errors import NoLexicalIndex, WrongTokenizer
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.fusion import Fused, alternate, balanced, reciprocal_rank_fusion, spread
from tasks.rag.retrieval.retrievers import Ranked, Retrievers, Rows, Scope
from tasks.rag.retrieval.weights import DEFAULTS, SearchSettings

ALL = Filters()


class Hit(Record):
    """A chunk that answers, best first."""

    chunk: Chunk
    document_name: str
    """Path below the indexed folder."""
    score: float
    """Cosine, marginal relevance, BM25, fused or reranker's score, as what gave the order has it."""
    ranks: dict[str, int]
    """Retriever → 1-based rank, for each that found the chunk; `rerank` among them when a reranker ordered the pool."""


class Found(NamedTuple):
    """What a search gives."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...]
    """Where the search was not quite the one that was asked for, and why."""
    filters: Filters = ALL
    """The documents that it looked in, or looked in first."""


def search(
    index: Index,
    question: str,
    *,
    strategy: Strategy,
    top_k: int,
    embedder: Callable[[], Embedder],
    bm25_weight: float | None = None,
    documents: Collection[str] | None = None,
    filters: Filters = ALL,
    per_document: int | None = None,
    reranker: Reranker | None = None,
    settings: SearchSettings = DEFAULTS,
) -> Found:
    """The `top_k` best chunks.

    embedder: called only by strategies that compare meaning, so that BM25 loads no model.
    bm25_weight: how much words count in rrf beside meaning, 1 as measured best, 0 not at all; None: as in `settings`.
    documents: digests to search in; None is all, none is nothing. filters: what the question itself speaks of; the
    sides of a comparison share the hits.
    per_document: the most chunks of one document, as long as others are there.
    reranker: orders the pool before it is cut.
    Raises WrongEmbedder, DamagedIndex, WrongTokenizer and NoLexicalIndex (rrf goes on without and notes it), and
    ValueError for an empty question or `top_k` below 1.
    """
    if not question.strip():
        raise ValueError("the question is empty; ask with at least one word")
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; ask for at least 1 chunk")
    if bm25_weight is not None:
        settings = settings.model_copy(update={"bm25_weight": bm25_weight})
    names = {match.said: match.confidence for match in filters.matches} if filters.mode != "all" else {}
    retrievers = Retrievers(index, question, embedder=embedder, names=names, settings=settings)
    looked = _Search(index, retrievers, strategy, _pool_size(top_k, per_document, reranker, settings), settings)
    pool = looked.within(None if documents is None else index.rows_of(documents), filters)
    ordered = pool.found
    if reranker:
        ordered = _reranked(index, question, pool.found[: max(top_k, settings.rerank_pool)], reranker)
    chosen = _cut(index, ordered, pool.sides, top_k=top_k, per_document=per_document)
    return Found(tuple(_hit(index, one) for one in chosen), tuple(dict.fromkeys(pool.notes)), pool.filters)


def retrieve(
    index: Index,
    question: str,
    plan: RetrievalPlan,
    *,
    embedder: Callable[[], Embedder],
    reranker: Reranker | None = None,
    documents: Collection[str] | None = None,
    settings: SearchSettings = DEFAULTS,
) -> Found:
    """What the plan says, or, where that cannot run, what comes nearest to it, and a note.

    documents: as in `search`. Raises as `search`, save NoLexicalIndex.
    """
    strategy, notes = _runnable(index, question, plan.strategy)
    several = plan.needs_multi_doc and len(plan.filters.groups) < 2
    found = search(
        index,
        question,
        strategy=strategy,
        top_k=plan.top_k,
        embedder=embedder,
        documents=documents,
        filters=plan.filters,
        per_document=-(-plan.top_k // settings.multi_documents) if several else None,
        reranker=reranker,
        settings=settings,
    )
    return found._replace(notes=(*notes, *found.notes))


def read_chunk(index: Index, row: int) -> Chunk:
    """The chunk at `row`."""
    return Chunk.model_validate_json(index.chunk(row))


def _runnable(index: Index, question: str, strategy: Strategy) -> tuple[Strategy, tuple[str, ...]]:
    """The strategy, or the one that runs in its place and why."""
    from models.embedders import reads

    if strategy == "bm25" and index.manifest.tokenizer is None:
        return "rrf", ("bm25 was planned, and the index was made without it; similarity and mmr ran",)
    if strategy in ("similarity", "mmr") and not reads(index.manifest.embedder, question):
        return "rrf", (f"{strategy} was planned, which cannot read the script of this question; rrf ran",)
    return strategy, ()


class _Pool(NamedTuple):
    found: Sequence[Fused]
    notes: list[str]
    filters: Filters = ALL
    sides: _Sides | None = None


class _Sides(NamedTuple):
    """What is compared: rows of each side, and on which share of the hits each may count."""

    rows: tuple[Rows, ...]
    of: int
    """Parts that the hits are shared into: as many as sides, one more where other documents have a part."""


@dataclass(frozen=True)
class _Search:
    """One search, wherever it looks."""

    index: Index
    retrievers: Retrievers
    strategy: Strategy
    pool: int
    """Chunks to find."""
    settings: SearchSettings

    def within(self, allowed: Rows | None, filters: Filters) -> _Pool:
        """The pool in the documents that are allowed and, as far as they hold anything, in those of the filters."""
        if filters.mode == "all" or not filters.documents:
            return _Pool(*self._ranked(Scope(allowed)))
        meant = _both(allowed, self.index.rows_of(filters.documents))
        if not meant.any():
            return self._everywhere(allowed, filters)
        bonus = self._bonus(filters)
        if len(filters.groups) > 1:
            pool = self._compared(allowed, bonus, filters)
        else:
            pool = _Pool(*self._ranked(Scope(meant if filters.mode == "only" else allowed, bonus)), filters)
        return pool if pool.found else self._everywhere(allowed, filters)

    def _bonus(self, filters: Filters) -> NDArray[np.float32] | None:
        """For documents that are preferred to others, and for those among them that fit best."""
        shares: list[NDArray[np.float32]] = []
        if filters.mode == "prefer":
            shares.append(self.index.rows_of(filters.documents) * np.float32(self.settings.preference))
        if filters.favoured:
            shares.append(self.index.rows_of(filters.favoured) * np.float32(self.settings.favour))
        return np.sum(shares, axis=0) if shares else None

    def _everywhere(self, allowed: Rows | None, filters: Filters) -> _Pool:
        said = ", ".join(dict.fromkeys(match.said for match in filters.matches)) or "the question"
        found, notes = self._ranked(Scope(allowed))
        return _Pool(found, [f"nothing was found in the documents that {said} stands for; all were searched", *notes])

    def _compared(self, allowed: Rows | None, bonus: NDArray[np.float32] | None, filters: Filters) -> _Pool:
        """Each side searched for itself; with `prefer` also the rest."""
        rows = tuple(_both(allowed, self.index.rows_of(group)) for group in filters.groups)
        ranked = [self._ranked(Scope(side, bonus if filters.favoured else None)) for side in rows]
        notes = [note for _, more in ranked for note in more]
        for (found, _), group in zip(ranked, filters.groups, strict=True):
            if not found:
                notes.append(f"nothing was found in {', '.join(self._names(group))}")
        pool = alternate([found for found, _ in ranked], same=_row)
        if filters.mode == "prefer":
            pool = alternate([self._ranked(Scope(allowed, bonus))[0] + pool], same=_row)
        return _Pool(pool, notes, filters, _Sides(rows, of=len(rows) + (filters.mode == "prefer")))

    def _names(self, documents: Collection[str]) -> list[str]:
        return [entry.name for entry in self.index.catalogue if entry.document in documents]

    def _ranked(self, scope: Scope) -> tuple[list[Fused], list[str]]:
        match self.strategy:
            case "similarity":
                return _alone("similarity", self.retrievers.similarity(self.pool, scope)), []
            case "mmr":
                return _alone("mmr", self.retrievers.mmr(self.pool, scope)), []
            case "bm25":
                return _alone("bm25", self.retrievers.bm25(self.pool, scope)), []
            case "rrf":
                return self._fused(scope)

    def _fused(self, scope: Scope) -> tuple[list[Fused], list[str]]:
        """Ranks of all retrievers that can read the question, fused."""
        settings, retrievers = self.settings, self.retrievers
        rankings, notes = dict[str, list[int]](), list[str]()
        try:
            if settings.bm25_weight:
                rankings["bm25"] = retrievers.bm25(max(settings.bm25_top_k, self.pool), scope).rows
            if settings.bm25_weight and settings.words_weight:
                rankings["words"] = retrievers.words(max(settings.words_pool, self.pool), scope).rows
        except (NoLexicalIndex, WrongTokenizer) as error:
            notes.append(f"fused similarity and mmr only: {error}")
        if rankings and not retrievers.reads_question:
            # measured on the sample questions: with its votes Korean page hit@5 falls from .91 to .24
            notes.append(f"words alone decide: {retrievers.embedder_name} does not read the script of this question")
        else:
            depth = max(settings.mmr_pool, self.pool)
            dense = {"similarity": retrievers.similarity(depth, scope).rows, "mmr": retrievers.mmr(depth, scope).rows}
            rankings = dense | rankings
        weights = {
            "similarity": settings.similarity_weight,
            "mmr": settings.mmr_weight,
            "bm25": settings.bm25_weight,
            "words": settings.bm25_weight * settings.words_weight,
        }
        return reciprocal_rank_fusion(rankings, weights=weights, rank_constant=settings.rrf_k), notes


def _pool_size(top_k: int, per_document: int | None, reranker: Reranker | None, settings: SearchSettings) -> int:
    if reranker:
        top_k = max(top_k, settings.rerank_pool)
    return top_k if per_document is None else max(settings.mmr_pool, 4 * top_k)


def _row(one: Fused) -> int:
    return one.row


def _both(allowed: Rows | None, rows: Rows) -> Rows:
    return rows if allowed is None else allowed & rows


def _alone(name: str, ranked: Ranked) -> list[Fused]:
    pairs = zip(ranked.rows, ranked.scores, strict=True)
    return [Fused(row, score, {name: rank}) for rank, (row, score) in enumerate(pairs, start=1)]


def _reranked(index: Index, question: str, pool: Sequence[Fused], reranker: Reranker) -> list[Fused]:
    if not pool:
        return []
    scores = reranker.score(question, [read_chunk(index, one.row).search_text for one in pool])
    order = np.argsort(-scores, kind="stable").tolist()
    return [
        Fused(pool[at].row, float(scores[at]), pool[at].ranks | {"rerank": rank})
        for rank, at in enumerate(order, start=1)
    ]


def _cut(
    index: Index, found: Sequence[Fused], sides: _Sides | None, *, top_k: int, per_document: int | None
) -> Sequence[Fused]:
    if sides is not None:
        return balanced(found, [lambda one, rows=rows: bool(rows[one.row]) for rows in sides.rows], top_k, of=sides.of)
    if per_document is not None:
        owner = index.document_of_row
        return spread(found, lambda one: int(owner[one.row]), top_k, most=per_document)
    return found[:top_k]


def _hit(index: Index, fused: Fused) -> Hit:
    return Hit(
        chunk=read_chunk(index, fused.row),
        document_name=index.document(fused.row).name,
        score=fused.score,
        ranks=fused.ranks,
    )
