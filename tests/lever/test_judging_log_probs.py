"""How likely a judge finds an answer: asked for once, in batches, and kept whatever happens then."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tasks.budget import Budget, BudgetSpent
from tasks.lever.lever_records import VqaItem
from tests.lever.small_judges import Engine, Kept, asked, five_questions, judging


@pytest.fixture
def items(tmp_path: Path) -> dict[str, VqaItem]:
    return five_questions(tmp_path)


def test_log_probabilities_come_in_order_and_each_is_asked_for_once(items: dict[str, VqaItem]) -> None:
    chat = Engine()
    judge = judging(chat, items)
    pairs = [(one, answer) for one in asked("bq", "abq", "bq") for answer in ("ship", "ferry")]
    expected = [chat.log_prob(answer) for _, answer in pairs]
    assert judge.log_probs(pairs) == expected
    assert judge.log_probs(pairs[::-1]) == expected[::-1]
    assert sorted(chat.weighed) == sorted([("abq", "ferry"), ("abq", "ship"), ("bq", "ferry"), ("bq", "ship")])


def test_an_impossible_answer_has_minus_infinity_in_the_store_too(items: dict[str, VqaItem]) -> None:
    class Sure(Engine):
        def log_prob(self, answer: str) -> float:
            return -math.inf

    store, pairs = Kept(), [(asked("abq")[0], "ship")]
    assert judging(Sure(), items, store).log_probs(pairs) == [-math.inf]
    assert judging(Engine(), items, store).log_probs(pairs) == [-math.inf]
    assert judging(Sure(), items, store).gt_prob(asked("abq")) == [0.0]


def test_log_probabilities_that_came_before_a_failure_are_kept(items: dict[str, VqaItem]) -> None:
    store, chat = Kept(), Engine()
    pairs = [(one, "ship") for one in asked("abq", "bq", "cq", "dq")]
    chat.dies_after = 3
    with pytest.raises(RuntimeError, match="out of memory"):
        judging(chat, items, store).log_probs(pairs)
    later = Engine()
    judging(later, items, store).log_probs(pairs)
    assert len(later.weighed) == 1


def test_a_request_that_the_judge_refuses_has_no_log_probability_and_is_named(
    items: dict[str, VqaItem], caplog: pytest.LogCaptureFixture
) -> None:
    chat = Engine(refuses=["abq"])
    judge, pairs = judging(chat, items), [(one, "ship") for one in asked("abq", "bq")]
    assert [math.isnan(one) for one in judge.log_probs(pairs)] == [True, False]
    assert [math.isnan(one) for one in judge.log_probs(pairs)] == [True, False]
    assert chat.weighed == [("bq", "ship")]
    assert "query=q error=an odd shape" in caplog.text


def test_the_probability_of_a_right_answer_weighs_answers_by_people(items: dict[str, VqaItem]) -> None:
    # 2 of 10 say "ferry", one "a boat", seven "ship"; the engine halves for each letter
    expected = 2 / 3 * 2**-5 + 1 / 3 * 2**-6 + 1 * 2**-4
    assert judging(Engine(), items).gt_prob(asked("abq", "q")) == pytest.approx([expected, expected])


def test_a_limit_on_calls_counts_log_probabilities_and_what_was_paid_for_is_kept(items: dict[str, VqaItem]) -> None:
    store, chat, pairs = Kept(), Engine(), [(one, "ship") for one in asked("abq", "bq", "cq", "dq")]
    with pytest.raises(BudgetSpent, match="the 3 model calls that were allowed are used up"):
        judging(chat, items, store, budget=Budget(max_calls=3)).log_probs(pairs)
    assert len(chat.weighed) == len(store.rows) == 3
    again = judging(chat, items, store, budget=Budget(max_calls=1))
    assert again.log_probs(pairs) == [chat.log_prob("ship")] * 4
    assert again.budget is not None
    assert again.budget.calls == 1
