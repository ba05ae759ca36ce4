"""The reward of a judged pointer, from the hard score h (`vqa_correct`) and the soft score s (`vqa_acc_score`).

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
from typing import get_args

from tasks.lever.lever_errors import RewardUnusable
from tasks.lever.lever_options import OF_LIKELIHOODS, RewardMode
from tasks.lever.lever_records import PointerRecord

CLIP = (-5.0, 5.0)
"""Bounds that every reward is clipped to."""
BONUS = {"hard_plus_soft": 1, "soft_only": 0, "separated": 2, "hard_plus_gtprob": 1}
"""Weight of the hard score beside a soft one."""


def reward_of(record: PointerRecord, mode: RewardMode) -> float:
    """Return the reward of a judged pointer.

    Raises RewardUnusable if the record lacks what its mode needs, ValueError for a mode that there is not.
    """
    modes = get_args(RewardMode)
    if mode not in modes:  # ValueError, as in Lever-Plus
        raise ValueError(f"Unknown reward_mode: {mode}; choose {', '.join(modes)}")
    if record.status != "judged":
        raise RewardUnusable(f"the judge failed ({record.reason}): such a pointer has no reward, leave it out")
    hard = needed_score(record.vqa_correct, "vqa_correct", mode)
    if mode == "legacy":
        return clip_reward((2 * hard - 1) + 0.2 * (record.beam_score or 0.0), CLIP)
    if mode == "hard_only":
        return clip_reward(hard, CLIP)
    if mode in OF_LIKELIHOODS:
        probability = needed_score(record.vqa_gt_prob, "vqa_gt_prob", mode)
        if mode == "gt_logprob":
            return clip_reward(math.log(probability) if probability else -math.inf, CLIP)
        return clip_reward(BONUS[mode] * hard + probability, CLIP)
    return clip_reward(BONUS[mode] * hard + needed_score(record.vqa_acc_score, "vqa_acc_score", mode), CLIP)


def needed_score(value: float | None, field: str, by: str) -> float:
    """Return the value. Raises RewardUnusable where there is none."""
    if value is None:
        raise RewardUnusable(f"a pointer without `{field}`, which {by} needs: judge it again, or choose another reward")
    return float(value)


def clip_reward(reward: float, bounds: tuple[float, float]) -> float:
    if math.isnan(reward):
        raise RewardUnusable("a reward is NaN: one of the scores that it is made of is no number, judge it again")
    return max(bounds[0], min(bounds[1], reward))
