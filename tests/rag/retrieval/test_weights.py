"""Who has a vote on which question."""

from __future__ import annotations

import pytest

from tasks.rag.retrieval.retrievers import DEFAULTS, closeness_for


@pytest.mark.parametrize(
    ("embedder", "question", "votes"),
    [
        ("minilm@1", "What is the price?", True),
        ("minilm@1", "가격은 얼마인가?", False),
        ("e5@1", "가격은 얼마인가?", True),
        ("BAAI/bge-m3@1", "가격은 얼마인가?", True),
        ("BAAI/bge-m3@1", "What is the price?", True),
    ],
)
def test_likeness_votes_where_the_embedder_reads_the_script(embedder: str, question: str, votes: bool) -> None:
    assert (closeness_for(embedder, question, DEFAULTS) > 0) == votes


def test_the_numbers_of_the_seed_stand() -> None:
    names = ("rrf_k", "mmr_trade_off", "mmr_pool", "bm25_top_k")
    assert [getattr(DEFAULTS, name) for name in names] == [60, 0.7, 30, 30]
    assert {DEFAULTS.similarity_weight, DEFAULTS.mmr_weight, DEFAULTS.bm25_weight} == {1.0}
