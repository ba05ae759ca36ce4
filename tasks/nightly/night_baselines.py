"""What a figure of a night is compared with: the pinned one, that of its open incident, or the last good one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from storage.evaluations import Evaluations
from storage.incidents import Incident, Pin
from tasks.measure.drift import fell_since
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
