"""Searches chunks by similarity, by words, or by both, first in the documents that a question means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.embedders import reads_script
from models.protocols import Embedder, Reranker
from storage.index import Index
from storage.records import Record
from tasks.documents.blocks import PageSource
from tasks.rag import STRATEGY
from tasks.rag.answers import Filters, RetrievalPlan, page_source_of
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.retrievers import DEFAULTS, Retrievers, Rows, Scope, SearchSettings
from tasks.rag.retrieval.strategies import Fused, Ranking, find_strategy

Item = TypeVar("Item")

ALL = Filters()


class Hit(Record):
    """A chunk that a search returned, with its score and its rank in each ranking."""

    chunk: Chunk
    document_name: str
    """Path below the indexed folder."""
    page_source: PageSource = "stored"
    score: float
    """The score that hits are ordered by: cosine, marginal relevance, BM25, fused, or the reranker's."""
    ranks: dict[str, int]
    """Retriever → 1-based rank, for each that found the chunk; `rerank` among them when a reranker ordered the pool."""


class SearchResult(NamedTuple):
    """The hits of a search, with notes about where it departed from what was asked for."""

    hits: tuple[Hit, ...]
    """The hits in the order of their scores, the best first."""
    notes: tuple[str, ...]
    """Where the search differs from the one that was asked for, and why."""
    filters: Filters = ALL
    """The documents that it looked in, or looked in first."""


def search(
    index: Index,
    question: str,
    *,
    strategy: str,
    top_k: int,
    embedder: Callable[[], Embedder],
    bm25_weight: float | None = None,
    documents: Collection[str] | None = None,
    filters: Filters = ALL,
    per_document: int | None = None,
    reranker: Reranker | None = None,
    settings: SearchSettings = DEFAULTS,
) -> SearchResult:
    """Return the `top_k` best chunks of the index for a question.

    embedder: called only by strategies that compare meaning. bm25_weight: weight of words in rrf; None: of `settings`.
    documents: digests to search in; None is all. filters: what the question means; compared sides share the hits.
    per_document: the most chunks of one document, as long as others are there.
    Where documents of `filters` hold nothing, all are searched, with a note. Raises WrongEmbedder, DamagedIndex,
    WrongTokenizer, NoLexicalIndex, StrategyUnusable, and ValueError for an empty question or `top_k` below 1.
    """
    if not question.strip():
        raise ValueError("the question is empty; ask with at least one word")
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; ask for at least 1 chunk")
    if bm25_weight is not None:
        settings = settings.model_copy(update={"bm25_weight": bm25_weight})
    # only where they led to documents: then their words say nothing more within these
    names = {match.said: match.confidence for match in filters.matches} if filters.mode != "all" else {}
    retrievers = Retrievers(index, question, embedder=embedder, names=names, settings=settings)
    count = max(top_k, settings.rerank_pool) if reranker else top_k  # a reranker may raise what stands deep in the pool
    # a limit per document passes hits over, which a deeper pool replaces
    pool_size = count if per_document is None else max(settings.mmr_pool, 4 * count)
    rank = partial(find_strategy(strategy).rank, retrievers, pool_size)
    pool = _Search(index, rank, settings).within(None if documents is None else index.rows_of(documents), filters)
    ordered = pool.hits
    if reranker:
        top = pool.hits[: max(top_k, settings.rerank_pool)]
        texts = [read_chunk(index, hit.row).search_text for hit in top]
        scores = reranker.score(question, texts) if texts else np.empty(0, np.float32)
        ranked = enumerate(np.argsort(-scores, kind="stable").tolist(), start=1)  # ties keep the search's order
        ordered = [Fused(top[at].row, float(scores[at]), top[at].ranks | {"rerank": rank}) for rank, at in ranked]
    if pool.sides:
        # documents that are only preferred leave a part of the hits to the others
        selected = balanced(ordered, pool.sides, top_k, parts=len(pool.sides) + (filters.mode == "prefer"))
    elif per_document is not None:
        owner = index.document_of_row
        selected = spread(ordered, lambda candidate: int(owner[candidate.row]), top_k, most=per_document)
    else:
        selected = ordered[:top_k]
    hits = tuple(
        Hit(
            chunk=chunk,
            document_name=index.document(row).name,
            page_source=page_source_of(index.document(row), chunk.page),
            score=score,
            ranks=ranks,
        )
        for row, score, ranks in selected
        for chunk in [read_chunk(index, row)]
    )
    return SearchResult(hits, tuple(dict.fromkeys(pool.notes)), pool.filters)


def retrieve(
    index: Index,
    question: str,
    plan: RetrievalPlan,
    *,
    embedder: Callable[[], Embedder],
    reranker: Reranker | None = None,
) -> SearchResult:
    """Return the hits of the search that a plan describes, or with a note of the nearest one that the index allows.

    Raises what `search` raises, except NoLexicalIndex.
    """
    strategy, notes, needs = plan.strategy, (), find_strategy(plan.strategy).needs
    if "words" in needs and index.manifest.tokenizer is None:
        strategy = STRATEGY
        notes = (f"{plan.strategy} was planned, and the index was made without it; similarity and mmr ran",)
    elif "meaning" in needs and not reads_script(index.manifest.embedder, question):
        strategy = STRATEGY
        notes = (f"{plan.strategy} was planned, which cannot read the script of this question; rrf ran",)
    several = plan.needs_multi_doc and len(plan.filters.groups) < 2
    result = search(
        index,
        question,
        strategy=strategy,
        top_k=plan.top_k,
        embedder=embedder,
        filters=plan.filters,
        per_document=-(-plan.top_k // DEFAULTS.multi_documents) if several else None,  # rounded up
        reranker=reranker,
    )
    return result._replace(notes=(*notes, *result.notes))


def read_chunk(index: Index, row: int) -> Chunk:
    """Read the chunk at one row of the index. Raises DamagedIndex."""
    return Chunk.model_validate_json(index.chunk(row))


class _Pool(NamedTuple):
    hits: Sequence[Fused]
    notes: Sequence[str]
    filters: Filters = ALL
    sides: tuple[Rows, ...] = ()
    """Rows of each side of a comparison."""


@dataclass(frozen=True)
class _Search:
    """A search that can be repeated in other scopes."""

    index: Index
    rank: Callable[[Scope], Ranking]
    settings: SearchSettings

    def within(self, allowed: Rows | None, filters: Filters) -> _Pool:
        """Return the ranking of the allowed chunks, those of the filters' documents alone or first, if any."""
        if filters.mode == "all" or not filters.documents:
            return _Pool(*self.rank(Scope(allowed)))
        of_filters = self.index.rows_of(filters.documents)
        preferred = of_filters if allowed is None else allowed & of_filters
        if not preferred.any():
            return self._search_everywhere(allowed, filters)
        # for documents that are preferred to others, and for those among them that fit best
        bonus: NDArray[np.float32] | None = None
        if filters.mode == "prefer" or filters.favoured:
            bonus = np.zeros(len(self.index), np.float32)
        if bonus is not None and filters.mode == "prefer":
            bonus[np.flatnonzero(of_filters)] = self.settings.preference
        if bonus is not None and filters.favoured:
            bonus[np.flatnonzero(self.index.rows_of(filters.favoured))] += np.float32(self.settings.favour)
        if len(filters.groups) > 1:
            pool = self._search_sides(allowed, bonus, filters)
        else:
            pool = _Pool(*self.rank(Scope(preferred if filters.mode == "only" else allowed, bonus)), filters)
        return pool if pool.hits else self._search_everywhere(allowed, filters)

    def _search_everywhere(self, allowed: Rows | None, filters: Filters) -> _Pool:
        """Rank the chunks of all allowed documents, with a note that those of the filters hold nothing."""
        names = ", ".join(dict.fromkeys(match.said for match in filters.matches)) or "the question"
        ranking, notes = self.rank(Scope(allowed))
        return _Pool(
            ranking, [f"nothing was found in the documents that {names} stands for; all were searched", *notes]
        )

    def _search_sides(self, allowed: Rows | None, bonus: NDArray[np.float32] | None, filters: Filters) -> _Pool:
        """Return the hits of each side of a comparison, in turn; with `prefer` those of other documents too."""
        sides = (self.index.rows_of(group) for group in filters.groups)
        rows = tuple(side if allowed is None else allowed & side for side in sides)
        ranked = [self.rank(Scope(side, bonus if filters.favoured else None)) for side in rows]
        notes = [note for _, side_notes in ranked for note in side_notes]
        for (ranking, _), group in zip(ranked, filters.groups, strict=True):
            if not ranking:
                names = (name for document, name in self.index.names.items() if document in group)
                notes.append(f"nothing was found in {', '.join(names)}")
        pool = alternate([ranking for ranking, _ in ranked], key=attrgetter("row"))
        if filters.mode == "prefer":
            pool = alternate([self.rank(Scope(allowed, bonus)).found + pool], key=attrgetter("row"))
        return _Pool(pool, notes, filters, rows)


def alternate(rankings: Iterable[Sequence[Item]], *, key: Callable[[Item], Hashable]) -> list[Item]:
    """Return the first item of each ranking, then the second of each, and so on; of items of equal `key` the first."""
    first: dict[Hashable, Item] = {}
    for turn in zip_longest(*rankings):
        for item in turn:
            if item is not None:
                first.setdefault(key(item), item)
    return list(first.values())


def balanced(hits: Sequence[Fused], sides: Sequence[Rows], count: int, *, parts: int) -> list[Fused]:
    """Return the first `count` hits in their order, of each side at least `count // parts` (and 1) if it has so many.

    sides: the rows of each side. parts: parts that `count` is shared into, no fewer than sides.
    """
    share = max(count // parts, 1)
    guaranteed = [row for side in sides for row in [hit.row for hit in hits if side[hit.row]][:share]]
    return _fill(hits, guaranteed, count)


def spread(hits: Sequence[Fused], owner: Callable[[Fused], int], count: int, *, most: int) -> list[Fused]:
    """Return the first `count` hits with at most `most` of one owner; the best passed over fill what room is left."""
    counts = Counter[int]()
    within: list[int] = []
    for hit in hits:
        counts[owner(hit)] += 1
        if counts[owner(hit)] <= most:
            within.append(hit.row)
    return _fill(hits, within, count)


def _fill(hits: Sequence[Fused], rows: Iterable[int], count: int) -> list[Fused]:
    """Return `count` hits in their order: those of `rows`, the first ones first, then the best of the rest."""
    selected_rows = set(list(dict.fromkeys([*rows, *(hit.row for hit in hits)]))[:count])
    return [hit for hit in hits if hit.row in selected_rows]
