"""What selectors were found to be worth, by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tasks.lever.lever_records import Conditions, Evaluated, Outcome, SelectorResult

CONDITIONS = Conditions(
    dataset="digits",
    judge="scripted",
    encoder="by hand",
    sampler="RandSampler",
    pool_size=32,
    threshold=0.5,
    trained_shots=2,
)


def outcome(query: str, accuracy: float | None) -> Outcome:
    correct = None if accuracy is None else int(accuracy >= 0.5)
    return Outcome(query=query, pointer=(0, 1), shown=("a", "b"), accuracy=accuracy, correct=correct)


def result(selector: str, accuracies: Sequence[float | None], *, shots: int = 2) -> SelectorResult:
    outcomes = tuple(outcome(f"q{number}", one) for number, one in enumerate(accuracies))
    return SelectorResult(selector=selector, shots=shots, outcomes=outcomes)


def seed_of(number: int, of: Mapping[str, Sequence[float | None]]) -> Evaluated:
    results = tuple(result(selector, accuracies) for selector, accuracies in of.items())
    return Evaluated(conditions=CONDITIONS, seed=number, results=results)


def accuracy_of(found: SelectorResult) -> float | None:
    """Mean accuracy over the queries that were scored."""
    scored = [one.accuracy for one in found.outcomes if one.accuracy is not None]
    return fmean(scored) if scored else None
