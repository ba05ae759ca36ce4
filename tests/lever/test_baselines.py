"""Selectors that learn nothing."""

from __future__ import annotations

import math

import pytest
import torch

from tasks.lever.data.embeddings import EmbeddingBank, make_bank
from tasks.lever.learning.choosing import (
    BEST_OF,
    Demonstrations,
    choose_at_random,
    choose_by_vote,
    choose_distinct,
    choose_diverse,
    choose_nearest,
    choose_spread,
    search_best,
    untrained_selectors,
)
from tasks.lever.lever_records import UNTRAINED, Outcome, SelectorResult
from tests.lever.small_dataset import Verdicts, bank, pools

POOLS = {"q": ("a", "b", "c"), "r": ("b", "d", "a")}
CANDIDATES = bank({"a": [1.0, 0.0], "b": [0.8, 0.6], "c": [0.6, 0.8], "d": [0.0, 1.0]})
QUERIES = bank({"q": [1.0, 0.1], "r": [0.1, 1.0]})
CLASSES = {"a": "place", "b": "number", "c": "number", "d": "place"}
ALIKE = bank({name: [0.6, 0.8] for name in "abcd"})


def similar(shots: int, candidates: EmbeddingBank = CANDIDATES) -> Demonstrations:
    return choose_nearest(["q", "r"], "abcd", (QUERIES, candidates), shots=shots)


def similar_in_pool(shots: int, candidates: EmbeddingBank = CANDIDATES) -> Demonstrations:
    pair = (QUERIES, candidates)
    made = untrained_selectors(["q", "r"], "abcd", {"joint": pair}, pools=POOLS, classes={}, seed=0)
    return made["similarity_pool"](shots=shots)


def test_the_most_similar_of_all_is_shown_last() -> None:
    # q is closest to a, then b, then c; r to d, then c, which is not in its pool
    assert similar(3) == {"q": ("c", "b", "a"), "r": ("b", "c", "d")}
    assert similar(1) == {"q": ("a",), "r": ("d",)}


def test_the_class_that_most_neighbours_have_gives_the_demonstrations() -> None:
    # of a, b and c two are numbers; a, which is nearest, is not shown
    assert choose_by_vote(["q"], "abcd", (QUERIES, CANDIDATES), CLASSES, shots=2) == {"q": ("c", "b")}
    # of a and b one each: the nearest decides, and d, which is further than b, is shown
    assert choose_by_vote(["q"], "abd", (QUERIES, CANDIDATES), CLASSES, shots=2) == {"q": ("d", "a")}
    # of a class with too few members all, behind the nearest others
    assert choose_by_vote(["q"], "abd", (QUERIES, CANDIDATES), CLASSES, shots=3) == {"q": ("b", "d", "a")}


def test_of_equals_the_smaller_id_is_the_more_similar_one() -> None:
    assert similar(2, ALIKE) == {"q": ("b", "a"), "r": ("b", "a")}
    assert similar_in_pool(2, ALIKE) == {"q": ("b", "a"), "r": ("b", "a")}


def test_the_diverse_choice_is_near_and_unlike_what_is_picked() -> None:
    # behind a for q, among the three nearest: b .856 - .8, c .677 - .6, which is more
    assert choose_diverse(["q", "r"], "abcd", (QUERIES, CANDIDATES), shots=2) == {"q": ("c", "a"), "r": ("b", "d")}
    assert choose_diverse(["a"], "abcd", (CANDIDATES, CANDIDATES), shots=1) == {"a": ("b",)}


def test_a_copy_of_what_is_picked_spans_nothing_and_gives_way_to_what_is_further() -> None:
    copies = bank({"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [0.8, 0.6], "d": [0.0, 1.0]})
    pair = (bank({"q": [1.0, 0.1]}), copies)
    assert choose_spread(["q"], "abcd", pair, shots=2, weight=0.1) == {"q": ("c", "a")}
    assert choose_spread(["q"], "abcd", pair, shots=3, weight=0.1) == {"q": ("b", "c", "a")}


def test_a_question_that_is_shown_is_shown_again_only_where_there_is_no_other() -> None:
    questions = bank({"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 1.0], "d": [0.0, 1.0]})
    near = [choose_distinct(["q"], "abcd", (QUERIES, CANDIDATES), questions, shots=shots) for shots in (2, 3)]
    assert near == [{"q": ("c", "a")}, {"q": ("b", "c", "a")}]


def test_random_candidates_are_distinct_and_a_query_s_own() -> None:
    both = choose_at_random(["a", "r"], "abcd", shots=3, seed=1)
    assert choose_at_random(["r"], "dcba", shots=3, seed=1)["r"] == both["r"]
    assert set(both["a"]) == set("bcd"), "never the query itself"
    assert len(set(both["r"])) == 3


def test_a_sampler_shows_what_it_would_draw_first_last() -> None:
    vectors = torch.cat([QUERIES.vectors, CANDIDATES.vectors])
    every = make_bank((*"qrabcd",), vectors, encoder="by hand", where="test")
    banks = {"joint": (every, every), "texts": (every, every)}
    made = untrained_selectors(["q", "r"], "abcd", banks, pools=POOLS, classes={}, seed=0)
    assert made["TextSimSampler"](shots=2) == similar(2)


def test_each_choice_stands_where_its_embeddings_are_and_zero_shot_shows_nothing() -> None:
    made = untrained_selectors(["q"], "abcd", {"joint": (QUERIES, CANDIDATES)}, pools=POOLS, classes=CLASSES, seed=0)
    assert list(made) == ["zero_shot", "random", "similarity", "similarity_vote", "mmr", "dpp", "similarity_pool"]
    assert made["zero_shot"](shots=0) == {"q": ()}
    pair = (QUERIES, CANDIDATES)
    every = {"joint": pair, "images": pair, "texts": pair}
    assert list(untrained_selectors(["q"], "abcd", every, pools=POOLS, classes=CLASSES, seed=0)) == list(UNTRAINED)


EIGHT = pools({"q": [f"c{at}" for at in range(8)], "r": [f"c{at}" for at in range(8)]})


def test_all_ordered_pointers_are_tried_once_where_none_is_right() -> None:
    judge = Verdicts(lambda query, shown: 0.6 if (query, shown) == ("r", ("c7", "c0")) else 0.0)
    found = search_best(["q", "r"], EIGHT, judge, shots=2, seed=0)
    assert len(judge.asked) == len(set(judge.asked)) == 2 * 8 * 7
    assert [one.accuracy for one in found.outcomes] == [0, 0.6]
    assert found.outcomes[1].shown == ("c7", "c0")
    assert found.search
    assert (found.search.judged, found.search.settled) == (112, 2)


def test_of_more_shots_some_hundred_are_tried_and_the_accuracy_is_a_lower_bound() -> None:
    judge = Verdicts(lambda *_: 0.0)
    found = search_best(["q"], EIGHT, judge, shots=4, seed=0)
    assert math.perm(8, 4) > BEST_OF
    assert len(judge.asked) == len(set(judge.asked)) == BEST_OF
    assert found.search
    assert found.search.is_lower_bound


@pytest.mark.parametrize("most", [None, 0, 5])
def test_no_selector_is_better_than_the_oracle_and_what_it_found_is_not_asked_again(most: int | None) -> None:
    shown = ("c1", "c3", "c5", "c7")
    chosen = Outcome(query="q", pointer=(1, 3, 5, 7), shown=shown, accuracy=0.9, correct=1)
    known = [SelectorResult(selector="grpo", shots=4, outcomes=(chosen,))]
    judge = Verdicts(lambda *_: 0.0)
    found = search_best(["q"], EIGHT, judge, shots=4, seed=0, results=known, most_judgments=most)
    assert shown not in [one.demonstrations for one in judge.asked]
    assert found.outcomes == (chosen,)


def test_a_limit_ends_the_search_with_the_best_so_far() -> None:
    judge = Verdicts(lambda query, _: 1.0 if query == "q" else 0.3)
    found = search_best(["q", "r"], EIGHT, judge, shots=2, seed=0, most_judgments=20)
    assert found.search
    assert (found.search.judged, found.search.settled, found.search.is_lower_bound) == (20, 1, True)
    assert [one.accuracy for one in found.outcomes] == [1, 0.3]
