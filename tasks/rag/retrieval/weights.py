"""Weights of the rankings in a search; tasks/rag/README.md has the measurements that they rest on."""

from __future__ import annotations

from pydantic import Field

from storage.records import Record


class SearchSettings(Record):
    """Numeric settings of a search."""

    rrf_k: int = Field(default=60, ge=1)
    """Rank constant of the fusion: how little the first ranks stand out."""
    mmr_trade_off: float = Field(default=0.7, ge=0, le=1)
    """1 is relevance alone, 0 is difference alone."""
    mmr_pool: int = Field(default=30, ge=1)
    """Nearest chunks that mmr chooses from, and that rrf takes from similarity."""
    bm25_top_k: int = Field(default=30, ge=1)
    """Chunks that rrf takes from BM25."""
    similarity_weight: float = Field(default=1.0, ge=0)
    mmr_weight: float = Field(default=1.0, ge=0)
    bm25_weight: float = Field(default=1.0, ge=0)
    """How much words count in rrf beside meaning: of BM25 and `words`, where it divides `closeness`; 0: not at all."""
    words_weight: float = Field(default=200.0, ge=0)
    """Weight of the ranking `words` relative to BM25's; 0 is the seed's rrf. So high because ranks 1 and 2 differ by
    1/61 - 1/62: from 200 on nothing changes (README)."""
    words_pool: int = Field(default=100, ge=1)
    """Chunks that are looked at closely for `words`."""
    document_share: float = Field(default=0.2, ge=0)
    """What the chunk of a document that has most of a word gives to the others."""
    pair_share: float = Field(default=0.5, ge=0)
    """What a pair of syllables counts beside a word, in Korean."""
    said_share: float = Field(default=0.3, ge=0, le=1)
    """What a word of a name counts once the name has been resolved to documents."""
    added_share: float = Field(default=0.5, ge=0)
    title_bonus: float = Field(default=0.15, ge=0)
    """For tables of the statement that is asked for, as a share of the best score by words."""
    closeness: float = Field(default=0.07, ge=0)
    """Per standard deviation of the cosines in the pool, as a share of the best score by words."""
    preference: float = Field(default=0.25, ge=0)
    """For chunks of preferred documents, as a share of the best score."""
    favour: float = Field(default=0.1, ge=0)
    """For those of the documents meant that fit best in year, form or amount; on top of `preference` (README)."""
    multi_documents: int = Field(default=3, ge=1)
    """Over so many documents at least a question about several is spread, where there are as many."""
    rerank_pool: int = Field(default=30, ge=1)


DEFAULTS = SearchSettings()
