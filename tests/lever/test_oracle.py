"""The best that could have been chosen."""

from __future__ import annotations

import math

import pytest

from tasks.lever.learning.choosing import BEST_OF, search_best
from tasks.lever.lever_records import Outcome, SelectorResult
from tests.lever.small_dataset import Verdicts, pools

POOLS = pools({"q": [f"c{at}" for at in range(8)], "r": [f"c{at}" for at in range(8)]})


def test_all_ordered_pointers_are_tried_once_where_none_is_right() -> None:
    judge = Verdicts(lambda query, shown: 0.6 if (query, shown) == ("r", ("c7", "c0")) else 0.0)
    found = search_best(["q", "r"], POOLS, judge, shots=2, seed=0)
    assert len(judge.asked) == len(set(judge.asked)) == 2 * 8 * 7
    assert [one.accuracy for one in found.outcomes] == [0, 0.6]
    assert found.outcomes[1].shown == ("c7", "c0")
    assert found.search
    assert (found.search.judged, found.search.settled) == (112, 2)


def test_of_more_shots_some_hundred_are_tried_and_the_accuracy_is_a_lower_bound() -> None:
    judge = Verdicts(lambda *_: 0.0)
    found = search_best(["q"], POOLS, judge, shots=4, seed=0)
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
    found = search_best(["q"], POOLS, judge, shots=4, seed=0, known=known, most_judgments=most)
    assert shown not in [one.demonstrations for one in judge.asked]
    assert found.outcomes == (chosen,)


def test_a_limit_ends_the_search_with_the_best_so_far() -> None:
    judge = Verdicts(lambda query, _: 1.0 if query == "q" else 0.3)
    found = search_best(["q", "r"], POOLS, judge, shots=2, seed=0, most_judgments=20)
    assert found.search
    assert (found.search.judged, found.search.settled, found.search.is_lower_bound) == (20, 1, True)
    assert [one.accuracy for one in found.outcomes] == [1, 0.3]
