"""Selectors that learn nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.learning.choosing import choose_at_random, choose_most_similar, predict
from tasks.lever.lever_errors import FileUnusable
from tests.lever.small_dataset import bank, pools

POOLS = pools({"q": ("a", "b", "c", "d"), "r": ("d", "c", "b", "a")})
CANDIDATES = bank({"a": [1.0, 0.0], "b": [0.8, 0.6], "c": [0.6, 0.8], "d": [0.0, 1.0]})
QUERIES = bank({"q": [1.0, 0.1], "r": [0.1, 1.0]})


def similar(shots: int, **changed: object) -> dict[str, tuple[int, ...]]:
    banks = {"of_queries": QUERIES, "of_candidates": CANDIDATES} | changed
    return choose_most_similar(POOLS, ["q", "r"], shots=shots, **banks)  # pyright: ignore[reportArgumentType]


def test_the_most_similar_is_shown_last() -> None:
    # q is closest to a, then b, then c; r to d, then c, which stand first in its pool
    assert similar(3) == {"q": (2, 1, 0), "r": (2, 1, 0)}
    assert similar(1) == {"q": (0,), "r": (0,)}


def test_of_equals_the_smaller_id_is_the_more_similar_one() -> None:
    alike = bank({name: [0.6, 0.8] for name in "abcd"})
    assert similar(2, of_candidates=alike) == {"q": (1, 0), "r": (2, 3)}


def test_a_candidate_without_a_vector_is_named() -> None:
    with pytest.raises(FileUnusable, match="d"):
        similar(2, of_candidates=bank({name: [0.6, 0.8] for name in "abc"}))


def test_random_positions_are_distinct_and_a_query_s_own() -> None:
    both = choose_at_random(POOLS, ["q", "r"], shots=3, seed=1)
    assert choose_at_random(POOLS, ["r"], shots=3, seed=1)["r"] == both["r"]
    assert all(len(set(pointer)) == 3 and max(pointer) < 4 for pointer in both.values())


def test_every_ordered_pointer_is_drawn_alike() -> None:
    drawn = Counter(choose_at_random(POOLS, ["q"], shots=2, seed=seed)["q"] for seed in range(2_400))
    # 12 ordered pairs, 200 each; 6 standard deviations of a binomial are 81
    assert len(drawn) == 12
    assert all(abs(count - 200) < 81 for count in drawn.values())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (CANDIDATES._replace(encoder="another"), "embedded by another, and by hand is needed"),
        (bank({name: [1.0, 0.0, 0.0] for name in "abcd"}), "3 numbers each, the queries 2"),
    ],
)
def test_a_selector_is_not_asked_about_vectors_of_two_encoders(other: EmbeddingBank, said: str) -> None:
    selector = PointerSelector(PointerConfig(embedding_dim=2, hidden=8, layers=1))
    with pytest.raises(FileUnusable, match=said):
        predict(selector, QUERIES, other, shots=1)
