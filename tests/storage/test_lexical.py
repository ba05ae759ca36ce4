from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from rank_bm25 import BM25Okapi

from storage.lexical import IndexCounts, Lexical, count_postings

CORPUS = [["bid", "price", "bid"], ["price", "date"], ["date"], ["award", "date", "open"], ["open"]]
WORDS = some.lists(some.sampled_from("abcdefg가나다"), max_size=12)


def opened(corpus: Sequence[Sequence[str]], *, segment_rows: int = 700) -> Lexical:
    held = [count_postings(corpus[at : at + segment_rows]) for at in range(0, max(len(corpus), 1), segment_rows)]
    return Lexical(held, IndexCounts.of(held))


def zipfian(rows: int) -> list[list[str]]:
    random = np.random.default_rng(0)
    return [[f"w{rank}" for rank in random.zipf(1.3, random.integers(5, 80)) if rank < 10_000] for _ in range(rows)]


@settings(max_examples=60)
@given(some.lists(WORDS, min_size=1, max_size=9).filter(any), WORDS)
def test_scores_are_those_of_rank_bm25_on_any_corpus(corpus: list[list[str]], query: list[str]) -> None:
    ours = opened(corpus, segment_rows=4).scores(query)
    assert ours == pytest.approx(BM25Okapi(corpus).get_scores(query), abs=1e-9)


def test_a_score_worked_by_hand() -> None:
    # award: in 1 row of 5, idf = ln(4.5 / 1.5); its row has 3 words, the average is 2
    weight = np.log(3) * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 3 / 2))
    assert opened(CORPUS).search(["award"], 3).scores == pytest.approx([weight])


def test_a_row_is_found_even_where_the_formula_gives_nothing_for_its_word() -> None:
    assert opened([["bid"], ["date"]]).search(["bid"], 9).rows.tolist() == [0]  # idf = ln(1.5 / 1.5)


def test_a_word_of_every_row_finds_every_row() -> None:
    assert opened([["bid"], ["bid", "date"]]).search(["bid"], 9).rows.size == 2  # negative idf


def test_equal_scores_stand_in_row_order_at_the_cut_too() -> None:
    corpus = [["bid"] if row % 3 == 0 else ["date"] for row in range(1_000)]
    assert opened(corpus).search(["bid"], 4).rows.tolist() == [0, 3, 6, 9]


def test_the_best_of_many_rows_are_those_of_a_full_sort() -> None:
    index = opened(zipfian(2_000))
    scores = index.scores(["w2", "w30"])
    expected = np.lexsort((np.arange(2_000), -scores))[:25]
    assert index.search(["w2", "w30"], 25).rows.tolist() == expected.tolist()


@pytest.mark.parametrize("corpus", [[], [[]], [[], []]], ids=["no rows", "an empty row", "empty rows"])
def test_an_index_without_words_finds_nothing(corpus: list[list[str]]) -> None:
    assert not opened(corpus).search(["bid"], 3).rows.size


def test_the_order_in_which_words_are_met_does_not_matter_to_the_vocabulary() -> None:
    one, other = count_postings([["b", "a"], ["c"]]), count_postings([["a", "b"], ["c"]])
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(one, other, strict=True))


def test_scores_do_not_depend_on_how_rows_are_cut_into_segments() -> None:
    corpus = zipfian(2_000)
    whole, cut = opened(corpus, segment_rows=2_000), opened(corpus, segment_rows=123)
    for query in (["w1"], ["w1", "w7", "w900"], corpus[5]):
        assert cut.scores(query).tolist() == whole.scores(query).tolist()
