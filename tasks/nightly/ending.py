"""How a night ends: what its flow run is called in the UI, and the sentence beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.nightly.records import Change, Failure, NightReport, State

NAMED = 4
"""Parts that a sentence names; the report has all."""


def state_of(failures: Sequence[Failure], changes: Sequence[Change], *, fails: bool, measured: bool) -> State:
    """The name of the end. fails: regressions count; measured: there is a figure, or none was asked for."""
    if fails and any(change.regressed for change in changes):
        return "Regressed"
    if any(failure.may_pass for failure in failures) or (failures and not measured):
        return "Failed"
    return "CompletedWithFailures" if failures else "Completed"


def sentence(report: NightReport) -> str:
    """What a person who is woken up reads first: what got worse, what is missing, what to do."""
    parts: list[str] = []
    if regressions := report.regressions:
        parts.append(f"{_count(len(regressions), 'regression')}: {_few([_told(one) for one in regressions])}")
    passing = [one for one in report.failures if one.may_pass]
    lasting = [one for one in report.failures if not one.may_pass]
    if passing:
        parts.append(f"not finished: {_few([f'{one.what} ({one.why})' for one in passing])}; Retry does only these")
    if lasting:
        parts.append(f"failed for good: {_few([f'{one.what} ({one.why})' for one in lasting])}")
    return ". ".join(parts) or f"{_count(len(report.scores), 'score')}, none worse beyond noise"


def _told(change: Change) -> str:
    assert change.before
    p = "" if change.p is None else f", p = {change.p:.3g}"
    return (
        f"{change.of} on {change.task} {change.before.value:.3f} → {change.now.value:.3f} "
        f"({change.difference:+.3f}{p}; run {change.now.run[:8]} after {change.before.run[:8]})"
    )


def _few(parts: Sequence[str]) -> str:
    more = f" … and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return "; ".join(parts[:NAMED]) + more


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
