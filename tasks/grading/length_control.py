"""AlpacaEval's length-controlled win rate: what the judge would prefer if both outputs had the same length.

A logistic regression of preferences on tanh of the difference in length, the instruction's difficulty and the model;
the rate is its mean prediction where the difference is zero. Outputs of a baseline that was told to be short or long
(`gamed`) keep the first two coefficients sensible. Source: Dubois et al. 2024, arXiv:2404.04475, and
metrics/glm_winrate.py of tatsu-lab/alpaca_eval (length_controlled_v1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GAMED_WEIGHT = 0.1
"""Of an annotation of one of the two gamed baselines, beside 1 of the model's: a regularisation of .2 in all."""
FOLDS = 5
STRENGTHS = np.logspace(-4, 4, 10)  # the ten of scikit-learn's LogisticRegressionCV
"""Inverse strengths of the L1 penalty among which cross-validation chooses."""

Floats = NDArray[np.float64]


class GamedBaseline(NamedTuple):
    """The result of a gamed baseline on an instruction."""

    length_difference: float  # in standard deviations
    preference: float  # 0 to 1


class OutputComparison(NamedTuple):
    """The output of a model compared with that of the reference."""

    preference: float | None
    """Probability that the judge prefers the model's; None: it gave no verdict."""
    longer_by: float
    """Characters of the reference less those of the model's output."""
    difficulty: float
    gamed: tuple[GamedBaseline, ...] = ()


def length_controlled_win_rate(compared: Sequence[OutputComparison]) -> float | None:
    """Return the length-controlled win rate, 0 to 1; None with fewer than five verdicts or where no lengths differ."""
    spread = float(np.std([pair.longer_by for pair in compared], ddof=1)) if len(compared) > 1 else 0.0
    if not spread or sum(pair.preference is not None for pair in compared) < FOLDS:
        return None
    # tanh of the length difference, difficulty, 1 for the model and 0 for a gamed baseline; preference; weight
    rows = [
        (np.tanh(baseline.length_difference), item.difficulty, 0.0, baseline.preference, GAMED_WEIGHT)
        for item in compared
        for baseline in item.gamed
    ]
    rows += [
        (np.tanh(item.longer_by / spread), item.difficulty, 1.0, item.preference, 1.0)
        for item in compared
        if item.preference is not None
    ]
    table = np.array(rows)  # (N, 5)
    at_same_length = np.array([[0.0, pair.difficulty, 1.0] for pair in compared])
    return float(np.mean(1 / (1 + np.exp(-at_same_length @ _fit_coefficients(table)))))


def _fit_coefficients(table: Floats) -> Floats:
    """Return (3,) coefficients, with the penalty that predicts left-out folds best."""
    fold = np.arange(len(table))[::-1] % FOLDS
    mean_losses: list[float] = []
    for strength in STRENGTHS:
        losses: list[float] = []
        for number in range(FOLDS):
            left_out = table[fold == number]
            margins = left_out[:, :3] @ _coefficients(table[fold != number], strength)
            preferences, weights = left_out[:, 3], left_out[:, 4]
            cross_entropy = preferences * np.logaddexp(0, -margins) + (1 - preferences) * np.logaddexp(0, margins)
            losses.append(float(np.mean(weights * cross_entropy)))
        mean_losses.append(float(np.mean(losses)))
    return _coefficients(table, float(STRENGTHS[int(np.argmin(mean_losses))]))


def _coefficients(table: Floats, strength: float) -> Floats:
    """Return (3,) coefficients that minimise `strength` × weighted cross-entropy + the sum of their absolute values."""
    from sklearn.linear_model import LogisticRegression  # it takes half a second

    features, preferences, weights = table[:, :3], table[:, 3], table[:, 4]
    # a preference of .7 is .7 of a win and .3 of a loss
    wins = np.repeat([1, 0], len(table))
    shares = np.concatenate([preferences, 1 - preferences]) * np.tile(weights, 2)
    model = LogisticRegression(
        C=strength, l1_ratio=1, solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=10_000, random_state=0
    )
    return model.fit(np.tile(features, (2, 1)), wins, shares).coef_[0]
