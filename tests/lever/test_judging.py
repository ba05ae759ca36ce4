"""Questions go to the judge once each, in the order of their prompts; what fails is a failure and no wrong answer."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from models.model_errors import ContextOverflow, ModelUnavailable, TransientModelError
from tasks.budget import Budget, BudgetSpent, Spending
from tasks.lever.judge.demonstration_task import PromptSettings
from tasks.lever.judge.judging import Judgment
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import VqaItem
from tests.kept_responses import Kept
from tests.lever.small_judges import Endpoint, Engine, asked, five_questions, forget, judging


@pytest.fixture
def items(tmp_path: Path) -> dict[str, VqaItem]:
    return five_questions(tmp_path)


@pytest.mark.parametrize(
    ("said", "threshold", "judgment"),
    # "ferry" is what 2 of 10 say, "a boat" one, "ship" seven
    [
        ("ferry", 0.5, Judgment("ferry", 1, 0.6, None)),
        ("ferry", 0.61, Judgment("ferry", 0, 0.6, None)),
        ("The boat.", 0.5, Judgment("The boat.", 0, 0.3, None)),
        ("ship, ferry", 1.0, Judgment("ship", 1, 1.0, None)),
        ("Answer: ship", 0.5, Judgment("", 0, 0.0, None)),
    ],
)
def test_an_answer_gets_its_accuracy_and_is_right_from_the_threshold_on(
    items: dict[str, VqaItem], said: str, threshold: float, judgment: Judgment
) -> None:
    [judged] = judging(Endpoint(lambda _: said), items, threshold=threshold).judge(asked("abq"))
    assert judged._replace(key=None) == judgment
    assert judged.key


@pytest.mark.parametrize("chat", [Endpoint, Engine])
def test_the_same_question_is_asked_once_and_another_order_is_another_question(
    items: dict[str, VqaItem], chat: type[Endpoint]
) -> None:
    one = chat()
    judge = judging(one, items)
    first = judge.judge(asked("abq", "baq", "abq"))
    assert judge.judge(asked("baq", "abq")) == [first[1], first[0]]
    assert sorted(one.asked) == ["abq", "baq"]


@pytest.mark.parametrize(
    ("latest_pick", "order"),
    # equal beginnings of prompts are neighbours, whichever end the picks were made from
    [("last", ["abc", "abq", "acq", "bq", "cbq"]), ("first", ["bq", "bac", "baq", "bcq", "caq"])],
)
def test_equal_beginnings_of_prompts_are_neighbours(
    items: dict[str, VqaItem], latest_pick: str, order: list[str]
) -> None:
    chat = Endpoint()
    prompts = PromptSettings.model_validate({"latest_pick": latest_pick})
    judging(chat, items, prompts=prompts).judge(asked("cbq", "abq", "bq", "acq", "abc"))
    assert chat.asked == order


def test_a_picture_that_is_gone_fails_what_shows_it_and_nothing_else(items: dict[str, VqaItem]) -> None:
    forget(items["a"])
    judged = judging(Endpoint(), items).judge(asked("abq", "bq", "a"))
    assert [one.correct for one in judged] == [None, 1, None]
    assert judged[0].failed is not None
    assert judged[0].failed.startswith("picture ")
    assert (judged[0].answer, judged[0].accuracy, judged[0].retryable) == (None, None, False)


@pytest.mark.parametrize(
    ("error", "retryable"), [(TransientModelError("busy"), True), (ContextOverflow("too long"), False)]
)
def test_a_judge_that_fails_is_no_wrong_answer(items: dict[str, VqaItem], error: Exception, retryable: bool) -> None:
    def say(names: str) -> str:
        if names == "abq" and not healed:
            raise error
        return "ship"

    healed: list[bool] = []
    chat = Endpoint(say)
    judge = judging(chat, items)
    assert [one._replace(key=None) for one in judge.judge(asked("abq", "bq"))] == [
        Judgment(None, None, None, str(error), retryable),
        Judgment("ship", 1, 1.0, None),
    ]
    healed.append(True)
    [again] = judge.judge(asked("abq"))
    assert (again.correct, chat.asked.count("abq")) == ((1, 2) if retryable else (None, 1))


def test_what_concerns_all_questions_is_raised_and_the_answers_are_kept(items: dict[str, VqaItem]) -> None:
    def say(names: str) -> str:
        if names == "cq":
            raise ModelUnavailable("no such model")
        return "ship"

    store, words = Kept(), asked("abq", "bq", "cq")
    with pytest.raises(ModelUnavailable):
        judging(Endpoint(say), items, store).judge(words)
    later = Endpoint()
    judging(later, items, store).judge(words)
    assert later.asked == ["cq"]


def test_a_spent_budget_is_raised_and_the_answers_are_kept(items: dict[str, VqaItem]) -> None:
    store, chat = Kept(), Endpoint()
    judge = judging(chat, items, store, budget=Budget(Spending(max_calls=2)))
    with pytest.raises(BudgetSpent):
        judge.judge(asked("abq", "bq", "cq"))
    assert [one.failed for one in judge.judge(asked("abq", "bq"))] == [None, None]
    assert chat.asked == ["abq", "bq"]


def test_a_question_of_another_dataset_is_refused_before_anything_is_asked(items: dict[str, VqaItem]) -> None:
    chat = Engine()
    judge = judging(chat, items)
    with pytest.raises(DatasetUnusable, match="there is no item z in this dataset"):
        judge.judge(asked("abq", "zq"))
    with pytest.raises(DatasetUnusable, match="there is no item z in this dataset"):
        judge.log_probs([(one, "ferry") for one in asked("abq", "az")])
    assert (chat.asked, chat.weighed) == ([], [])


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
        judging(chat, items, store, budget=Budget(Spending(max_calls=3))).log_probs(pairs)
    assert len(chat.weighed) == len(store.rows) == 3
    again = judging(chat, items, store, budget=Budget(Spending(max_calls=1)))
    assert again.log_probs(pairs) == [chat.log_prob("ship")] * 4
    assert again.budget is not None
    assert again.budget.calls == 1
