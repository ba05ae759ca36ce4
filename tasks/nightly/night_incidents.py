"""Incidents: a figure that got worse stays one until it is back or somebody accepts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from storage.incidents import Incident, IncidentEvent
from tasks.keys import content_key
from tasks.nightly.night_records import Change, Night, NoIncident


def before(incidents: Sequence[Incident], night: Night) -> tuple[Incident, ...]:
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


def ended_figures(incidents: Sequence[Incident], night: Night) -> frozenset[tuple[str, str]]:
    """The figures whose values of this night somebody accepted."""
    return frozenset(one.figure for one in incidents if one.status == "accepted" and one.last.night == night.run)


def is_good(at: datetime, incidents: Sequence[Incident]) -> bool:
    """Whether a figure of a night of that time may be a baseline. incidents: of this figure.

    The nights of an incident are none, but that in which it was back, or whose figure was accepted.
    """
    return not any(one.opened.at <= at and (one.open or at < one.last.at) for one in incidents)


def after(
    incidents: Sequence[Incident], changes: Sequence[Change], night: Night, *, accepted: frozenset[tuple[str, str]]
) -> tuple[Incident, ...]:
    """The incidents after a night: open ones go on or end, and each new regression opens one."""
    found = {(change.of, change.task): change for change in changes}
    opened = {one.figure for one in incidents if one.open}
    went_on = [_next(one, found.get(one.figure), night) if one.open else one for one in incidents]
    new = [
        _opened(change, night)
        for figure, change in found.items()
        if change.regressed and figure not in opened and figure not in accepted
    ]
    return (*went_on, *new)


def _opened(change: Change, night: Night) -> Incident:
    assert change.before
    assert change.night
    return Incident(
        id=content_key("incident", 1, {"suite": night.file, "of": change.of, "task": change.task, "night": night.run}),
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


def _next(one: Incident, change: Change | None, night: Night) -> Incident:
    """An open incident with what a night found; unchanged where the night has no such figure."""
    if change is None:
        return one
    if change.before is None:
        event = _event(change, night, "not comparable")
    elif change.regressed:
        event = _event(change, night, "worse")
    else:
        event = _event(change, night, "back" if _is_back(one, change.now.value) else "not back")
    status = "back" if event.found == "back" else "open"
    return one.model_copy(update={"events": (*one.events, event), "status": status})


def _is_back(one: Incident, value: float) -> bool:
    """Whether a value within noise of the baseline is nearer to it than to the figure that opened the incident."""
    middle = (one.baseline_value + one.opened.value) / 2
    return value > middle if one.higher_is_better else value < middle


def _event(change: Change, night: Night, found: str) -> IncidentEvent:
    told = {"night": night.run, "at": night.started_at, "run": change.now.run, "value": change.now.value}
    return IncidentEvent.model_validate(told | {"p": change.p, "found": found})


def accept(incidents: Sequence[Incident], which: str, *, word: str, at: datetime) -> Incident:
    """An open incident, accepted: its last figure is a good one from now on. Raises NoIncident.

    which: its ID, or the beginning of it. word: why.
    """
    found = [one for one in incidents if one.open and one.id.startswith(which)]
    if len(found) != 1 or not which:
        named = "; ".join(_named(incidents)) or "none"
        raise NoIncident(f"{len(found) or 'no'} open incidents begin with {which!r}; open are: {named}")
    return found[0].model_copy(update={"status": "accepted", "word": word, "accepted_at": at})


def _named(incidents: Sequence[Incident]) -> Iterator[str]:
    return (f"{one.short_id} ({one.of} on {one.task})" for one in incidents if one.open)
