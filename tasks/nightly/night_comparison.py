"""Compares a night with earlier nights: each score with its baseline, and the incidents that follow.

A score is compared with the pinned one, that of its open incident, or the last good one: paired by item where samples
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
from storage.evaluations import Evaluations, RunScore
from storage.incidents import Incident, IncidentEvent, Pin
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.results.foreign_results import dict_or_empty
from tasks.evaluation.results.run_comparison import compare, describe_differences, is_regression
from tasks.keys import content_key
from tasks.measure.paired_tests import SIGNIFICANT, find_discoveries, newcombe
from tasks.nightly.night_records import Change, Measure, Night, NoIncident, Verdict

BY_PAGE, BY_DOCUMENT, ANSWERS = "page.mrr@10", "document.mrr@10", "answers.correct"
OF_INDEX = (BY_PAGE, BY_DOCUMENT, ANSWERS)
"""Metrics by which an index is compared; the one by document only where documents have no pages."""
MOST_WORSE = 5
"""Most items that got worse which a report shows for a score."""


class Cell(NamedTuple):
    """A score of a night, with the key under which it is compared."""

    of: str
    """Subject of the score: the label of a model, `index` or `selector`."""
    task: str
    """Name of the benchmark, or metric of the index or the selector."""
    night: datetime
    run: str
    stored_task: str
    """Task under which the run stored the score; empty for an index and a selector."""
    score: RunScore

    @property
    def key(self) -> tuple[str, str]:
        """Key that the same score has in every night."""
        return self.of, self.task

    @property
    def measure(self) -> Measure:
        """The score as reports hold it; it is not validated again, since a page draws thousands of scores."""
        fields = self.score._asdict()
        values = {name: fields[name] for name in Measure.model_fields if name in fields}
        return Measure.model_construct(run=self.run, **values)


class History(NamedTuple):
    """Earlier nights, their incidents and pins, as they are known before a night is judged."""

    earlier: Mapping[tuple[str, str], Sequence[Cell]]
    """Scores of earlier nights by key, oldest night first."""
    pinned: Mapping[tuple[str, str], Cell]
    before_incident: Mapping[tuple[str, str], Cell]
    """The last good score before each open incident, by key."""
    incidents: Sequence[Incident]
    pins: Sequence[Pin]

    def incident(self, key: tuple[str, str]) -> Incident | None:
        """Return the open incident of a score; None if there is none."""
        return next((incident for incident in self.incidents if incident.open and incident.key == key), None)

    def baselines(self, key: tuple[str, str]) -> Iterator[Cell]:
        """Yield the pinned score, then good ones, newest first, or instead of them the one before an open incident."""
        if key in self.pinned:
            yield self.pinned[key]
        if not self.incident(key):
            yield from reversed(self.good_scores(key))
        elif key in self.before_incident:
            yield self.before_incident[key]

    def good_scores(self, key: tuple[str, str]) -> list[Cell]:
        """Return the earlier scores that no incident spoils, oldest first.

        Nights of an incident do not count, except the one in which the score was back and one whose score was accepted.
        """
        of_score = [incident for incident in self.incidents if incident.key == key]
        return [
            cell
            for cell in self.earlier.get(key, ())
            if not any(
                incident.opened.at <= cell.night and (incident.open or cell.night < incident.last.at)
                for incident in of_score
            )
        ]


def compare_night(now: Sequence[Cell], history: History, evaluations: Evaluations) -> list[Change]:
    """Return the comparison of each score of a night with its baseline, in their order. Raises DatabaseUnavailable.

    Among the scores without an open incident, the false discovery rate of those that count as moved is kept at 5 %.
    A score that is not worse is searched for a slow fall over many nights, and then compared with its start.
    """
    results = [compare_score(cell, history.baselines(cell.key), evaluations=evaluations) for cell in now]
    tested = [
        index for index, cell in enumerate(now) if results[index].p is not None and not history.incident(cell.key)
    ]
    p_values = [results[index].p or 0.0 for index in tested]
    for index, believed in zip(tested, find_discoveries(p_values), strict=True):
        if not believed and results[index].verdict in ("worse", "better"):
            results[index] = results[index].model_copy(update={"verdict": "within noise"})
    # a slow fall is looked for only where no incident is open and the single night shows no drop
    for index, cell in enumerate(now):
        start = None if history.incident(cell.key) or results[index].regressed else _find_drift_start(cell, history)
        if start:
            drifted = compare_score(cell, [start], evaluations=evaluations)
            if drifted.gain < 0:
                results[index] = drifted.model_copy(update={"verdict": "drifting"})
    return results


def compare_score(now: Cell, earlier: Iterable[Cell], *, evaluations: Evaluations) -> Change:
    """Return the comparison of a score with the first comparable of `earlier`, if any. Raises DatabaseUnavailable."""
    rest = iter(earlier)
    last = next(rest, None)
    if last is None:
        return Change(of=now.of, task=now.task, verdict="first", now=now.measure)
    comparable_by = now.score.comparable_by
    # other data or settings are another question: an older night may be comparable where the last is not
    before = next((cell for cell in chain([last], rest) if cell.score.comparable_by == comparable_by), None)
    if before is None:
        settings: list[dict[str, Any]] = []
        for cell in (last, now):
            rows = evaluations.task_results(cell.run)
            row = next(
                candidate for candidate in rows if (candidate.task.task if candidate.task else "") == cell.stored_task
            )
            settings.append({"data": row.dataset.checksum[:8]} | row.settings.parameters)
        why = describe_differences(*settings) or ("another figure is the headline",)
        return Change(of=now.of, task=now.task, verdict="not comparable", now=now.measure, why=why)
    common: dict[str, Any] = {"of": now.of, "task": now.task, "now": now.measure}
    common |= {"before": before.measure, "night": before.night}
    if now.score.revision != before.score.revision:
        revisions = (score.revision or "unknown" for score in (now.score, before.score))
        common["why"] = ("other weights: {}, before {}".format(*revisions),)
    if before.run == now.run:
        return Change(verdict="same run", difference=0.0, **common)
    higher_is_better = now.score.higher_is_better
    try:
        compared = compare(
            _read_samples(before, evaluations), _read_samples(now, evaluations), higher_is_better=higher_is_better
        )
    except ResultsUnusable:  # no samples were kept, or none that both could score: the two intervals are compared
        new, old = now.measure, before.measure
        difference, p = new.value - old.value, newcombe(new, old)
        verdict: Verdict = "worse" if is_regression(difference, p, higher_is_better=higher_is_better) else "better"
        beyond_noise = p is not None and p < SIGNIFICANT
        return Change(verdict=verdict if beyond_noise else "within noise", difference=difference, p=p, **common)
    gain, low, high = (compared.difference if higher_is_better else -compared.difference), compared.low, compared.high
    beyond_noise = compared.significant and low is not None and high is not None and not low <= 0 <= high
    verdict = ("better" if gain > 0 else "worse") if beyond_noise else "within noise"
    return Change(
        verdict=verdict,
        paired=True,
        worse=compared.worse[:MOST_WORSE],
        **{name: getattr(compared, name) for name in ("difference", "low", "high", "p", "n", "wins", "losses")},
        **common,
    )


def _read_samples(cell: Cell, evaluations: Evaluations) -> Iterator[Sample]:
    """Yield the samples behind a score, each with its value of the metric, such as `page.mrr@10` of an index."""
    unit, _, name = cell.task.partition(".")
    for row in evaluations.samples(cell.run, cell.stored_task):
        if cell.stored_task or cell.task not in OF_INDEX:  # samples of models are graded already
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


def _find_drift_start(now: Cell, history: History) -> Cell | None:
    """Return the score before a slow fall that ends here; None where there is no such fall.

    Nights up to the end of the last incident or before a pinned one are another story.
    """
    since = [incident.last.at for incident in history.incidents if incident.key == now.key]
    since += [pin.at for pin in history.pins if (pin.of, pin.task) == now.key]
    begin = max(since, default=None)
    points = [cell for cell in history.good_scores(now.key) if begin is None or cell.night >= begin]
    points = [cell for cell in points if cell.score.comparable_by == now.score.comparable_by]
    distinct = list({cell.run: cell for cell in points}.values())  # a run may stand for several nights
    if any(cell.run == now.run for cell in distinct):
        return None
    values = [cell.score.value for cell in (*distinct, now)]
    start = find_fall(values, resolution=1 / max(1, now.score.n), higher_is_better=now.score.higher_is_better)
    return None if start is None else distinct[start]


SLACK = 0.5
"""Shift that the sum lets pass, in standard deviations of the score."""
LIMIT = 5.5  # found by simulation
"""Sum at which a fall is reported: with this slack less than once in a year of nights where nothing falls."""
FIRST = 3
"""Number of scores before the sum begins: fewer do not show their spread."""
FARTHEST = 8.0
"""Standard scores are cut here, where their tails are beyond the precision of a float."""


def find_fall(values: Sequence[float], *, resolution: float, higher_is_better: bool = True) -> int | None:
    """Return the index of the last value before a slow fall that the last value confirms; None where there is no fall.

    values: oldest first. resolution: smallest change that the score can show, 1/n of a share of n items: the spread
    is not taken for less, so that after weeks of equal scores a single item raises no alarm.

    Each value is compared with the mean and the spread of all before it, by Student's t, which gives independent
    standard normal scores where nothing changes; their falls beyond the slack are summed and never below zero.
    Source: Hawkins 1987, Self-starting CUSUM charts for location and scale, The Statistician 36; Page 1954.
    """
    scores = compute_standard_scores(values, resolution=resolution)
    total, start = 0.0, 0
    for index, score in enumerate(scores, start=FIRST):
        total = max(0.0, total + (-score if higher_is_better else score) - SLACK)
        if not total:
            start = index
    return start if total > LIMIT else None


def compute_standard_scores(values: Sequence[float], *, resolution: float) -> list[float]:
    """Return, for each value from the fourth on, its standard normal score against all before it, within ±FARTHEST."""
    from scipy.special import ndtri, stdtr  # scipy.stats takes a second to import

    scores = np.asarray(values, np.float64)
    if len(scores) <= FIRST:
        return []
    counts = np.arange(FIRST, len(scores))
    means = scores.cumsum()[FIRST - 1 : -1] / counts  # of all before, without the score itself
    # around the first: squares of large scores would cancel
    squares = ((scores - scores[0]) ** 2).cumsum()[FIRST - 1 : -1] - counts * (means - scores[0]) ** 2
    spreads = np.maximum(np.sqrt(np.maximum(squares, 0) / (counts - 1)), resolution)
    t = (scores[FIRST:] - means) / (spreads * np.sqrt(1 + 1 / counts))
    lower_tails = ndtri(stdtr(counts - 1, -np.abs(t)))  # which keep their precision
    return (np.copysign(np.minimum(-lower_tails, FARTHEST), t)).tolist()


def rewind_incidents(incidents: Sequence[Incident], night: Night) -> tuple[Incident, ...]:
    """Return the incidents as they were before a night, which may be running for a second time.

    An incident that was accepted with the score of this night stays accepted.
    """
    earlier: list[Incident] = []
    for incident in incidents:
        events = tuple(event for event in incident.events if event.night != night.run)
        if incident.status == "accepted" or events == incident.events:
            earlier.append(incident)
        elif events:
            earlier.append(incident.model_copy(update={"events": events, "status": "open"}))
    return tuple(earlier)


def update_incidents(incidents: Sequence[Incident], changes: Sequence[Change], night: Night) -> tuple[Incident, ...]:
    """Return the incidents after a night: open ones go on or end, and each new regression opens an incident.

    A score that was accepted with its value of this very night opens no incident.
    """
    by_key = {change.key: change for change in changes}
    open_keys = {
        incident.key
        for incident in incidents
        if incident.open or (incident.status == "accepted" and incident.last.night == night.run)
    }
    after: list[Incident] = []
    for incident in incidents:
        change = by_key.get(incident.key) if incident.open else None
        if change is None:  # it has ended, or the night has no such score
            after.append(incident)
            continue
        # within noise of the baseline it is back only where it is nearer to it than to the score that opened it
        middle = (incident.baseline_value + incident.opened.value) / 2
        back = change.now.value > middle if incident.higher_is_better else change.now.value < middle
        outcome = "worse" if change.regressed else "back" if back else "not back"
        outcome = "not comparable" if change.before is None else outcome
        events = (*incident.events, _build_event(change, night, outcome))
        after.append(incident.model_copy(update={"events": events, "status": "back" if outcome == "back" else "open"}))
    for key, change in by_key.items():
        if change.regressed and key not in open_keys:
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
                    events=(_build_event(change, night, "worse"),),
                )
            )
    return tuple(after)


def _build_event(change: Change, night: Night, outcome: str) -> IncidentEvent:
    fields = {"night": night.run, "at": night.started_at, "run": change.now.run, "value": change.now.value}
    return IncidentEvent.model_validate(fields | {"p": change.p, "found": outcome})


def accept_incident(incidents: Sequence[Incident], incident_id: str, *, word: str, at: datetime) -> Incident:
    """Return an open incident as accepted, whose last score counts as good from now on. Raises NoIncident.

    incident_id: its ID, or a beginning that no other open one has. word: why.
    """
    matches = [incident for incident in incidents if incident.open and incident.id.startswith(incident_id)]
    if len(matches) != 1 or not incident_id:
        names = [f"{incident.short_id} ({incident.of} on {incident.task})" for incident in incidents if incident.open]
        listing = "; ".join(names) or "none"
        raise NoIncident(f"{len(matches) or 'no'} open incidents begin with {incident_id!r}; open are: {listing}")
    return matches[0].model_copy(update={"status": "accepted", "word": word, "accepted_at": at})
