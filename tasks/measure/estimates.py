"""Means with error bars, clustered by item: the repeats of an item are one cluster.

Every mean is over items of the mean over an item's repeats, so that no item weighs more for being asked more often: ten
answers to thirty problems are thirty independent facts, not three hundred. Source: Miller 2024, Adding Error Bars to
Evals, arXiv:2411.00640.

Bootstrap intervals resample items, or items crossed with seeds: equal values in equal order and an equal seed give
equal intervals to the last bit. Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13: the
percentile interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.evaluated import Result

Values = NDArray[np.float64]
Statistic = Callable[[Values], Values]
"""A function from drawn values (B, n, …) to one statistic for each resample, (B,)."""

RESAMPLES = 2_000
"""Resamples of an interval unless another number is given."""
DRAWN_AT_ONCE = 1_000_000
"""Drawn values in a block of resamples, which bounds memory for any number of items."""
WEIGHTS_AT_ONCE = 2 * DRAWN_AT_ONCE
"""Weights in a block of `resample_crossed`, which bounds its memory; another block size draws other weights."""

Z = NormalDist().inv_cdf(0.975)
"""The 97.5 % quantile of the normal distribution, about 1.96."""
SEED = 0
"""Seed of the bootstrap over items."""

ByItem = Mapping[str, Sequence[float]]
"""The values of each item, one for each scored repeat."""

Estimate = Result
"""The value of a metric with its error bars, in the form that the evaluation tables and results files keep."""


class Interval(NamedTuple):
    """The lower and upper end of a 95 % interval."""

    low: float
    high: float


class Share(NamedTuple):
    """The contribution of an item to a weighted mean."""

    total: float
    """Sum of the item's values, each times its weight."""
    weight: float
    """Sum of the item's weights; above 0."""

    def plus(self, value: float, weight: float = 1) -> Share:
        """Return the share with one value more."""
        return Share(self.total + value * weight, self.weight + weight)


def estimate_groups(
    metric: str, by_item: ByItem, *, groups: Mapping[str, ByItem] | None = None, headline: bool = False
) -> tuple[Estimate, ...]:
    """Return the estimate over all items, then one over each group, by name; empty where nothing was scored."""
    if not any(by_item.values()):
        return ()
    parts = sorted((groups or {}).items())
    of_groups = (estimate(metric, part, part=f"group={name}") for name, part in parts if part)
    return (estimate(metric, by_item, headline=headline), *of_groups)


def estimate(
    metric: str, by_item: ByItem, *, part: str = "", headline: bool = False, higher_is_better: bool = True
) -> Estimate:
    """Return the mean over items of the mean over repeats, with standard error (clustered by item) and 95 % interval.

    The interval is Wilson's where every item is always right or always wrong, else a bootstrap over items; a single
    item that is neither has no interval. Raises ValueError without a value, where `estimate_groups` returns nothing.
    """
    means = sorted(mean(values) for values in by_item.values() if values)  # equal to the last bit in any order
    if not means:
        raise ValueError(f"{metric}: no item was scored, so there is nothing to estimate")
    if is_binary(means):
        interval = wilson(fsum(means), len(means))
    else:
        interval = bootstrap(means, seed=SEED) if len(means) > 1 else None
    return Estimate(
        metric=metric,
        part=part,
        value=mean(means),
        std_err=standard_error(means),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        n=len(means),
        headline=headline,
        higher_is_better=higher_is_better,
    )


def weighted_estimate(
    metric: str, by_item: Mapping[str, Share], *, part: str = "", headline: bool = False
) -> Estimate | None:
    """Return Σ totals / Σ weights, with standard error (clustered by item) and bootstrap interval; None without items.

    With equal weights this is the mean over items; a single item has neither error nor interval. Source: the linearised
    variance of a ratio estimator, Cochran 1977, Sampling Techniques, 6.4, without finite population correction.
    """
    shares = sorted(by_item.values())  # equal to the last bit in any order
    if not shares:
        return None
    n, weights = len(shares), fsum(share.weight for share in shares)
    value = fsum(share.total for share in shares) / weights
    std_err, interval = None, None
    if n > 1:
        squares = fsum((share.total - value * share.weight) ** 2 for share in shares)
        std_err = sqrt(n / (n - 1) * squares) / weights
        interval = bootstrap(np.array(shares), seed=SEED, statistic=_ratio_of_sums)
    return Estimate(
        metric=metric,
        part=part,
        value=value,
        std_err=std_err,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        n=n,
        headline=headline,
    )


def scale_estimate(estimate: Estimate, factor: float) -> Estimate:
    """Return the estimate in another unit: a factor of 100 gives per cent."""
    numbers = estimate.model_dump(include={"value", "std_err", "low", "high"}, exclude_none=True)
    return estimate.model_copy(update={name: value * factor for name, value in numbers.items()})


def wilson(solved: float, n: int) -> Interval:
    """Return Wilson's 95 % score interval of `solved` in `n`.

    Unlike ±1.96 standard errors it stays sane at 0 and 1. Source: Wilson 1927, Probable inference, the law of
    succession, and statistical inference.
    """
    share, spread = solved / n, Z * Z / n
    middle = (share + spread / 2) / (1 + spread)
    half = Z * sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    # at the ends the formula gives 0 and 1 but for the last bit
    return Interval(0.0 if solved <= 0 else middle - half, 1.0 if solved >= n else middle + half)


def mean(values: Sequence[float]) -> float:
    """Return the mean, equal to the last bit in any order of the values."""
    return fsum(values) / len(values)


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean, with n - 1 in its variance; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / sqrt(len(values)))


def is_binary(values: Iterable[float]) -> bool:
    """Return whether every value is 0 or 1."""
    return all(value in (0, 1) for value in values)


def _ratio_of_sums(drawn: Values) -> Values:
    sums = drawn.sum(axis=1)  # (B, 2): totals and weights
    return sums[:, 0] / sums[:, 1]


def least_confidence(wrong: Sequence[float], n: int, *, most_wrong: float) -> float:
    """Return the lowest threshold at which answers of at least that confidence keep the promise; inf where none does.

    wrong: confidences of the wrong answers among n calibration questions, all of them answered. most_wrong: the
    promised share of wrong answers, 0 … 1, of all questions, those that are not answered included.
    """
    # conformal risk control, (wrong + 1) / (n + 1) <= most_wrong (arXiv:2208.02814); 1e-9 for the float product
    allowed = math.floor(most_wrong * (n + 1) - 1 + 1e-9)
    if allowed < 0:
        return math.inf  # too few questions for so small a share
    ranked = sorted(wrong, reverse=True)
    return math.nextafter(ranked[allowed], math.inf) if allowed < len(ranked) else 0.0


def clopper_pearson(k: int, n: int) -> Interval:
    """Return the exact 95 % interval of a share of k in n."""
    from scipy.special import betaincinv  # scipy.stats takes a second to import

    low = float(betaincinv(k, n - k + 1, 0.025)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return Interval(low, high)


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
