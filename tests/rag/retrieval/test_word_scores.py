"""Words choose the chunk, and its document has a say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from storage.lexical import IndexCounts, Lexical, count_postings
from tasks.rag.retrieval.retrievers import word_scores


def opened(corpus: Sequence[Sequence[str]]) -> Lexical:
    held = [count_postings(corpus)]
    return Lexical(held, IndexCounts.of(held))


# the title of each document stands in all of its chunks, as it does in headings
CHUNKS = [
    ["harbor", "harbor", "harbor", "budget", "cover"],
    ["harbor", "deadline"],
    ["harbor", "tower", "staff"],
    ["library", "deadline"],
    ["library", "shelves"],
    ["music"],
    ["garden"],
    ["kitchen"],
    ["bridge"],
]
OWNERS = np.array([0, 0, 0, 1, 1, 2, 3, 4, 5], np.int32)


def scores(words: Mapping[str, float], *, document_share: float = 0.5) -> list[float]:
    found = word_scores(opened(CHUNKS), words, OWNERS, document_share=document_share)
    return found.tolist()


def test_among_equal_chunks_the_rest_of_the_document_decides() -> None:
    found = scores({"tower": 1.0, "deadline": 1.0})
    bm25 = opened(CHUNKS).scores(["tower", "deadline"])
    assert bm25[1] == bm25[3]
    assert found[1] > found[3]


def test_a_score_worked_by_hand() -> None:
    # tower: once in one of nine chunks, of 3 words where the mean is 2; in one of the three of its document
    weight = math.log(8.5 / 1.5) * 1.6 / (1 + 0.6 * (0.6 + 0.4 * 3 / 2))
    found = scores({"tower": 1.0})
    assert found == pytest.approx([weight / 2, weight / 2, weight * 1.5, 0, 0, 0, 0, 0, 0])


@settings(max_examples=40)
@given(some.permutations(range(len(CHUNKS))))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    words = {"harbor": 1.0, "deadline": 0.5, "library": 2.0}
    expected = word_scores(opened(CHUNKS), words, OWNERS, document_share=0.5)
    lexical = opened([CHUNKS[row] for row in order])
    found = word_scores(lexical, words, OWNERS[order], document_share=0.5)
    assert found == pytest.approx(expected[order])
