"""Compares two runs on the same items: how far apart they are, and how likely chance alone sets them that far apart.

Where every value is right or wrong, p is McNemar's and the interval is Bonett and Price's, which stays sane without a
flip; else p is that of a sign-flip permutation test and the interval is a bootstrap over items.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, exp, fsum, lgamma, log, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from tasks.measure.estimates import Estimate, Interval, Z, bootstrap

SIGNIFICANT = 0.05
EXACT_UP_TO = 20
"""Number of differing items up to which all of their 2ⁿ sign flips are enumerated."""
PERMUTATIONS = 20_000
"""Sign flips that are drawn for more items than that."""
WHOLE_UP_TO = 1_000
"""Number of flips up to which the tail of McNemar's test is summed in whole numbers."""

SIGNS = 1.0 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
"""All choices of eight signs, (256, 8)."""

Method = Literal["McNemar, exact", "sign flips, exact", "sign flips, drawn"]


class PairedTest(NamedTuple):
    """The test of a mean paired difference against zero."""

    interval: Interval | None
    """95 % interval of the mean difference; None for a single item that is neither right nor wrong."""
    p: float
    """The two-sided p of the difference."""
    method: Method


def paired_test(differences: Sequence[float], *, binary: bool, seed: int) -> PairedTest:
    """Return the interval and p of the mean difference. binary: whether both values of every pair are 0 or 1."""
    if binary:
        gains = sum(difference > 0 for difference in differences)
        losses = sum(difference < 0 for difference in differences)
        interval = adjusted_wald(gains, losses, len(differences))
        return PairedTest(interval, mcnemar(gains, losses), "McNemar, exact")
    p, method = sign_flips(differences, seed=seed)
    # sorted, so that the interval does not depend on the order of the items
    return PairedTest(bootstrap(sorted(differences), seed=seed) if len(differences) > 1 else None, p, method)


def mcnemar(gains: int, losses: int) -> float:
    """Return the exact two-sided p of `gains` and `losses`, when each flip is as likely either way."""
    flips, fewer = gains + losses, min(gains, losses)
    if flips <= WHOLE_UP_TO:
        tail = sum(comb(flips, count) for count in range(fewer + 1))
        return min(1.0, 2 * tail / 2**flips)
    # whole numbers of as many digits take minutes: the largest term by logarithms, the others by their ratios
    term = exp(lgamma(flips + 1) - lgamma(fewer + 1) - lgamma(flips - fewer + 1) - flips * log(2))
    terms = [term]
    for count in range(fewer, 0, -1):
        term *= count / (flips - count + 1)
        if term <= terms[0] * 1e-17:  # below the last bit of the sum
            break
        terms.append(term)
    return min(1.0, 2 * fsum(terms))


def adjusted_wald(gains: int, losses: int, n: int) -> Interval:
    """Return the 95 % interval of the difference of two paired shares.

    Source: Bonett and Price 2012, Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on
    Paired Data, Journal of Educational and Behavioral Statistics 37(4): a flip either way is added before the sum.
    """
    up, down = (gains + 1) / (n + 2), (losses + 1) / (n + 2)
    half = Z * sqrt((up + down - (up - down) ** 2) / (n + 2))
    return Interval(max(-1.0, up - down - half), min(1.0, up - down + half))


def sign_flips(differences: Sequence[float], *, seed: int) -> tuple[float, Method]:
    """Return the two-sided p of a sum of differences under random signs, and how it was found.

    All sign flips are enumerated for few items, else PERMUTATIONS are drawn. Drawn flips count the observed one as one
    more draw, so that p is never 0. Source: Phipson and Smyth 2010, Permutation P-values Should Never Be Zero.
    """
    sizes = np.sort([abs(size) for size in differences if size])  # their signs are drawn: p is the same turned round
    observed = abs(fsum(differences)) - 1e-9 * sizes.sum()  # sums of the same terms may differ in the last bits
    if len(sizes) <= EXACT_UP_TO:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate([sums + size, sums - size])
        return float((np.abs(sums) >= observed).mean()), "sign flips, exact"
    # eight values have 256 sums, which are worked out once: a byte draws one of them, not eight numbers
    rng, sums = np.random.default_rng(seed), np.zeros(PERMUTATIONS)
    for eight in np.pad(sizes, (0, -len(sizes) % 8)).reshape(-1, 8):
        sums += (SIGNS @ eight)[rng.integers(0, 256, PERMUTATIONS, np.uint8)]
    extreme = int((np.abs(sums) >= observed).sum())
    return (extreme + 1) / (PERMUTATIONS + 1), "sign flips, drawn"


def find_discoveries(ps: Sequence[float]) -> list[bool]:
    """Return which of several tests to believe, so that on average at most 5 % of the believed ones are chance.

    Source: Benjamini and Hochberg 1995, Controlling the False Discovery Rate; it holds for independent and for
    positively dependent tests, as of benchmarks of one model.
    """
    ranked = sorted(ps)
    believed = (p for rank, p in enumerate(ranked, start=1) if p <= SIGNIFICANT * rank / len(ranked))
    limit = max(believed, default=-1.0)
    return [p <= limit for p in ps]


def newcombe(worse: Estimate, better: Estimate) -> float | None:
    """Return the two-sided p of two unpaired estimates, in any order, by facing interval ends; None if one is missing.

    Source: Newcombe 1998, Interval estimation for the difference between independent proportions, method 10.
    """
    if worse.value > better.value:
        worse, better = better, worse
    if worse.high is None or better.low is None:
        return None
    reach = sqrt((worse.high - worse.value) ** 2 + (better.value - better.low) ** 2)
    difference = better.value - worse.value
    if not reach:
        return 0.0 if difference else 1.0
    return 2 * NormalDist().cdf(-Z * difference / reach)
