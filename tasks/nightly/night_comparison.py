"""A night against earlier ones: each figure against its baseline, and the incidents that follow.

A figure is compared with the pinned one, that of its open incident, or the last good one: paired by item where samples
were kept, else by the two intervals. It is worse if the drop exceeds the tolerance of the suite, its 95 % interval
excludes zero, and p is below 0.05; then it is an incident until it is back or somebody accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from storage.evaluated import Sample
from storage.evaluations import Evaluations, Figure
from storage.incidents import Incident, IncidentEvent, Pin
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Estimate
from tasks.evaluation.results.foreign_results import dict_or_empty
from tasks.evaluation.results.run_comparison import compare, differing, regressed
from tasks.keys import content_key
from tasks.measure.paired_tests import SIGNIFICANT, discoveries, newcombe
from tasks.nightly.night_records import Change, Measure, Night, NoIncident, Verdict
from tasks.nightly.suite import RegressionRules

BY_PAGE, BY_DOCUMENT, ANSWERS = "page.mrr@10", "document.mrr@10", "answers.correct"
OF_INDEX = (BY_PAGE, BY_DOCUMENT, ANSWERS)
"""Metrics by which an index is compared; by document if its documents have no pages."""
SHOWN = 5


class Cell(NamedTuple):
    """A figure of a night."""

    of: str
    """Label of the model, `index` or `selector`."""
    task: str
    """Benchmark, or metric of the index or the selector."""
    night: datetime
    run: str
    stored_task: str
    """Task under which the run stored it; empty for an index and a selector."""
    figure: Figure

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same figure in another night."""
        return self.of, self.task

    @property
    def measure(self) -> Measure:
        """The figure for a report; not validated again, since a page draws thousands of them."""
        one = self.figure
        return Measure.model_construct(
            metric=one.metric,
            part=one.part,
            value=one.value,
            low=one.low,
            high=one.high,
            n=one.n,
            run=self.run,
            higher_is_better=one.higher_is_better,
        )


class History(NamedTuple):
    """What is known before a night is judged."""

    earlier: Mapping[tuple[str, str], Sequence[Cell]]
    """By figure, oldest night first."""
    pinned: Mapping[tuple[str, str], Cell]
    before_incident: Mapping[tuple[str, str], Cell]
    """The last good figure before each open incident."""
    incidents: Sequence[Incident]
    pins: Sequence[Pin]

    def incident(self, key: tuple[str, str]) -> Incident | None:
        """The open incident of a figure."""
        return next((one for one in self.incidents if one.open and one.figure == key), None)

    def baselines(self, key: tuple[str, str]) -> Iterator[Cell]:
        """The figures to compare with, in the order in which they are preferred."""
        if key in self.pinned:
            yield self.pinned[key]
        if not self.incident(key):
            yield from reversed(self.good(key))
        elif key in self.before_incident:
            yield self.before_incident[key]

    def good(self, key: tuple[str, str]) -> list[Cell]:
        """The earlier figures that no incident spoils, oldest first.

        The nights of an incident are none, but that in which it was back, or whose figure was accepted.
        """
        of_figure = [one for one in self.incidents if one.figure == key]
        return [
            cell
            for cell in self.earlier.get(key, ())
            if not any(one.opened.at <= cell.night and (one.open or cell.night < one.last.at) for one in of_figure)
        ]


def changes(now: Sequence[Cell], known: History, evaluations: Evaluations, rules: RegressionRules) -> list[Change]:
    """Each figure of a night against its baseline. Raises DatabaseUnavailable.

    Of the figures without an open incident so many are believed to have moved as keeps the false discovery rate at
    5 %; one that stays within noise is asked whether it has been falling for many nights.
    """
    least = rules.least_drop
    found = [change(cell, known.baselines(cell.key), evaluations=evaluations, least_drop=least) for cell in now]
    new = [at for at, cell in enumerate(now) if found[at].p is not None and not known.incident(cell.key)]
    for at, believed in zip(new, discoveries([found[at].p or 0.0 for at in new]), strict=True):
        if not believed and found[at].verdict in ("worse", "better"):
            found[at] = found[at].model_copy(update={"verdict": "within noise"})
    for at, cell in enumerate(now):
        start = None if known.incident(cell.key) or found[at].regressed else _start_of_drift(cell, known)
        if start:
            drifted = change(cell, [start], evaluations=evaluations, least_drop=least)
            if drifted.gain < 0 and -drifted.gain >= least:
                found[at] = drifted.model_copy(update={"verdict": "drifting"})
    return found


def change(now: Cell, earlier: Iterable[Cell], *, evaluations: Evaluations, least_drop: float = 0.0) -> Change:
    """A figure against the first comparable one of `earlier`. Raises DatabaseUnavailable."""
    others = iter(earlier)
    last = next(others, None)
    if last is None:
        return Change(of=now.of, task=now.task, verdict="first", now=now.measure)
    wanted = now.figure.comparable_by
    before = next((one for one in chain([last], others) if one.figure.comparable_by == wanted), None)
    if before is None:
        facts: list[dict[str, Any]] = []
        for cell in (last, now):
            rows = evaluations.task_results(cell.run)
            row = next(one for one in rows if (one.task.task if one.task else "") == cell.stored_task)
            facts.append({"data": row.dataset.checksum[:8]} | row.settings.parameters)
        why = differing(*facts) or ("another figure is the headline",)
        return Change(of=now.of, task=now.task, verdict="not comparable", now=now.measure, why=why)
    both: dict[str, Any] = {"of": now.of, "task": now.task, "now": now.measure, "before": before.measure}
    both |= {"night": before.night}
    if before.run == now.run:
        return Change(verdict="same run", difference=0.0, **both)
    up = now.figure.higher_is_better
    try:
        compared = compare(_samples(before, evaluations), _samples(now, evaluations), higher_is_better=up)
    except ResultsUnusable:  # no samples were kept, or none that both could score: the two intervals are compared
        new, old = (Estimate.model_validate(one.measure.model_dump(exclude={"run"})) for one in (now, before))
        difference, p = new.value - old.value, newcombe(new, old)
        verdict: Verdict = "worse" if regressed(difference, p, higher_is_better=up) else "better"
        beyond_noise = p is not None and p < SIGNIFICANT and abs(difference) >= least_drop
        return Change(verdict=verdict if beyond_noise else "within noise", difference=difference, p=p, **both)
    gain, low, high = (compared.difference if up else -compared.difference), compared.low, compared.high
    beyond_noise = compared.significant and low is not None and high is not None and not low <= 0 <= high
    verdict = "within noise"
    if beyond_noise and (gain > 0 or -gain >= least_drop):
        verdict = "better" if gain > 0 else "worse"
    return Change(
        verdict=verdict,
        paired=True,
        worse=compared.worse[:SHOWN],
        **{name: getattr(compared, name) for name in ("difference", "low", "high", "p", "n", "wins", "losses")},
        **both,
    )


def _samples(cell: Cell, evaluations: Evaluations) -> Iterator[Sample]:
    """The samples behind a figure, with the score of its metric: of an index `page.mrr@10`, `answers.correct` …"""
    unit, _, name = cell.task.partition(".")
    for row in evaluations.samples(cell.run, cell.stored_task):
        if cell.stored_task or cell.task not in OF_INDEX:
            yield row
            continue
        value: Any = None
        if cell.task == ANSWERS:
            checks = dict_or_empty(row.detail.get("checks"))
            value = checks.get("contains") if checks.get("number") is None else checks["number"]
        elif isinstance(ranked := dict_or_empty(row.detail.get(unit)).get(name), int | float):
            value = ranked
        if value is None:
            why = "it has no gold for this figure"
            yield Sample(item=row.item, repeat=row.repeat, status="unscored", reason=why)
        else:
            yield Sample(item=row.item, repeat=row.repeat, score=float(value))


def _start_of_drift(now: Cell, known: History) -> Cell | None:
    """The figure before a slow fall that ends here; None where there is none.

    Nights up to the end of the last incident or before a pinned one are another story.
    """
    since = [one.last.at for one in known.incidents if one.figure == now.key]
    since += [one.at for one in known.pins if (one.of, one.task) == now.key]
    begin = max(since, default=None)
    points = [one for one in known.good(now.key) if begin is None or one.night >= begin]
    points = [one for one in points if one.figure.comparable_by == now.figure.comparable_by]
    distinct = list({one.run: one for one in points}.values())  # a run may stand for several nights
    if any(one.run == now.run for one in distinct):
        return None
    values = [one.figure.value for one in (*distinct, now)]
    start = fell_since(values, resolution=1 / max(1, now.figure.n), higher_is_better=now.figure.higher_is_better)
    return None if start is None else distinct[start]


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


def incidents_before(incidents: Sequence[Incident], night: Night) -> tuple[Incident, ...]:
    """The incidents as they were before a night, which may run for a second time.

    One that was accepted with the figure of this night stays accepted.
    """
    known: list[Incident] = []
    for one in incidents:
        events = tuple(event for event in one.events if event.night != night.run)
        if one.status == "accepted" or events == one.events:
            known.append(one)
        elif events:
            known.append(one.model_copy(update={"events": events, "status": "open"}))
    return tuple(known)


def incidents_after(incidents: Sequence[Incident], changes: Sequence[Change], night: Night) -> tuple[Incident, ...]:
    """The incidents after a night: open ones go on or end, and each new regression opens one.

    A figure that was accepted with its value of this very night opens none.
    """
    found = {change.key: change for change in changes}
    known = {one.figure for one in incidents if one.open or (one.status == "accepted" and one.last.night == night.run)}
    after: list[Incident] = []
    for one in incidents:
        change = found.get(one.figure) if one.open else None
        if change is None:  # it has ended, or the night has no such figure
            after.append(one)
            continue
        # within noise of the baseline it is back only where it is nearer to it than to the figure that opened it
        middle = (one.baseline_value + one.opened.value) / 2
        back = change.now.value > middle if one.higher_is_better else change.now.value < middle
        outcome = "worse" if change.regressed else "back" if back else "not back"
        outcome = "not comparable" if change.before is None else outcome
        events = (*one.events, _event(change, night, outcome))
        after.append(one.model_copy(update={"events": events, "status": "back" if outcome == "back" else "open"}))
    for figure, change in found.items():
        if change.regressed and figure not in known:
            assert change.before
            assert change.night
            identity = {"suite": night.file, "of": change.of, "task": change.task, "night": night.run}
            after.append(
                Incident(
                    id=content_key("incident", 1, identity),
                    suite=night.file,
                    of=change.of,
                    task=change.task,
                    metric=change.now.metric,
                    kind="drift" if change.verdict == "drifting" else "drop",
                    baseline_run=change.before.run,
                    baseline_value=change.before.value,
                    baseline_at=change.night,
                    higher_is_better=change.now.higher_is_better,
                    events=(_event(change, night, "worse"),),
                )
            )
    return tuple(after)


def _event(change: Change, night: Night, found: str) -> IncidentEvent:
    told = {"night": night.run, "at": night.started_at, "run": change.now.run, "value": change.now.value}
    return IncidentEvent.model_validate(told | {"p": change.p, "found": found})


def accept_incident(incidents: Sequence[Incident], which: str, *, word: str, at: datetime) -> Incident:
    """An open incident, accepted: its last figure is a good one from now on. Raises NoIncident.

    which: its ID, or the beginning of it. word: why.
    """
    found = [one for one in incidents if one.open and one.id.startswith(which)]
    if len(found) != 1 or not which:
        named = "; ".join(f"{one.short_id} ({one.of} on {one.task})" for one in incidents if one.open) or "none"
        raise NoIncident(f"{len(found) or 'no'} open incidents begin with {which!r}; open are: {named}")
    return found[0].model_copy(update={"status": "accepted", "word": word, "accepted_at": at})
