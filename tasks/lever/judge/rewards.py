"""What a judged pointer is worth: from the hard score h (`vqa_correct`) and the soft score s (`vqa_acc_score`).

    hard_plus_soft    h + s, the default      hard_only    h      soft_only    s
    separated         2 + s if right, else s: the worst right answer stands above the best wrong one
    hard_plus_gtprob  h + p, p how likely the judge finds the right answers
    gt_logprob        log p, at least -5
    legacy            .2 · quality + 1 · correctness, as Lever-Plus had it before: `compute_reward_for_candidate`
                      with use_hard = use_soft = False, alpha .2, beta 1, correctness_mode `pm1`

Beam scores and log-probabilities of the selector enter `legacy` only; InfoScore enters none.
"""

from __future__ import annotations

import math
from typing import Literal

from tasks.lever.lever_errors import RewardUnusable
from tasks.lever.lever_options import OF_LIKELIHOODS, RewardMode
from tasks.lever.lever_records import PointerRecord

CLIP = (-5.0, 5.0)
"""No reward is outside."""


def reward_of(record: PointerRecord, mode: RewardMode) -> float:
    """The reward of a judged pointer. Raises RewardUnusable if the record lacks what its mode needs."""
    if record.status != "judged":
        raise RewardUnusable(f"the judge failed ({record.reason}): such a pointer has no reward, leave it out")
    hard = _needed(record.vqa_correct, "vqa_correct", mode)
    if mode == "legacy":
        return _clipped((2 * hard - 1) + 0.2 * (record.beam_score or 0.0), CLIP)
    if mode == "hard_only":
        return _clipped(hard, CLIP)
    if mode in OF_LIKELIHOODS:
        likely = _needed(record.vqa_gt_prob, "vqa_gt_prob", mode)
        return _clipped(hard + likely if mode == "hard_plus_gtprob" else _log(likely), CLIP)
    soft = _needed(record.vqa_acc_score, "vqa_acc_score", mode)
    bonus = {"hard_plus_soft": hard, "soft_only": 0.0, "separated": 2 * hard}[mode]
    return _clipped(bonus + soft, CLIP)


def compute_reward_for_candidate(
    beam_score: float | None = None,
    logprob_score: float | None = None,
    vqa_correct: int | None = None,
    vqa_acc_score: float | None = None,
    use_hard: bool = True,
    use_soft: bool = True,
    hard_weight: float = 1.0,
    soft_weight: float = 1.0,
    alpha: float = 0.0,
    beta: float = 0.0,
    correctness_mode: Literal["01", "pm1"] = "01",
    use_logprob: bool = False,
    reward_clip: tuple[float, float] = CLIP,
) -> float:
    """hard_weight · h + soft_weight · s, and alpha · quality + beta · correctness, clipped; as Lever-Plus names it.

    correctness: h, or s where h is unknown; `pm1` maps 0 … 1 to −1 … 1. quality: the beam score, 0 where there is
    none; with `use_logprob` the *negative* log-probability, so that a positive alpha rewards what the policy finds
    unlikely: kept, for rewards that compare with Lever-Plus's. A missing soft score adds nothing.
    Raises RewardUnusable for a missing `vqa_correct`, which Lever-Plus takes for a wrong answer, and for NaN.
    """
    reward = 0.0
    if use_hard and hard_weight:
        reward += hard_weight * _needed(vqa_correct, "vqa_correct", "use_hard")
    if use_soft and vqa_acc_score is not None:
        reward += soft_weight * vqa_acc_score
    if beta:
        share = _needed(vqa_acc_score if vqa_correct is None else vqa_correct, "vqa_correct", "beta")
        reward += beta * (2 * share - 1 if correctness_mode == "pm1" else share)
    if alpha:
        reward += alpha * (-logprob_score if use_logprob and logprob_score is not None else beam_score or 0.0)
    return _clipped(reward, reward_clip)


def _needed(value: float | None, field: str, by: str) -> float:
    if value is None:
        raise RewardUnusable(f"a pointer without `{field}`, which {by} needs: judge it again, or choose another reward")
    return float(value)


def _log(share: float) -> float:
    return math.log(share) if share else -math.inf


def _clipped(reward: float, bounds: tuple[float, float]) -> float:
    if math.isnan(reward):
        raise RewardUnusable("a reward is NaN: one of the scores that it is made of is no number, judge it again")
    return max(bounds[0], min(bounds[1], reward))
