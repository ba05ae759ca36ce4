"""A night in words: its figures and its end, as markdown, the page and the flow run say them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tasks.nightly.night_records import Change, Measure, NightReport, State

WORDS: dict[State, str] = {
    "Completed": "nothing got worse beyond noise",
    "CompletedWithFailures": "some parts failed, for good",
    "Failed": "some parts are missing; Retry does only these",
    "Regressed": "something got worse beyond noise",
}
VERDICTS = {
    "worse": "worse",
    "better": "better",
    "within noise": "within noise",
    "same run": "unchanged",
    "first": "first",
    "not comparable": "not comparable",
}
MINUS = "−"
NONE = "–"
NAMED = 4
"""Parts that a sentence names; the report has all."""


def figure(value: float | None, *, like: float | None = None) -> str:
    """Three decimals for shares of one, two for other scales. like: the figure whose scale counts."""
    if value is None:
        return NONE
    decimals = 3 if abs(value if like is None else like) <= 1 else 2
    return f"{value:.{decimals}f}".replace("-", MINUS)


def signed(value: float | None, *, like: float) -> str:
    """A difference of figures of the scale of `like`."""
    if value is None:
        return NONE
    decimals = 3 if abs(like) <= 1 else 2
    shown = f"{value:+.{decimals}f}"
    return "±0" if float(shown) == 0 else shown.replace("-", MINUS)


def interval(measure: Measure) -> str:
    """Its 95 % interval."""
    if measure.low is None or measure.high is None:
        return NONE
    return f"{figure(measure.low, like=measure.value)} to {figure(measure.high, like=measure.value)}"


def difference_interval(change: Change) -> str:
    """The 95 % interval of the difference; none where it is not paired."""
    if change.low is None or change.high is None:
        return NONE
    return f"{signed(change.low, like=change.now.value)} to {signed(change.high, like=change.now.value)}"


def chance(p: float | None) -> str:
    """A p value."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def money(cost: float | None) -> str:
    """A cost in the currency of the prices."""
    return NONE if cost is None else f"{cost:,.4f}" if cost < 1 else f"{cost:,.2f}"


def duration(seconds: float | None) -> str:
    """How long something took."""
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def day(moment: datetime) -> str:
    """The night, as people write it."""
    return f"{moment:%Y-%m-%d}"


def count(number: int, what: str) -> str:
    """`1 model`, `2 models`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def caution(report: NightReport) -> str:
    """Number of regressions to expect from chance alone; empty where nothing was compared."""
    tested = [change for change in report.changes if change.p is not None]
    if not tested:
        return ""
    return (
        f"{count(len(tested), 'comparison')} at 95 %: were nothing worse in truth, about "
        f"{len(tested) * 0.025:.2g} would look so by chance."
    )


def sentence(report: NightReport) -> str:
    """Message of the flow run: what got worse, what is missing, what to do."""
    parts: list[str] = []
    if regressions := report.regressions:
        parts.append(f"{count(len(regressions), 'regression')}: {_few([_told(one) for one in regressions])}")
    passing = [one for one in report.failures if one.may_pass]
    lasting = [one for one in report.failures if not one.may_pass]
    if passing:
        parts.append(f"not finished: {_few([f'{one.what} ({one.why})' for one in passing])}; Retry does only these")
    if lasting:
        parts.append(f"failed for good: {_few([f'{one.what} ({one.why})' for one in lasting])}")
    return ". ".join(parts) or f"{count(len(report.scores), 'score')}, none worse beyond noise"


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
