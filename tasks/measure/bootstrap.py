"""Bootstrap intervals: resampled means of items, and of items crossed with seeds.

Equal values in equal order and an equal seed give equal intervals to the last bit. Source: Efron and Tibshirani 1993,
An Introduction to the Bootstrap, chapter 13: the percentile interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Statistic = Callable[[Values], Values]
"""A function from drawn values (B, n, …) to one statistic for each resample, (B,)."""

RESAMPLES = 2_000
"""Resamples of an interval unless another number is given."""
DRAWN_AT_ONCE = 1_000_000
"""Drawn values in a block of resamples, which bounds memory for any number of items."""
WEIGHTS_AT_ONCE = 2 * DRAWN_AT_ONCE
"""Weights in a block of `resample_crossed`, which bounds its memory; another block size draws other weights."""


class Interval(NamedTuple):
    """The lower and upper end of a 95 % interval."""

    low: float
    high: float


def mean_of_draws(drawn: Values) -> Values:
    """Return the mean of each resample: (B, n) → (B,)."""
    return drawn.mean(axis=1)


def bootstrap(values: Sequence[float] | Values, *, seed: int, statistic: Statistic = mean_of_draws) -> Interval:
    """Return the percentile interval of a statistic over resamples of `values`, (n,) or (n, columns).

    The draws depend on the order of `values`: sort them where the interval must not.
    """
    pool, rng = np.asarray(values, np.float64), np.random.default_rng(seed)
    block = max(1, DRAWN_AT_ONCE // len(pool))
    statistics = [
        statistic(pool[rng.integers(0, len(pool), (min(block, RESAMPLES - start), len(pool)))])
        for start in range(0, RESAMPLES, block)
    ]
    return percentiles(np.concatenate(statistics))  # (RESAMPLES,)


def percentiles(values: Values) -> Interval:
    """Return the 2.5th and the 97.5th percentile."""
    low, high = np.percentile(values, [2.5, 97.5])
    return Interval(float(low), float(high))


def resample_crossed(values: Values, *, seed: int, draws: int = RESAMPLES) -> Values:
    """Return the means of resamples, (draws, M), of values (M, R, Q): M scores of R seeds and Q queries; NaN: missing.

    Seeds and queries are drawn with replacement, each a cluster; a seed's mean is over its drawn queries, the score
    the mean of the drawn seeds. All scores share the draws, so that a difference of two of them is paired.
    Source: Owen 2007, "The pigeonhole bootstrap", arXiv:0712.1111.
    """
    scores, seeds, queries = values.shape
    flat = values.reshape(scores * seeds, queries)
    is_present, filled = ~np.isnan(flat), np.nan_to_num(flat)
    rng, blocks = np.random.default_rng(seed), list[Values]()
    step = max(1, WEIGHTS_AT_ONCE // queries)
    for start in range(0, draws, step):
        count = min(step, draws - start)
        weights = rng.multinomial(queries, np.full(queries, 1 / queries), size=count).astype(np.float64)
        counts = (weights @ is_present.T).reshape(count, scores, seeds)
        sums = (weights @ filled.T).reshape(count, scores, seeds)
        drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=count)[:, None, :] * (counts > 0)
        with np.errstate(invalid="ignore"):  # no query of a seed, or no seed, was drawn: NaN is meant
            means = np.where(counts > 0, sums / counts, 0.0)
            blocks.append((drawn * means).sum(-1) / drawn.sum(-1))
    return np.concatenate(blocks)
