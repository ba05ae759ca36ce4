"""The promised share of wrong answers holds on questions that were not calibrated on."""

import math
import random

import pytest

from tasks.measure.estimates import clopper_pearson, least_confidence


def test_the_threshold_lies_just_above_the_first_wrong_answer_that_is_too_many():
    # 19 questions, 10 %: (k + 1) / 20 ≤ .1 allows k = 1 wrong answer
    threshold = least_confidence([0.9, 0.7, 0.4], 19, most_wrong=0.1)
    assert threshold > 0.7
    assert math.isclose(threshold, 0.7)


@pytest.mark.parametrize(("n", "expected"), [(18, math.inf), (19, 0.0)], ids=["too few questions", "just enough"])
def test_a_promise_needs_enough_questions_even_without_a_wrong_answer(n, expected):
    assert least_confidence([], n, most_wrong=0.05) == expected


def test_answers_as_sure_as_one_too_many_are_withheld_with_it():
    assert least_confidence([0.8, 0.8, 0.8], 39, most_wrong=0.05) > 0.8


def test_a_promise_of_nothing_wrong_gives_no_answer():
    assert least_confidence([], 1000, most_wrong=0) == math.inf


def test_the_share_of_wrong_answers_stays_below_the_promise_on_average():
    draw = random.Random(3)

    def question() -> tuple[float, bool]:
        confidence = draw.random()
        return confidence, draw.random() > confidence

    observed = []
    for _ in range(300):
        calibration = [question() for _ in range(100)]
        least = least_confidence([c for c, wrong in calibration if wrong], 100, most_wrong=0.1)
        confidence, wrong = question()
        observed.append(wrong and confidence >= least)
    assert sum(observed) / len(observed) <= 0.1 + 2 * math.sqrt(0.1 * 0.9 / 300)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (1, 20, 0.0013, 0.2487)],
    ids=["none", "all", "one in twenty"],
)
def test_exact_intervals_are_those_of_tables(k, n, low, high):
    interval = clopper_pearson(k, n)
    assert interval.low == pytest.approx(low, abs=1e-4)
    assert interval.high == pytest.approx(high, abs=1e-4)
