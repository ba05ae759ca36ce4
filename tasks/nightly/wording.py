"""Figures and ends of a night as reports write them, in markdown and on the page alike."""

from __future__ import annotations

from datetime import datetime

from tasks.nightly.records import Change, Measure, NightReport, State

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
    """What so many comparisons find by chance alone; empty where nothing was compared."""
    tested = [change for change in report.changes if change.p is not None]
    if not tested:
        return ""
    return (
        f"{count(len(tested), 'comparison')} at 95 %: were nothing worse in truth, about "
        f"{len(tested) * 0.025:.2g} would look so by chance."
    )
