"""Slow falls of a figure that is measured again and again: a CUSUM that needs no figures from before the first one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SLACK = 0.5
"""Shift that the sum lets pass, in standard deviations of the figure."""
LIMIT = 5.5
"""Sum at which a fall is told: with this slack less than once in a year of nights where nothing falls."""
FIRST = 3
"""Number of figures before the sum begins: fewer tell nothing of their spread."""
FARTHEST = 8.0
"""Standard scores are cut here, where their tails are beyond the precision of a float."""


def fell_since(values: Sequence[float], *, resolution: float, higher_is_better: bool = True) -> int | None:
    """Index of the last figure before a slow fall that the last figure confirms; None where there is none.

    values: oldest first. resolution: smallest change that the figure can show, 1/n of a share of n items: the spread
    is not taken for less, so that after weeks of equal figures one item makes no alarm.

    Each figure is compared with the mean and the spread of all before it, by Student's t, which gives independent
    standard normal scores where nothing changes; their falls beyond the slack are summed and never below zero.
    Source: Hawkins 1987, Self-starting CUSUM charts for location and scale, The Statistician 36; Page 1954.
    """
    scores = standard_scores(values, resolution=resolution)
    total, start = 0.0, 0
    for at, score in enumerate(scores, start=FIRST):
        total = max(0.0, total + (-score if higher_is_better else score) - SLACK)
        if not total:
            start = at
    return start if total > LIMIT else None


def standard_scores(values: Sequence[float], *, resolution: float) -> list[float]:
    """Each figure from the fourth on against all before it, by Student's t, as a standard normal score."""
    from scipy.special import ndtri, stdtr  # scipy.stats takes a second to import

    figures = np.asarray(values, np.float64)
    if len(figures) <= FIRST:
        return []
    counts = np.arange(FIRST, len(figures))
    means = figures.cumsum()[FIRST - 1 : -1] / counts
    squares = ((figures - figures[0]) ** 2).cumsum()[FIRST - 1 : -1] - counts * (means - figures[0]) ** 2
    spreads = np.maximum(np.sqrt(np.maximum(squares, 0) / (counts - 1)), resolution)
    t = (figures[FIRST:] - means) / (spreads * np.sqrt(1 + 1 / counts))
    lower_tails = ndtri(stdtr(counts - 1, -np.abs(t)))  # which keep their precision
    return (np.copysign(np.minimum(-lower_tails, FARTHEST), t)).tolist()
