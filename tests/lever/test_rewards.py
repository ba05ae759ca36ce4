"""Rewards from hard and soft scores."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest

from tasks.lever import compute_reward_for_candidate
from tasks.lever.learning.training_inputs import reward_of
from tasks.lever.lever_errors import RewardUnusable
from tasks.lever.lever_options import RewardMode
from tasks.lever.lever_records import PointerRecord


def _judged(**scores: Any) -> PointerRecord:
    return PointerRecord.model_validate({"pointer": (3, 1), "gen_method": "beam", **scores})


RIGHT = _judged(vqa_correct=1, vqa_acc_score=0.6, vqa_gt_prob=0.5, beam_score=1.5, logprob_score=-2.0)
WRONG = _judged(vqa_correct=0, vqa_acc_score=0.3, vqa_gt_prob=0.25, beam_score=0.5, logprob_score=-3.0)
FAILED = _judged(status="eval_failed", reason="no answer in 60 s")


@pytest.mark.parametrize(
    ("mode", "right", "wrong"),
    [
        ("hard_plus_soft", 1.6, 0.3),
        ("hard_only", 1.0, 0.0),
        ("soft_only", 0.6, 0.3),
        ("separated", 2.6, 0.3),
        ("hard_plus_gtprob", 1.5, 0.25),
        ("gt_logprob", math.log(0.5), math.log(0.25)),
        ("legacy", 0.2 * 1.5 + 1, 0.2 * 0.5 - 1),
    ],
)
def test_each_mode_is_its_formula(mode: RewardMode, right: float, wrong: float):
    assert (reward_of(RIGHT, mode), reward_of(WRONG, mode)) == pytest.approx((right, wrong))


@pytest.mark.parametrize("mode", get_args(RewardMode))
def test_a_record_without_a_hard_score_is_an_error(mode: RewardMode):
    record = _judged(vqa_acc_score=0.9, vqa_gt_prob=0.9, beam_score=1.0)
    with pytest.raises(RewardUnusable, match="without `vqa_correct`"):
        reward_of(record, mode)


@pytest.mark.parametrize(
    ("mode", "field"),
    [
        ("hard_plus_soft", "vqa_acc_score"),
        ("separated", "vqa_acc_score"),
        ("gt_logprob", "vqa_gt_prob"),
    ],
)
def test_what_a_mode_needs_and_a_record_lacks_is_named(mode: RewardMode, field: str):
    with pytest.raises(RewardUnusable, match=f"without `{field}`, which {mode} needs"):
        reward_of(_judged(vqa_correct=1), mode)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"vqa_correct": 1, "vqa_acc_score": 0.9}, 1.9, id="hard and soft by default"),
        pytest.param({"vqa_correct": 1}, 1.0, id="a missing soft score adds nothing"),
        pytest.param({"beam_score": 3.0, "logprob_score": -1.0, "vqa_correct": 0}, 0.0, id="no quality by default"),
        pytest.param({"vqa_correct": 0, "beta": 1.0, "correctness_mode": "pm1"}, -1.0, id="correctness −1 or 1"),
        pytest.param(
            {"vqa_acc_score": 0.75, "beta": 1.0, "correctness_mode": "pm1", "use_hard": False, "use_soft": False},
            0.5,
            id="correctness of the soft score where the hard one is unknown",
        ),
        pytest.param({"vqa_correct": 0, "beam_score": 2.0, "alpha": 0.2}, 0.4, id="quality is the beam score"),
        pytest.param(
            {"vqa_correct": 0, "beam_score": 2.0, "logprob_score": -3.0, "alpha": 0.2, "use_logprob": True},
            0.6,
            id="quality is minus the log-probability",
        ),
        pytest.param({"vqa_correct": 1, "hard_weight": 99}, 5.0, id="clipped above"),
    ],
)
def test_the_function_of_lever_plus_keeps_its_meaning(arguments: dict[str, Any], expected: float):
    assert compute_reward_for_candidate(**arguments) == pytest.approx(expected)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"vqa_acc_score": 0.9}, id="hard score used"),
        pytest.param({"use_hard": False, "beta": 1.0}, id="correctness used"),
    ],
)
def test_the_function_of_lever_plus_takes_no_missing_score_for_a_wrong_answer(arguments: dict[str, Any]):
    with pytest.raises(RewardUnusable, match="vqa_correct"):
        compute_reward_for_candidate(**arguments)


def test_an_unknown_mode_is_the_value_error_of_lever_plus():
    with pytest.raises(ValueError, match="Unknown reward_mode: hybrid"):
        reward_of(RIGHT, "hybrid")  # pyright: ignore[reportArgumentType]
