"""Conformal risk control: a threshold of confidence that keeps the share of wrong answers below a promise.

Source: Angelopoulos et al. 2022, Conformal Risk Control, arXiv:2208.02814. The promise holds on average over draws of
calibration and future questions that are exchangeable; it is none for questions of another kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tasks.measure.bootstrap import Interval


def least_confidence(wrong: Sequence[float], n: int, *, most_wrong: float) -> float:
    """The lowest threshold at which answers of at least that confidence keep the promise; inf if none does.

    wrong: confidences of the wrong answers among n calibration questions, all of them answered. most_wrong: 0 … 1, of
    all questions, those that are not answered among them.
    """
    allowed = math.floor(most_wrong * (n + 1) - 1 + 1e-9)
    if allowed < 0:
        return math.inf
    ranked = sorted(wrong, reverse=True)
    if allowed >= len(ranked):
        return 0.0
    return math.nextafter(ranked[allowed], math.inf)


def clopper_pearson(k: int, n: int, *, level: float = 0.95) -> Interval:
    """The exact interval of a share of k in n."""
    from scipy.special import betaincinv  # scipy.stats takes a second to import

    tail = (1 - level) / 2
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return Interval(low, high)
