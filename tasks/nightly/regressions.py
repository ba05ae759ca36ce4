"""Compares figures with those of the last comparable night, paired by item, and says which changes exceed chance.

A figure is worse when the drop is larger than the suite tolerates, its 95 % interval excludes zero, and p is below
0.05. Only figures of equal data and settings are compared: other differences say nothing about the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple, cast

from storage.evaluated import Evaluated
from storage.evaluated import Sample as Row
from storage.evaluations import Evaluations
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Estimate, Sample
from tasks.evaluation.results.result_rows import sample_from_row
from tasks.evaluation.results.run_comparison import Comparison, compare, regression
from tasks.measure.paired_tests import SIGNIFICANT
from tasks.nightly.night_records import Change, Measure, Verdict

SHOWN = 5
"""Most lost items that are named."""
ANSWERS = "answers.correct"


class Found(NamedTuple):
    """A figure of a night, with everything that tells whether another is comparable."""

    night: datetime
    measure: Measure
    at: Evaluated
    """The rows of its run, without samples."""

    @property
    def same(self) -> tuple[str, str]:
        """Equal for figures of equal data and settings."""
        return self.at.dataset.checksum, self.at.settings.digest


def change(
    of: str, task: str, now: Found, earlier: Iterable[Found], *, evaluations: Evaluations, least_drop: float = 0.0
) -> Change:
    """How a figure stands against the last comparable of `earlier`, the last night first. Raises DatabaseUnavailable.

    least_drop: smaller drops are tolerated.
    """
    others = iter(earlier)
    last = next(others, None)
    if last is None:
        return Change(of=of, task=task, verdict="first", now=now.measure)
    before = next((one for one in chain([last], others) if _comparable(one, now)), None)
    if before is None:
        return Change(of=of, task=task, verdict="not comparable", now=now.measure, why=_differences(last, now))
    told: dict[str, Any] = {"of": of, "task": task, "now": now.measure, "before": before.measure, "night": before.night}
    if before.measure.run == now.measure.run:
        return Change(verdict="same run", difference=0.0, **told)
    try:
        compared = compare(
            _samples(before, task, evaluations),
            _samples(now, task, evaluations),
            higher_is_better=now.measure.higher_is_better,
        )
    except ResultsUnusable:  # no samples were kept, or none that both could score
        return _from_intervals(now, before, told, least_drop=least_drop)
    return Change(
        verdict=_verdict(compared, up=now.measure.higher_is_better, least_drop=least_drop),
        difference=compared.difference,
        low=compared.low,
        high=compared.high,
        p=compared.p,
        n=compared.n,
        wins=compared.wins,
        losses=compared.losses,
        paired=True,
        worse=compared.worse[:SHOWN],
        **told,
    )


def _comparable(one: Found, now: Found) -> bool:
    return one.same == now.same and one.measure.metric == now.measure.metric


def _verdict(compared: Comparison, *, up: bool, least_drop: float) -> Verdict:
    gain = compared.difference if up else -compared.difference
    low, high = compared.low, compared.high
    if not compared.significant or low is None or high is None or low <= 0 <= high:
        return "within noise"
    if gain > 0:
        return "better"
    return "worse" if -gain >= least_drop else "within noise"


def _from_intervals(now: Found, before: Found, told: Mapping[str, Any], *, least_drop: float) -> Change:
    """For runs without shared items: the two intervals are compared."""
    found = regression(_estimate(now.measure), _estimate(before.measure))
    sure = found.p is not None and found.p < SIGNIFICANT and abs(found.difference) >= least_drop
    verdict: Verdict = "worse" if found.regressed and sure else "better" if sure else "within noise"
    return Change(verdict=verdict, difference=found.difference, p=found.p, **told)


def _estimate(measure: Measure) -> Estimate:
    return Estimate.model_validate(measure.model_dump(exclude={"run"}))


def _samples(found: Found, task: str, evaluations: Evaluations) -> Iterable[Sample]:
    """The samples behind a figure, as they are compared."""
    kept = evaluations.samples(found.measure.run, found.at.task.task if found.at.task else "")
    if found.at.run.kind == "rag":
        return (_of_question(row, task) for row in kept)
    return map(sample_from_row, kept)


def _of_question(row: Row, metric: str) -> Sample:
    """The score of a question in one metric of an index."""
    value = _checked(row.detail.get("checks")) if metric == ANSWERS else _ranked(row, metric)
    if value is None:
        return Sample(item=row.item, repeat=row.repeat, status="unscored", reason="it has no gold for this figure")
    return Sample(item=row.item, repeat=row.repeat, score=value)


def _ranked(row: Row, metric: str) -> float | None:
    """metric: `page.mrr@10`."""
    unit, _, name = metric.partition(".")
    figures = row.detail.get(unit)
    value = figures.get(name) if isinstance(figures, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _checked(checks: object) -> float | None:
    if not isinstance(checks, dict):
        return None
    known = cast("dict[str, Any]", checks)
    value = known.get("contains") if known.get("number") is None else known["number"]
    return None if value is None else float(value)


def _differences(before: Found, now: Found) -> tuple[str, ...]:
    """Differences of data and settings, a phrase each."""
    found: list[str] = []
    if before.at.dataset.checksum != now.at.dataset.checksum:
        found.append(f"data: {before.at.dataset.checksum[:8]} and {now.at.dataset.checksum[:8]}")
    first, second = before.at.settings.parameters, now.at.settings.parameters
    for name in dict.fromkeys([*first, *second]):
        if first.get(name) != second.get(name):
            found.append(f"{name}: {_short(first.get(name))} and {_short(second.get(name))}")
    return tuple(found) or ("another figure is the headline",)


def _short(value: object) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
