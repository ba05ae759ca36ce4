from __future__ import annotations

from math import log2

import pytest

from tasks.rag.metrics import Place, Question, bootstrap, evaluate, hit, ndcg, reciprocal_rank, score_ranking


@pytest.mark.parametrize(("k", "expected"), [(1, 0.0), (2, 1.0), (10, 1.0)])
def test_a_hit_is_a_gold_item_among_the_first_k(k: int, expected: float) -> None:
    assert hit(["a", "b", "c"], {"b", "z"}, k=k) == expected


@pytest.mark.parametrize(("gold", "expected"), [({"a"}, 1.0), ({"c", "b"}, 0.5), ({"z"}, 0.0), ({"d"}, 0.0)])
def test_reciprocal_rank_is_of_the_first_gold_item_within_the_cut(gold: set[str], expected: float) -> None:
    assert reciprocal_rank(["a", "b", "c", "d"], gold, k=3) == expected


def test_ndcg_compares_with_the_best_order_that_gold_allows() -> None:
    # gold at ranks 2 and 3; best would be 1 and 2
    assert ndcg(["a", "b", "c"], {"b", "c"}, k=10) == pytest.approx((1 / log2(3) + 1 / 2) / (1 + 1 / log2(3)))


def test_ndcg_of_more_gold_than_the_cut_can_still_be_one() -> None:
    assert ndcg(["a", "b"], {"a", "b", "c"}, k=2) == 1.0


def test_the_figures_of_one_ranking() -> None:
    figures = score_ranking([f"p{rank}" for rank in range(1, 12)], {"p6", "p11"})
    best = 1 + 1 / log2(3)
    assert figures == pytest.approx(
        {"hit@1": 0, "hit@5": 0, "hit@10": 1, "mrr@10": 1 / 6, "ndcg@10": 1 / log2(7) / best}
    )


def test_several_chunks_of_a_page_count_as_one_rank() -> None:
    places = [Place("x.pdf", 1), Place("x.pdf", 1), Place("x.pdf", 1), Place("y.pdf", 4)]
    result = evaluate([Question(id="1", question="?", document="y.pdf", pages=(4,))], lambda _: places)
    assert (result.page["mrr@10"].value, result.document["mrr@10"].value) == (0.5, 0.5)


def test_the_right_page_of_another_document_is_no_hit() -> None:
    result = evaluate([Question(id="1", question="?", document="y.pdf", pages=(4,))], lambda _: [Place("x.pdf", 4)])
    assert result.page["hit@10"].value == 0


def test_a_document_without_pages_counts_by_document_only() -> None:
    questions = [
        Question(id="1", question="a", document="x.docx"),
        Question(id="2", question="b", document="y.pdf", pages=(1, 2)),
    ]
    result = evaluate(questions, lambda _: [Place("x.docx", None)])
    assert (result.n, result.paged) == (2, 1)
    assert (result.document["hit@1"].value, result.page["hit@1"].value) == (0.5, 0.0)


def test_no_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="no questions"):
        evaluate([], lambda _: [])


def test_the_interval_holds_the_mean_and_narrows_with_more_values() -> None:
    few, many = bootstrap([0.0, 1.0] * 10, seed=1), bootstrap([0.0, 1.0] * 200, seed=1)
    assert few.low < few.value == 0.5 < few.high
    # a share of one half over n has a standard error of .5 / sqrt(n)
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.5 / 400**0.5, rel=0.1)


def test_equal_values_have_no_spread() -> None:
    assert bootstrap([1.0, 1.0, 1.0], seed=0).low == 1.0


def test_the_same_seed_gives_the_same_interval() -> None:
    assert bootstrap([0.0, 0.2, 1.0], seed=3) == bootstrap([0.0, 0.2, 1.0], seed=3)
