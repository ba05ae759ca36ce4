"""Compares a figure of a night with an earlier one: paired by item where samples were kept, else by the intervals.

A figure is worse if the drop exceeds the tolerance of the suite, its 95 % interval excludes zero, and p is below 0.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from storage.evaluated import Evaluated, Sample
from storage.evaluations import Evaluations
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Estimate
from tasks.evaluation.results.foreign_results import dict_or_empty
from tasks.evaluation.results.run_comparison import Comparison, compare, differing, regressed
from tasks.measure.paired_tests import SIGNIFICANT, newcombe
from tasks.nightly.night_records import Change, Measure, Verdict

ANSWERS = "answers.correct"
SHOWN = 5


class Found(NamedTuple):
    """A figure of a night, with what determines whether another is comparable."""

    night: datetime
    measure: Measure
    at: Evaluated
    """The rows of its run, without samples."""

    @property
    def comparable_by(self) -> tuple[str, str, str]:
        """Checksum of the data, digest of the settings, metric."""
        return self.at.dataset.checksum, self.at.settings.digest, self.measure.metric


def change(
    of: str, task: str, now: Found, earlier: Iterable[Found], *, evaluations: Evaluations, least_drop: float = 0.0
) -> Change:
    """A figure against the last comparable one of `earlier`, newest first. Raises DatabaseUnavailable."""
    others = iter(earlier)
    last = next(others, None)
    if last is None:
        return Change(of=of, task=task, verdict="first", now=now.measure)
    before = next((one for one in chain([last], others) if one.comparable_by == now.comparable_by), None)
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


def _verdict(compared: Comparison, *, up: bool, least_drop: float) -> Verdict:
    gain = compared.difference if up else -compared.difference
    low, high = compared.low, compared.high
    if not compared.significant or low is None or high is None or low <= 0 <= high:
        return "within noise"
    if gain > 0:
        return "better"
    return "worse" if -gain >= least_drop else "within noise"


def _from_intervals(now: Found, before: Found, told: Mapping[str, Any], *, least_drop: float) -> Change:
    """For runs without shared items: compare the two intervals."""
    new, last = (Estimate.model_validate(one.measure.model_dump(exclude={"run"})) for one in (now, before))
    difference, p = new.value - last.value, newcombe(new, last)
    sure = p is not None and p < SIGNIFICANT and abs(difference) >= least_drop
    worse = regressed(difference, p, higher_is_better=new.higher_is_better)
    verdict: Verdict = ("worse" if worse else "better") if sure else "within noise"
    return Change(verdict=verdict, difference=difference, p=p, **told)


def _samples(found: Found, task: str, evaluations: Evaluations) -> Iterable[Sample]:
    """The samples behind a figure, with the score of its metric."""
    kept = evaluations.samples(found.measure.run, found.at.task.task if found.at.task else "")
    if found.at.run.kind == "rag":
        return (_of_question(row, task) for row in kept)
    return kept


def _of_question(row: Sample, metric: str) -> Sample:
    """The score of a question in one metric of an index: `page.mrr@10`, `answers.correct`."""
    unit, _, name = metric.partition(".")
    value: Any = None
    if metric == ANSWERS:
        checks = dict_or_empty(row.detail.get("checks"))
        value = checks.get("contains") if checks.get("number") is None else checks["number"]
    elif isinstance(ranked := dict_or_empty(row.detail.get(unit)).get(name), int | float):
        value = ranked
    if value is None:
        return Sample(item=row.item, repeat=row.repeat, status="unscored", reason="it has no gold for this figure")
    return Sample(item=row.item, repeat=row.repeat, score=float(value))


def _differences(before: Found, now: Found) -> tuple[str, ...]:
    """Differences of data and settings, a phrase each."""
    first, second = ({"data": one.at.dataset.checksum[:8]} | one.at.settings.parameters for one in (before, now))
    return differing(first, second) or ("another figure is the headline",)
