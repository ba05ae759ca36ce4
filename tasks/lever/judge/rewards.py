"""What a judged pointer is worth: from the hard score h (`vqa_correct`) and the soft score s (`vqa_acc_score`).

    hard_plus_soft    h + s, the default      hard_only    h      soft_only    s
    separated         2 + s if right, else s: the worst right answer stands above the best wrong one
    hard_plus_soft_v2                       2 h + s, which is the same as `separated`
    hard_plus_gtprob, hard01_plus_gtprob    h + p, p how likely the judge finds the right answers
    hard01_plus_gtprob_separated            2 h + p
    gt_logprob        log p, at least -5
    legacy            .2 · quality + 1 · correctness, as Lever-Plus had it before: `compute_reward_for_candidate`
                      with use_hard = use_soft = False, alpha .2, beta 1, correctness_mode `pm1`

Beam scores and log-probabilities of the selector enter `legacy` only; InfoScore enters none. Of Lever-Plus's modes a
training has no `hybrid`, which mixes in InfoScore, and no `hard_plus_gtprob_plus_rel`, whose relevance no judge here
gives; `compute_reward_for_candidate` has the latter, for records that hold it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from tasks.lever.lever_errors import RewardUnusable
from tasks.lever.lever_options import OF_LIKELIHOODS, RewardMode
from tasks.lever.lever_records import PointerRecord

CLIP = (-5.0, 5.0)
"""No reward is outside."""
BONUS = {
    "hard_plus_soft": 1,
    "soft_only": 0,
    "separated": 2,
    "hard_plus_soft_v2": 2,
    "hard_plus_gtprob": 1,
    "hard01_plus_gtprob": 1,
    "hard01_plus_gtprob_separated": 2,
}
"""Weight of the hard score beside a soft one."""
OF_GTPROB = ("hard_plus_gtprob", "hard01_plus_gtprob", "hard01_plus_gtprob_separated", "hard_plus_gtprob_plus_rel")
SEED_MODES = ("hard_only", *BONUS, "hard_plus_gtprob_plus_rel", "legacy")
"""What Lever-Plus calls its formulas."""


def reward_of(record: PointerRecord, mode: RewardMode) -> float:
    """The reward of a judged pointer.

    Raises RewardUnusable if the record lacks what its mode needs, ValueError for a mode that there is not.
    """
    refuse_unknown(mode, get_args(RewardMode))
    if record.status != "judged":
        raise RewardUnusable(f"the judge failed ({record.reason}): such a pointer has no reward, leave it out")
    hard = _needed(record.vqa_correct, "vqa_correct", mode)
    if mode == "legacy":
        return _clipped((2 * hard - 1) + 0.2 * (record.beam_score or 0.0), CLIP)
    if mode == "hard_only":
        return _clipped(hard, CLIP)
    if mode in OF_LIKELIHOODS:
        likely = _needed(record.vqa_gt_prob, "vqa_gt_prob", mode)
        return _clipped(_log(likely) if mode == "gt_logprob" else BONUS[mode] * hard + likely, CLIP)
    return _clipped(BONUS[mode] * hard + _needed(record.vqa_acc_score, "vqa_acc_score", mode), CLIP)


def refuse_unknown(mode: str, known: Sequence[str]) -> None:
    """Raises ValueError, as Lever-Plus does, for a mode that is none of these."""
    if mode not in known:
        raise ValueError(f"Unknown reward_mode: {mode}; choose {', '.join(known)}")


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
    reward_mode: str | None = None,
    vqa_gt_prob: float | None = None,
    vqa_rel_score: float | None = None,
    rel_weight: float = 0.1,
) -> float:
    """hard_weight · h + soft_weight · s, and alpha · quality + beta · correctness, clipped; as Lever-Plus names it.

    correctness: h, or s where h is unknown; `pm1` maps 0 … 1 to −1 … 1. quality: the beam score, 0 where there is
    none; with `use_logprob` the *negative* log-probability, so that a positive alpha rewards what the policy finds
    unlikely: kept, for rewards that compare with Lever-Plus's. A missing soft score adds nothing.
    reward_mode: a formula of Lever-Plus's code, with the two weights, in place of `use_hard` and `use_soft`; its
    `…_plus_rel` adds rel_weight · (1 − h) · relevance. `hybrid` and `gt_logprob` are none of them.
    Raises RewardUnusable for a missing `vqa_correct`, which Lever-Plus takes for a wrong answer, and for NaN, and
    ValueError for a mode that there is not.
    """
    if reward_mode not in (None, "legacy"):
        refuse_unknown(reward_mode, SEED_MODES)
        hard = _needed(vqa_correct, "vqa_correct", reward_mode)
        found = hard_weight * hard * (1 if reward_mode in ("hard_only", OF_GTPROB[-1]) else BONUS[reward_mode])
        if reward_mode in OF_GTPROB:
            found += soft_weight * _needed(vqa_gt_prob, "vqa_gt_prob", reward_mode)
        elif reward_mode != "hard_only":
            found += soft_weight * _needed(vqa_acc_score, "vqa_acc_score", reward_mode)
        if reward_mode == "hard_plus_gtprob_plus_rel":
            found += rel_weight * (1 - hard) * _needed(vqa_rel_score, "vqa_rel_score", reward_mode)
        return _clipped(found, reward_clip)
    if reward_mode == "legacy":
        use_hard = use_soft = False
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
