"""A night in words, as markdown and as a page: one report, which two templates render.

The page is one HTML file in the style of the leaderboard, without scripts and external resources.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, get_args

from storage.evaluations import Figure
from storage.incidents import Incident
from tasks.measure.page_style import Axis, axis_around, plain_markdown, render
from tasks.nightly.night_records import Change, Measure, NightReport, Point, Series, State, Trend, Verdict

PARTS = Path(__file__).parent / "page"
WORDS: dict[State, str] = {
    "Completed": "nothing got worse beyond noise",
    "CompletedWithFailures": "some parts failed, for good",
    "Failed": "some parts are missing; Retry does only these",
    "Regressed": "something got worse beyond noise, and is neither back nor accepted",
}
VERDICTS: dict[str, str] = {verdict: verdict for verdict in get_args(Verdict)} | {"same run": "unchanged"}
MARKS = {"worse": "▼ ", "drifting": "▼ ", "better": "▲ "}
FOUND = {
    "worse": "worse",
    "not back": "not back yet",
    "not comparable": "not comparable any more",
    "back": "back",
}
MINUS = "−"
NONE = "–"
NAMED = 4
MOST_SHOWN = 10
"""Number of nights of an incident in a row of the table."""
TICKS = 4
MARKED, LISTED = 60, 30
"""Most nights whose figures are marked one by one, and that are listed in a table."""
COLOURS = 7
"""Number of line colours in the style sheet; they repeat for further models."""


def tone(verdict: Verdict) -> str:
    """Class of the page for a verdict; empty without a movement."""
    return {"worse": "worse", "drifting": "worse", "better": "better"}.get(verdict, "")


def figure(value: float | None, *, like: float | None = None) -> str:
    """Three decimals up to 1, two above. like: the figure whose scale counts instead."""
    if value is None:
        return NONE
    decimals = 3 if abs(value if like is None else like) <= 1 else 2
    return f"{value:.{decimals}f}".replace("-", MINUS)


def signed(value: float | None, *, like: float) -> str:
    """A difference, with the decimals of `like`."""
    if value is None:
        return NONE
    decimals = 3 if abs(like) <= 1 else 2
    shown = f"{value:+.{decimals}f}"
    return "±0" if float(shown) == 0 else shown.replace("-", MINUS)


def interval(measure: Measure | Figure) -> str:
    if measure.low is None or measure.high is None:
        return NONE
    return f"{figure(measure.low, like=measure.value)} to {figure(measure.high, like=measure.value)}"


def difference_interval(change: Change) -> str:
    """The 95 % interval of the difference."""
    if change.low is None or change.high is None:
        return NONE
    return f"{signed(change.low, like=change.now.value)} to {signed(change.high, like=change.now.value)}"


def movement(change: Change | None) -> str:
    """The difference with a mark for its direction; a dash without one."""
    if change is None or change.difference is None:
        return NONE
    return f"{MARKS.get(change.verdict, '')}{signed(change.difference, like=change.now.value)}"


def chance(p: float | None) -> str:
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def money(cost: float | None) -> str:
    """A cost in the currency of the prices."""
    return NONE if cost is None else f"{cost:,.4f}" if cost < 1 else f"{cost:,.2f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def count(number: int, what: str) -> str:
    """`1 model`, `2 models`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def caution(report: NightReport) -> str:
    """How far changes can be believed; empty if nothing was compared."""
    tested = sum(change.p is not None for change in report.changes)
    if not tested:
        return ""
    return f"{count(tested, 'comparison')}; of those called better or worse at most 5 % are so by chance, on average."


def sentence(report: NightReport) -> str:
    """Message of the flow run: what got worse, what is missing, what to do."""
    parts: list[str] = []
    if regressions := report.regressions:
        moves: list[str] = []
        for one in regressions:
            assert one.before
            moved = f"{one.of} on {one.task} {one.before.value:.3f} → {one.now.value:.3f}"
            p = "" if one.p is None else f", p = {one.p:.3g}"
            runs = f"run {one.now.run[:8]} after {one.before.run[:8]}"
            moves.append(f"{moved} ({one.difference:+.3f}{p}; {runs})")
        parts.append(f"{count(len(regressions), 'regression')}: {_few(moves)}")
    named = {one.key for one in regressions}
    if others := [one for one in report.open_incidents if one.figure not in named]:
        parts.append(f"{count(len(others), 'open incident')}: {_few(map(incident, others))}")
    for may_pass, begin, end in ((True, "not finished", "; Retry does only these"), (False, "failed for good", "")):
        if failures := [f"{one.what} ({one.why})" for one in report.failures if one.may_pass == may_pass]:
            parts.append(f"{begin}: {_few(failures)}{end}")
    return ". ".join(parts) or f"{count(len(report.scores), 'score')}, none worse beyond noise"


def incident(one: Incident) -> str:
    """An incident in a sentence."""
    moved = f"{one.of} on {one.task} {figure(one.baseline_value)} → {figure(one.last.value)}"
    since = f"since {day(one.opened.at)}, {count(len(one.events), 'night')}"
    match one.status:
        case "accepted":
            return f"{moved}, {since}, accepted: {one.word}"
        case "back":
            return f"{moved}, {since}, back on {day(one.last.at)}"
        case "open":
            found = "slow fall" if one.kind == "drift" and len(one.events) == 1 else FOUND[one.last.found]
            return f"{moved}, {since}, {found}; incident {one.short_id}"


def _few(parts: Iterable[str]) -> str:
    listed = list(parts)
    more = f" … and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return "; ".join(listed[:NAMED]) + more


def markdown_of(report: NightReport) -> str:
    """The report as markdown; every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(PARTS),
        autoescape=False,
        finalize=lambda value: plain_markdown(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("nightly.md").render(_values(report))


def render_page(report: NightReport) -> str:
    """The HTML of a night."""
    labels = [one.label for one in report.models]
    # the axis of differences is shared by all changes and includes zero
    ends = [end for one in report.changes for end in (one.low, one.difference, one.high) if end is not None]
    scale = scale_of([0.0, *ends]) if any(ends) else Axis(-1, 1, (-1, 0, 1))
    drawn = {
        one.key: {"dot": scale.across(one.difference), "bar": scale.span(one.low, one.high)}
        for one in report.changes
        if one.difference is not None
    }
    scores = {(one.model, one.task): one for one in report.scores}
    return render(
        PARTS / "nightly.html",
        style=PARTS / "nightly.css",
        tasks=list(dict.fromkeys(score.task for score in report.scores)),
        labels=labels,
        colour=colours_of(labels),
        score=lambda label, task: scores.get((label, task)),
        whiskers={"ticks": [(scale.across(tick), tick) for tick in scale.ticks], "of": drawn},
        charts=charts_of(report.trends, report.incidents),
        **_values(report),
    )


def _values(report: NightReport) -> dict[str, Any]:
    """What both templates show; `say`: the functions of this module."""
    import sys

    changes = {one.key: one for one in report.changes}
    return {"report": report, "night": report.night, "say": sys.modules[__name__], "change": changes}


def colours_of(labels: Sequence[str]) -> dict[str, int]:
    """Label of a model → number of its colour in the style sheet."""
    return {label: at % COLOURS + 1 for at, label in enumerate(labels)}


def charts_of(trends: Iterable[Trend], incidents: Sequence[Incident]) -> list[Chart]:
    """Of the trends that have more than a point, with the incidents of each."""
    long = [trend for trend in trends if max(len(one.points) for one in trend.series) > 1]
    return [chart_of(trend, [one for one in incidents if one.task == trend.task]) for trend in long]


class Mark(NamedTuple):
    """A figure of a night on a chart; positions are per cent of width and height."""

    x: str
    y: str
    low: str | None
    high: str | None
    told: str


class Line(NamedTuple):
    label: str
    marks: tuple[Mark, ...]
    """Empty where there are too many nights to tell one from the other."""
    path: str
    """Points of a polyline in their place; positions are per cent."""
    last: Point


class Span(NamedTuple):
    """The nights of an incident on a chart; positions are per cent of the width."""

    left: str
    width: str
    open: bool
    told: str


class Chart(NamedTuple):
    """A trend with its coordinates."""

    trend: Trend
    lines: tuple[Line, ...]
    rows: tuple[tuple[str, str], ...]
    """Grid lines: position and label."""
    columns: tuple[tuple[str, str], ...]
    spans: tuple[Span, ...]
    table: tuple[tuple[datetime, tuple[Point | None, ...]], ...]
    """The figures of the last nights, the latest first, in the order of the series."""


def chart_of(trend: Trend, incidents: Sequence[Incident] = ()) -> Chart:
    """The coordinates of a trend, and of the incidents of its figures, on a chart."""
    points = [point for line in trend.series for point in line.points]
    nights = sorted({point.night for point in points})
    across = {night: f"{100 * at / max(1, len(nights) - 1):.2f}%" for at, night in enumerate(nights)}
    ends = [end for point in points for end in (point.measure.low, point.measure.value, point.measure.high)]
    scale = scale_of(end for end in ends if end is not None)
    same_day = len({night.date() for night in nights}) < len(nights)
    named = nights[:: max(1, ceil(len(nights) / 6))]
    by_night = [{point.night: point for point in line.points} for line in trend.series]
    last = len(nights) - 1
    spans: list[Span] = []
    for one in incidents:
        if not one.open and one.last.at < nights[0]:
            continue
        # from the night that opened it to its last one, or on to the end while it is open
        begin = min(bisect_left(nights, one.opened.at), last)
        end = last if one.open else max(begin, bisect_right(nights, one.last.at) - 1)
        left, right = max(0.0, begin - 0.5), min(float(last), end + 0.5)
        figures = f"{figure(one.baseline_value)} → {figure(one.last.value)}"
        told = f"{one.of}, since {day(one.opened.at)}: {figures}, {one.status}"
        spans.append(Span(f"{100 * left / last:.2f}%", f"{100 * (right - left) / last:.2f}%", one.open, told))
    return Chart(
        trend=trend,
        lines=tuple(_line(line, across=across, scale=scale) for line in trend.series),
        rows=tuple((scale.down(tick), f"{tick:g}") for tick in scale.ticks),
        columns=tuple((across[night], f"{night:%m-%d %H:%M}" if same_day else f"{night:%m-%d}") for night in named),
        spans=tuple(spans),
        table=tuple((night, tuple(line.get(night) for line in by_night)) for night in reversed(nights[-LISTED:])),
    )


def scale_of(values: Iterable[float]) -> Axis:
    """The axis around all values; it covers at least a tenth of their size."""
    ends = list(values)
    low, high = min(ends), max(ends)
    size = max(abs(low), abs(high)) or 1.0
    return axis_around(low, high, step_at_least=max(high - low, 0.1 * size) / TICKS)


def _line(line: Series, *, across: dict[datetime, str], scale: Axis) -> Line:
    def mark(point: Point) -> Mark:
        one = point.measure
        around = "" if one.low is None else f", 95 % {interval(one)}"
        return Mark(
            x=across[point.night],
            y=scale.down(one.value),
            low=None if one.low is None else scale.down(one.low),
            high=None if one.high is None else scale.down(one.high),
            told=f"{line.label} {point.night:%F %R}: {figure(one.value)}{around}, run {one.run}",
        )

    last = line.points[-1]
    if len(across) <= MARKED:
        return Line(line.label, tuple(map(mark, line.points)), "", last)
    path = " ".join(f"{across[one.night][:-1]},{scale.down(one.measure.value)[:-1]}" for one in line.points)
    return Line(line.label, (), path, last)
