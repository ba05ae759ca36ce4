"""What a figure of a night is compared with: the pinned one, that of its open incident, or the last good one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from storage.evaluations import Evaluations
from storage.incidents import Incident, Pin
from tasks.measure.paired_tests import discoveries
from tasks.nightly.night_comparing import Found, change
from tasks.nightly.night_incidents import is_good
from tasks.nightly.night_records import Change, Night
from tasks.nightly.suite import RegressionRules


class Line(NamedTuple):
    """A figure through the nights."""

    kind: str
    of: str
    task: str
    run_of: Callable[[Night], str | None]
    """The run that measured it in a night."""
    read: Callable[[str, datetime], Found | None]
    """The figure of a run; the time is that of its night."""

    @property
    def figure(self) -> tuple[str, str]:
        return self.of, self.task

    def at(self, night: Night) -> Found | None:
        run = self.run_of(night)
        return self.read(run, night.started_at) if run else None


class Known(NamedTuple):
    """What is known before a night is judged."""

    earlier: Sequence[Night]
    """Oldest first."""
    incidents: Sequence[Incident]
    pins: Sequence[Pin]

    def of(self, line: Line) -> Known:
        """What is known of one figure."""
        return Known(
            self.earlier,
            tuple(one for one in self.incidents if one.figure == line.figure),
            tuple(one for one in self.pins if (one.of, one.task) == line.figure),
        )

    @property
    def open(self) -> Incident | None:
        """The open incident of this figure."""
        return next((one for one in self.incidents if one.open), None)


def changes(
    lines: Iterable[tuple[Line, Found]], known: Known, evaluations: Evaluations, rules: RegressionRules
) -> list[Change]:
    """Each figure of a night against its baseline. Raises DatabaseUnavailable.

    Of the figures without an open incident so many are believed to have moved as keeps the false discovery rate at
    5 %; one that stays within noise is asked whether it has been falling for many nights.
    """
    judged = [(line, now, known.of(line)) for line, now in lines]
    least = rules.least_drop

    def against(line: Line, now: Found, others: Iterable[Found]) -> Change:
        return change(line.of, line.task, now, others, evaluations=evaluations, least_drop=least)

    found = [against(line, now, _baselines(line, of_line)) for line, now, of_line in judged]
    new = [at for at, (_, _, of_line) in enumerate(judged) if found[at].p is not None and not of_line.open]
    for at, believed in zip(new, discoveries([found[at].p or 0.0 for at in new]), strict=True):
        if not believed and found[at].verdict in ("worse", "better"):
            found[at] = found[at].model_copy(update={"verdict": "within noise"})
    for at, (line, now, of_line) in enumerate(judged):
        start = None if of_line.open or found[at].regressed else _start_of_drift(line, now, of_line)
        if start:
            drifted = against(line, now, [start])
            if drifted.gain < 0 and -drifted.gain >= least:
                found[at] = drifted.model_copy(update={"verdict": "drifting"})
    return found


def _baselines(line: Line, known: Known) -> Iterator[Found]:
    """The figures to compare with, in the order in which they are preferred."""
    for pin in known.pins:
        if pinned := line.read(pin.run, pin.at):
            yield pinned
    if known.open:
        if good := line.read(known.open.baseline_run, known.open.baseline_at):
            yield good
        return
    yield from _good(line, reversed(known.earlier), known.incidents)


def _good(line: Line, nights: Iterable[Night], incidents: Sequence[Incident]) -> Iterator[Found]:
    for night in nights:
        if is_good(night.started_at, incidents) and (found := line.at(night)):
            yield found


def _start_of_drift(line: Line, now: Found, known: Known) -> Found | None:
    """The figure before a slow fall that ends here; None where there is none.

    Nights up to the end of the last incident or before a pinned one are another story.
    """
    since = [one.last.at for one in known.incidents] + [one.at for one in known.pins]
    begin = max(since, default=None)
    nights = [night for night in known.earlier if begin is None or night.started_at >= begin]
    points = [one for one in _good(line, nights, known.incidents) if one.comparable_by == now.comparable_by]
    distinct = list({one.measure.run: one for one in points}.values())  # a run may stand for several nights
    if any(one.measure.run == now.measure.run for one in distinct):
        return None
    values = [one.measure.value for one in (*distinct, now)]
    up = now.measure.higher_is_better
    start = fell_since(values, resolution=1 / max(1, now.measure.n), higher_is_better=up)
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
