"""What selectors are worth: judged on held-out queries, and compared over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.lever.learning.choosing import judge_selectors
from tasks.lever.learning.selector_comparison import Gain, SeedEstimate, Summary, summarise
from tasks.lever.lever_records import Outcome
from tests.lever.outcomes import accuracy_of, result, seed_of
from tests.lever.small_dataset import Verdicts, pools

POOLS = pools({"q": ("a", "b", "c"), "r": ("c", "d", "e")})


def value_of(summary: Summary, selector: str) -> SeedEstimate:
    figure = summary.score_of(selector)
    assert figure
    return figure.accuracy


def gain_of(summary: Summary, better: str, worse: str) -> Gain:
    return next(gain for gain in summary.gains if (gain.better, gain.worse) == (better, worse))


# evaluate


def test_every_selector_is_judged_with_what_it_chose_in_its_order() -> None:
    judge = Verdicts(lambda query, shown: 1.0 if shown == ("c", "a") else 0.3)
    first, second = judge_selectors(
        {
            "grpo": lambda shots: {"q": ("c", "a"), "r": ("c", "d")},
            "sft": lambda shots: {"q": ("a", "c"), "r": ("c", "d")},
        },
        ["q", "r"],
        POOLS,
        judge,
        shots=[2],
    )
    assert [(one.query, one.demonstrations) for one in judge.asked[:2]] == [("q", ("c", "a")), ("r", ("c", "d"))]
    assert (first.selector, accuracy_of(first)) == ("grpo", pytest.approx(0.65))
    assert [one.correct for one in first.outcomes] == [1, 0]
    assert (second.selector, accuracy_of(second)) == ("sft", pytest.approx(0.3))
    assert [one.correct for one in second.outcomes] == [0, 0]
    assert first.outcomes[0] == Outcome(
        query="q", pointer=(2, 0), shown=("c", "a"), answer="yes", accuracy=1.0, correct=1
    )


def test_an_answer_that_the_judge_could_not_give_is_not_wrong() -> None:
    judge = Verdicts(lambda query, _: None if query == "r" else 1.0)
    (found,) = judge_selectors({"sft": lambda shots: {"q": ("a",), "r": ("c",)}}, ["q", "r"], POOLS, judge, shots=[1])
    assert (accuracy_of(found), found.unscored) == (1.0, 1)
    assert found.outcomes[1].failed == "the judge is away"


# summarise


def test_a_paired_gain_is_surer_than_its_two_figures() -> None:
    rng = np.random.default_rng(0)
    rce = rng.random(300) < 0.5
    grpo = rce | (rng.random(300) < 0.1)
    summary = summarise([seed_of(0, {"rce": rce.astype(float).tolist(), "grpo": grpo.astype(float).tolist()})])
    widths = [width(one) for one in (gain_of(summary, "grpo", "rce").accuracy, value_of(summary, "grpo"))]
    assert widths[0] < widths[1] / 2


def width(one: SeedEstimate) -> float:
    assert one.low is not None
    assert one.high is not None
    return one.high - one.low


def test_an_interval_of_one_seed_is_that_of_a_bootstrap_over_queries() -> None:
    values = np.random.default_rng(1).random(200)
    found = value_of(summarise([seed_of(0, {"sft": values.tolist()})]), "sft")
    # 1.96 standard errors, which the percentiles of 2,000 resamples meet within a few per cent
    error = values.std(ddof=1) / 200**0.5
    assert found.se == pytest.approx(error)
    assert width(found) == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_the_same_queries_in_every_seed_are_one_cluster_each() -> None:
    hard = [float(number % 2) for number in range(100)]
    one = value_of(summarise([seed_of(0, {"sft": hard})]), "sft")
    five = value_of(summarise([seed_of(number, {"sft": hard}) for number in range(5)]), "sft")
    # five seeds that agree on every query know no more about other queries than one
    assert width(five) == pytest.approx(width(one), rel=0.1)


def test_what_was_trained_is_compared_with_similarity_the_strongest_choice_and_the_stage_before() -> None:
    accuracies = {"random": 0.1, "similarity": 0.4, "similarity_pool": 0.3, "ImgSimSampler": 0.5}
    learnt = {"sft": 0.3, "rce": 0.6, "grpo": 0.7, "grpo, no gate": 0.65, "oracle": 1.0}
    found = seed_of(0, {name: [one, one] for name, one in (accuracies | learnt).items()})
    without = result("zero_shot", [0.0, 0.2], shots=0)
    summary = summarise([found.model_copy(update={"results": (*found.results, without)})])
    assert [figure.selector for figure in summary.figures] == ["zero_shot", *accuracies, *learnt]
    assert [(gain.better, gain.worse) for gain in summary.gains] == [
        *((name, rule) for rule in ("ImgSimSampler", "similarity") for name in reversed(list(learnt)[:-1])),
        ("grpo", "similarity_pool"),
        ("grpo", "rce"),
        ("rce", "sft"),
        ("similarity", "random"),
        ("similarity", "zero_shot"),
    ]
    assert gain_of(summary, "sft", "similarity").accuracy.value == pytest.approx(-0.1)
    assert gain_of(summary, "similarity", "zero_shot").accuracy.value == pytest.approx(0.3)
    assert summary.headline == gain_of(summary, "grpo", "ImgSimSampler")
    assert [figure.selector for figure in summary.compared()] == ["zero_shot", *accuracies, *learnt]


def test_the_headline_is_of_the_last_stage_at_the_shots_that_it_was_trained_for() -> None:
    found = seed_of(0, {"similarity": [0.0, 1.0], "sft": [1.0, 1.0]})
    more = (*found.results, result("similarity", [0.0, 0.0], shots=1), result("grpo", [1.0, 1.0], shots=1))
    gain = summarise([found.model_copy(update={"results": more})]).headline
    assert gain
    assert (gain.better, gain.shots, gain.accuracy.value) == ("sft", 2, 0.5)
    assert summarise([seed_of(0, {"random": [1.0, 0.0], "grpo": [1.0, 1.0]})]).headline is None
