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
STRENGTHS = np.logspace(-4, 4, 10)
"""Inverse strengths of the L1 penalty among which cross-validation chooses."""
CONVERGED, MOST_STEPS = 1e-9, 200

Floats = NDArray[np.float64]


class Gamed(NamedTuple):
    """How a gamed baseline fared on an instruction."""

    length_difference: float  # in standard deviations
    preference: float  # 0 to 1


class Compared(NamedTuple):
    """A model's output beside the reference's."""

    preference: float | None
    """Probability that the judge prefers the model's; None: it gave no verdict."""
    longer_by: float
    """Characters of the reference less those of the model's output."""
    difficulty: float
    gamed: tuple[Gamed, ...] = ()


class _Rows(NamedTuple):
    features: Floats  # (N, 3): tanh of the length difference, difficulty, 1 for the model and 0 for a gamed baseline
    preferences: Floats  # (N,)
    weights: Floats  # (N,)


def length_controlled(compared: Sequence[Compared]) -> float | None:
    """The length-controlled win rate, 0 to 1; None with fewer than five verdicts, or where lengths never differ."""
    spread = float(np.std([one.longer_by for one in compared], ddof=1)) if len(compared) > 1 else 0.0
    if not spread or sum(one.preference is not None for one in compared) < FOLDS:
        return None
    coefficients = _fit(_rows(compared, spread))
    at_same_length = np.array([[0.0, one.difficulty, 1.0] for one in compared])
    return float(np.mean(1 / (1 + np.exp(-at_same_length @ coefficients))))


def _rows(compared: Sequence[Compared], spread: float) -> _Rows:
    gamed = [
        ((np.tanh(one.length_difference), item.difficulty, 0.0), one.preference, GAMED_WEIGHT)
        for item in compared
        for one in item.gamed
    ]
    own = [
        ((np.tanh(item.longer_by / spread), item.difficulty, 1.0), item.preference, 1.0)
        for item in compared
        if item.preference is not None
    ]
    features, preferences, weights = zip(*gamed, *own, strict=True)
    return _Rows(np.array(features), np.array(preferences), np.array(weights))


def _fit(rows: _Rows) -> Floats:
    """(3,) coefficients, with the penalty that predicts left-out folds best."""
    fold = np.arange(len(rows.weights))[::-1] % FOLDS
    parts = [(_part(rows, fold != number), _part(rows, fold == number)) for number in range(FOLDS)]
    losses = [
        np.mean([np.mean(_cross_entropy(left, left.features @ _coefficients(kept, strength))) for kept, left in parts])
        for strength in STRENGTHS
    ]
    return _coefficients(rows, float(STRENGTHS[int(np.argmin(losses))]))


def _part(rows: _Rows, chosen: NDArray[np.bool_]) -> _Rows:
    return _Rows(rows.features[chosen], rows.preferences[chosen], rows.weights[chosen])


def _coefficients(rows: _Rows, strength: float) -> Floats:
    """(3,): they minimise `strength` × weighted cross-entropy + the sum of their absolute values; proximal Newton."""

    def objective(found: Floats) -> float:
        return strength * float(np.sum(_cross_entropy(rows, rows.features @ found))) + float(np.abs(found).sum())

    found = np.zeros(rows.features.shape[1])
    for _ in range(MOST_STEPS):
        predicted = np.exp(-np.logaddexp(0, -(rows.features @ found)))  # (N,)
        slope = strength * ((predicted - rows.preferences) * rows.weights) @ rows.features  # (3,)
        certain = rows.weights * predicted * (1 - predicted)
        curvature = strength * (rows.features.T * certain) @ rows.features  # (3, 3)
        step = _least(curvature, slope - curvature @ found) - found
        while objective(found + step) > objective(found) and np.abs(step).max() > CONVERGED:
            step /= 2
        found = found + step
        if np.abs(step).max() <= CONVERGED:
            break
    return found


def _least(curvature: Floats, slope: Floats) -> Floats:
    """(3,): the v that minimises v·curvature·v / 2 + slope·v + |v|₁, by coordinates."""
    found = np.zeros(len(slope))
    for _ in range(MOST_STEPS):
        before = found.copy()
        for at in np.flatnonzero(np.diag(curvature)):
            pull = slope[at] + curvature[at] @ found - curvature[at, at] * found[at]
            found[at] = -np.sign(pull) * max(abs(pull) - 1, 0.0) / curvature[at, at]
        if np.abs(found - before).max() <= CONVERGED:
            break
    return found


def _cross_entropy(rows: _Rows, margins: Floats) -> Floats:
    """(N,): of each row, weighted."""
    wins, losses = np.logaddexp(0, -margins), np.logaddexp(0, margins)
    return rows.weights * (rows.preferences * wins + (1 - rows.preferences) * losses)
