"""Selectors that learn nothing."""

from __future__ import annotations

import pytest
import torch

from tasks.lever.data.embeddings import EmbeddingBank, bank_of
from tasks.lever.learning.choosing import (
    Shown,
    choose_at_random,
    choose_by_sampler,
    choose_by_vote,
    choose_diverse,
    choose_nearest,
    choose_nearest_of_pool,
    untrained,
)
from tasks.lever.learning.predicting import refuse_others
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import UNTRAINED
from tests.lever.small_dataset import bank

POOLS = {"q": ("a", "b", "c"), "r": ("b", "d", "a")}
CANDIDATES = bank({"a": [1.0, 0.0], "b": [0.8, 0.6], "c": [0.6, 0.8], "d": [0.0, 1.0]})
QUERIES = bank({"q": [1.0, 0.1], "r": [0.1, 1.0]})
CLASSES = {"a": "place", "b": "number", "c": "number", "d": "place"}
ALIKE = bank({name: [0.6, 0.8] for name in "abcd"})


def similar(shots: int, candidates: EmbeddingBank = CANDIDATES) -> Shown:
    return choose_nearest(["q", "r"], "abcd", (QUERIES, candidates), shots=shots)


def similar_in_pool(shots: int, candidates: EmbeddingBank = CANDIDATES) -> Shown:
    return choose_nearest_of_pool(["q", "r"], POOLS, (QUERIES, candidates), shots=shots)


def test_the_most_similar_of_all_is_shown_last() -> None:
    # q is closest to a, then b, then c; r to d, then c, which is not in its pool
    assert similar(3) == {"q": ("c", "b", "a"), "r": ("b", "c", "d")}
    assert similar(1) == {"q": ("a",), "r": ("d",)}


def test_the_class_that_most_neighbours_have_gives_the_demonstrations() -> None:
    # of a, b and c two are numbers; a, which is nearest, is not shown
    assert choose_by_vote(["q"], "abcd", (QUERIES, CANDIDATES), CLASSES, shots=2) == {"q": ("c", "b")}
    # of a and b one each: the nearest decides, and d, which is further than b, is shown
    assert choose_by_vote(["q"], "abd", (QUERIES, CANDIDATES), CLASSES, shots=2) == {"q": ("d", "a")}


def test_of_equals_the_smaller_id_is_the_more_similar_one() -> None:
    assert similar(2, ALIKE) == {"q": ("b", "a"), "r": ("b", "a")}
    assert similar_in_pool(2, ALIKE) == {"q": ("b", "a"), "r": ("b", "a")}


def test_the_diverse_choice_is_near_and_unlike_what_is_picked() -> None:
    # behind a for q, among the three nearest: b .856 - .8, c .677 - .6, which is more
    assert choose_diverse(["q", "r"], "abcd", (QUERIES, CANDIDATES), shots=2) == {"q": ("c", "a"), "r": ("b", "d")}
    assert choose_diverse(["a"], "abcd", (CANDIDATES, CANDIDATES), shots=1) == {"a": ("b",)}


def test_random_candidates_are_distinct_and_a_query_s_own() -> None:
    both = choose_at_random(["a", "r"], "abcd", shots=3, seed=1)
    assert choose_at_random(["r"], "dcba", shots=3, seed=1)["r"] == both["r"]
    assert set(both["a"]) == set("bcd"), "never the query itself"
    assert len(set(both["r"])) == 3


def test_a_sampler_shows_what_it_would_draw_first_last() -> None:
    vectors = torch.cat([QUERIES.vectors, CANDIDATES.vectors])
    every = bank_of((*"qrabcd",), vectors, encoder="by hand", where="test")
    banks = {"texts": (every, every)}
    assert choose_by_sampler(["q", "r"], "abcd", banks, sampler="TextSimSampler", shots=2, seed=0) == similar(2)


def test_each_choice_stands_where_its_embeddings_are_and_zero_shot_shows_nothing() -> None:
    made = untrained(["q"], "abcd", {"joint": (QUERIES, CANDIDATES)}, pools=POOLS, classes=CLASSES, seed=0)
    assert list(made) == ["zero_shot", "random", "similarity", "similarity_vote", "mmr", "similarity_pool"]
    assert made["zero_shot"](shots=0) == {"q": ()}
    pair = (QUERIES, CANDIDATES)
    every = {"joint": pair, "images": pair, "texts": pair, "classes": pair}
    assert list(untrained(["q"], "abcd", every, pools=POOLS, classes=CLASSES, seed=0)) == list(UNTRAINED)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (CANDIDATES._replace(encoder="another"), "embedded by another, and by hand is needed"),
        (bank({name: [1.0, 0.0, 0.0] for name in "abcd"}), "3 numbers each, the queries 2"),
    ],
)
def test_a_selector_is_not_asked_about_vectors_of_two_encoders(other: EmbeddingBank, said: str) -> None:
    with pytest.raises(FileUnusable, match=said):
        refuse_others(QUERIES, other)
