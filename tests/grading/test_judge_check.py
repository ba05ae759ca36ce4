"""A judge beside people: figures worked by hand, and an interval that covers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.grading.judge_check import Counted, JudgeCheck, Label, LabelsUnusable, check_judge, kappa, rogan_gladen


def check(*lines: dict[str, Any]) -> JudgeCheck:
    return check_judge([Label.model_validate(line) for line in lines])


def values(found: JudgeCheck) -> dict[str, float]:
    return {one.metric: one.value for one in found.figures}


def test_verdicts_beside_those_of_people() -> None:
    told = [(True, True)] * 8 + [(True, False)] * 2 + [(False, False)] * 9 + [(False, True)]
    found = check(
        *({"human": human, "judge": judge} for human, judge in told), *[{"judge": True}] * 3, {"judge": False}
    )
    assert values(found) == pytest.approx({"agreement": 17 / 20, "sensitivity": 0.8, "specificity": 0.9})
    assert found.kappa == pytest.approx((0.85 - 0.5) / 0.5)  # 10 of 20 right by people, 9 by the judge
    assert (found.labelled, found.judged, found.judge_score) == (20, 4, 0.75)
    assert found.corrected is not None
    assert found.corrected.value == pytest.approx((0.75 + 0.9 - 1) / (0.9 + 0.8 - 1))


def test_preferences_with_swapped_orders_and_lengths() -> None:
    found = check(
        {"human": "A", "judge": "A", "swapped": "B", "length_a": 9, "length_b": 5},  # the same answer both times
        {"human": "B", "judge": "A", "swapped": "A", "length_a": 9, "length_b": 5},  # the first both times; the longer
        {"human": "B", "judge": "B", "swapped": "A", "length_a": 5, "length_b": 5},
        {"human": "C", "judge": "A", "swapped": "A"},
    )
    assert values(found) == pytest.approx({"agreement": 2 / 4, "consistent": 2 / 4, "first": 3 / 4, "longer": 1 / 2})


@pytest.mark.parametrize("pairs", [[(1, 1)], [("A", "A")] * 3])
def test_kappa_of_one_thing_only_is_none(pairs: list[tuple[object, object]]) -> None:
    assert kappa(pairs) is None


def test_a_judge_that_says_nothing_corrects_nothing() -> None:
    assert rogan_gladen(Counted(5, 10), Counted(5, 10), Counted(5, 10)) is None


def test_a_judge_without_errors_leaves_the_score() -> None:
    found = rogan_gladen(Counted(30, 100), Counted(50, 50), Counted(50, 50))
    assert found is not None
    assert found.value == pytest.approx(0.3)


@pytest.mark.parametrize(("theta", "q1", "q0"), [(0.5, 0.9, 0.8), (0.85, 0.95, 0.7), (0.2, 0.75, 0.9)])
def test_the_interval_of_the_corrected_score_covers_the_truth(theta: float, q1: float, q0: float) -> None:
    rng = np.random.default_rng(7)
    covered, draws = 0, 2_000
    for _ in range(draws):
        judged = Counted(int(rng.binomial(400, theta * q1 + (1 - theta) * (1 - q0))), 400)
        found = rogan_gladen(judged, Counted(int(rng.binomial(60, q1)), 60), Counted(int(rng.binomial(60, q0)), 60))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= theta <= found.high
    assert covered / draws >= 0.935


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"judge": True}], "no line has a `human` label"),
        ([{"human": "A", "judge": "A"}, {"judge": True}], "check them in two files"),
    ],
)
def test_labels_without_a_basis_are_refused(lines: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(LabelsUnusable, match=said):
        check(*lines)
