"""Renders the report of a night as a sentence, as markdown and as an HTML page.

The page is one HTML file in the style of the leaderboard, without scripts and external resources.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, get_args

from storage.evaluations import RunScore
from storage.incidents import Incident
from storage.storage_errors import list_some
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
OUTCOMES = {
    "worse": "worse",
    "not back": "not back yet",
    "not comparable": "not comparable any more",
    "back": "back",
}
MINUS = "−"
NONE = "–"
MOST_NAMED = 4
"""Most entries of a list that the message of the flow run names."""
MOST_SHOWN = 10
"""Most nights of an incident that a row of the table shows."""
TICKS = 4
"""Number of steps between the ticks of an axis, at most."""
MARKED, LISTED = 60, 30
"""Most nights whose scores are marked one by one on a chart, and most nights that its table lists."""
COLOURS = 7
"""Number of line colours in the style sheet; they repeat for further models."""


def css_class(verdict: Verdict) -> str:
    """Return the CSS class for a verdict; empty without a movement."""
    return {"worse": "worse", "drifting": "worse", "better": "better"}.get(verdict, "")


def format_value(value: float | None, *, like: float | None = None) -> str:
    """Return a value with three decimals up to 1 and two above, NONE for None. like: whose size counts instead."""
    if value is None:
        return NONE
    decimals = 3 if abs(value if like is None else like) <= 1 else 2
    return f"{value:.{decimals}f}".replace("-", MINUS)


def format_difference(value: float | None, *, like: float) -> str:
    """Return a difference with its sign and the decimals of `like`; `±0` if these are all 0, NONE for None."""
    if value is None:
        return NONE
    decimals = 3 if abs(like) <= 1 else 2
    text = f"{value:+.{decimals}f}"
    return "±0" if float(text) == 0 else text.replace("-", MINUS)


def format_interval(measure: Measure | RunScore) -> str:
    """Return the 95 % interval of a score; a dash without one."""
    if measure.low is None or measure.high is None:
        return NONE
    return f"{format_value(measure.low, like=measure.value)} to {format_value(measure.high, like=measure.value)}"


def format_difference_interval(change: Change) -> str:
    """Return the 95 % interval of the difference; a dash without one."""
    if change.low is None or change.high is None:
        return NONE
    low, high = (format_difference(end, like=change.now.value) for end in (change.low, change.high))
    return f"{low} to {high}"


def format_movement(change: Change | None) -> str:
    """Return the difference with a mark for its direction; a dash without a difference."""
    if change is None or change.difference is None:
        return NONE
    return f"{MARKS.get(change.verdict, '')}{format_difference(change.difference, like=change.now.value)}"


def format_p(p: float | None) -> str:
    """Return a p-value with three decimals; a dash for None."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_cost(cost: float | None) -> str:
    """Return a cost in the currency of the prices, with four decimals below 1; a dash for None."""
    return NONE if cost is None else f"{cost:,.4f}" if cost < 1 else f"{cost:,.2f}"


def format_duration(seconds: float | None) -> str:
    """Return seconds in words, such as `12.3 s`, `4 min 05 s` or `2 h 07 min`; a dash for None."""
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_day(moment: datetime) -> str:
    """Return the date of a moment, such as `2026-03-01`."""
    return f"{moment:%Y-%m-%d}"


def count_nouns(number: int, noun: str) -> str:
    """Return a number with its noun: `1 model`, `2 models`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_caution(report: NightReport) -> str:
    """Return how far the changes of a report can be believed; empty if nothing was compared."""
    tested = sum(change.p is not None for change in report.changes)
    if not tested:
        return ""
    comparisons = count_nouns(tested, "comparison")
    return f"{comparisons}; of those called better or worse at most 5 % are so by chance, on average."


def summarise_night(report: NightReport) -> str:
    """Return the message of the flow run: what got worse, what is missing, what to do, naming MOST_NAMED of each."""
    parts: list[str] = []
    if regressions := report.regressions:
        moves: list[str] = []
        for change in regressions:
            assert change.before
            movement = f"{change.of} on {change.task} {change.before.value:.3f} → {change.now.value:.3f}"
            p = "" if change.p is None else f", p = {change.p:.3g}"
            runs = f"run {change.now.run[:8]} after {change.before.run[:8]}"
            moves.append(f"{movement} ({change.difference:+.3f}{p}; {runs})")
        parts.append(f"{count_nouns(len(regressions), 'regression')}: {list_some(moves, MOST_NAMED, separator='; ')}")
    regressed_keys = {change.key for change in regressions}
    if further := [incident for incident in report.open_incidents if incident.key not in regressed_keys]:
        incidents = list_some(map(describe_incident, further), MOST_NAMED, separator="; ")
        parts.append(f"{count_nouns(len(further), 'open incident')}: {incidents}")
    for may_pass, begin, end in ((True, "not finished", "; Retry does only these"), (False, "failed for good", "")):
        failures = [f"{failure.what} ({failure.why})" for failure in report.failures if failure.may_pass == may_pass]
        if failures:
            parts.append(f"{begin}: {list_some(failures, MOST_NAMED, separator='; ')}{end}")
    return ". ".join(parts) or f"{count_nouns(len(report.scores), 'score')}, none worse beyond noise"


def describe_incident(incident: Incident) -> str:
    """Return an incident as a sentence."""
    before, now = format_value(incident.baseline_value), format_value(incident.last.value)
    movement = f"{incident.of} on {incident.task} {before} → {now}"
    since = f"since {format_day(incident.opened.at)}, {count_nouns(len(incident.events), 'night')}"
    match incident.status:
        case "accepted":
            return f"{movement}, {since}, accepted: {incident.word}"
        case "back":
            return f"{movement}, {since}, back on {format_day(incident.last.at)}"
        case "open":
            is_new_drift = incident.kind == "drift" and len(incident.events) == 1
            outcome = "slow fall" if is_new_drift else OUTCOMES[incident.last.found]
            return f"{movement}, {since}, {outcome}; incident {incident.short_id}"


def render_markdown(report: NightReport) -> str:
    """Return the report as markdown; every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(PARTS),
        autoescape=False,  # `finalize` escapes for markdown, which HTML escapes would show
        finalize=lambda value: plain_markdown(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("nightly.md").render(_template_values(report))


def render_page(report: NightReport) -> str:
    """Return the report as an HTML page."""
    labels = [model.label for model in report.models]
    # the axis of differences is shared by all changes and includes zero
    ends = [end for change in report.changes for end in (change.low, change.difference, change.high) if end is not None]
    scale = fit_scale([0.0, *ends]) if any(ends) else Axis(-1, 1, (-1, 0, 1))  # nothing moved, or nothing was compared
    positions = {
        change.key: {"dot": scale.across(change.difference), "bar": scale.span(change.low, change.high)}
        for change in report.changes
        if change.difference is not None
    }
    scores = {(score.model, score.task): score for score in report.scores}
    return render(
        PARTS / "nightly.html",
        style=PARTS / "nightly.css",
        tasks=list(dict.fromkeys(score.task for score in report.scores)),
        labels=labels,
        colour=assign_colours(labels),
        score=lambda label, task: scores.get((label, task)),
        whiskers={"ticks": [(scale.across(tick), tick) for tick in scale.ticks], "of": positions},
        charts=draw_charts(report.trends, report.incidents),
        **_template_values(report),
    )


def _template_values(report: NightReport) -> dict[str, Any]:
    """Return the variables of both templates; `say` is this module, whose functions they call."""
    import sys

    changes = {change.key: change for change in report.changes}
    return {"report": report, "night": report.night, "say": sys.modules[__name__], "change": changes}


def assign_colours(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of each model's colour in the style sheet, by label."""
    return {label: index % COLOURS + 1 for index, label in enumerate(labels)}


def draw_charts(trends: Iterable[Trend], incidents: Sequence[Incident]) -> list[Chart]:
    """Return a chart for each trend with more than one point, with the incidents of its scores."""
    long = [trend for trend in trends if max(len(line.points) for line in trend.series) > 1]
    return [draw_chart(trend, [incident for incident in incidents if incident.task == trend.task]) for trend in long]


class Mark(NamedTuple):
    """A score of a night on a chart; positions are per cent of width and height."""

    x: str
    y: str
    low: str | None
    high: str | None
    tooltip: str


class Line(NamedTuple):
    """The scores of a model on a chart."""

    label: str
    marks: tuple[Mark, ...]
    """Marks of the single nights; empty where there are too many nights to tell them apart."""
    path: str
    """Points of a polyline in their place; positions are per cent."""
    last: Point


class Span(NamedTuple):
    """The nights of an incident on a chart; positions are per cent of the width."""

    left: str
    width: str
    open: bool
    tooltip: str


class Chart(NamedTuple):
    """A trend with the coordinates of its lines, grid and incidents."""

    trend: Trend
    lines: tuple[Line, ...]
    rows: tuple[tuple[str, str], ...]
    """Horizontal grid lines: position and label."""
    columns: tuple[tuple[str, str], ...]
    spans: tuple[Span, ...]
    table: tuple[tuple[datetime, tuple[Point | None, ...]], ...]
    """The scores of the last nights, the latest night first, in the order of the series."""


def draw_chart(trend: Trend, incidents: Sequence[Incident] = ()) -> Chart:
    """Return the coordinates of a trend of two nights or more, and of the incidents that had not ended before them."""
    points = [point for line in trend.series for point in line.points]
    nights = sorted({point.night for point in points})
    across = {night: f"{100 * index / max(1, len(nights) - 1):.2f}%" for index, night in enumerate(nights)}
    ends = [end for point in points for end in (point.measure.low, point.measure.value, point.measure.high)]
    scale = fit_scale(end for end in ends if end is not None)
    same_day = len({night.date() for night in nights}) < len(nights)  # then the hours tell them apart
    labelled = nights[:: max(1, ceil(len(nights) / 6))]
    by_night = [{point.night: point for point in line.points} for line in trend.series]
    last = len(nights) - 1
    spans: list[Span] = []
    for incident in incidents:
        if not incident.open and incident.last.at < nights[0]:
            continue
        # from the night that opened it to its last one, or on to the end while it is open
        begin = min(bisect_left(nights, incident.opened.at), last)
        end = last if incident.open else max(begin, bisect_right(nights, incident.last.at) - 1)
        left, right = max(0.0, begin - 0.5), min(float(last), end + 0.5)
        scores = f"{format_value(incident.baseline_value)} → {format_value(incident.last.value)}"
        tooltip = f"{incident.of}, since {format_day(incident.opened.at)}: {scores}, {incident.status}"
        spans.append(Span(f"{100 * left / last:.2f}%", f"{100 * (right - left) / last:.2f}%", incident.open, tooltip))
    return Chart(
        trend=trend,
        lines=tuple(_draw_line(line, across=across, scale=scale) for line in trend.series),
        rows=tuple((scale.down(tick), f"{tick:g}") for tick in scale.ticks),
        columns=tuple((across[night], f"{night:%m-%d %H:%M}" if same_day else f"{night:%m-%d}") for night in labelled),
        spans=tuple(spans),
        table=tuple((night, tuple(line.get(night) for line in by_night)) for night in reversed(nights[-LISTED:])),
    )


def fit_scale(values: Iterable[float]) -> Axis:
    """Return the axis around all values, one or more, which covers at least a tenth of their size."""
    ends = list(values)
    low, high = min(ends), max(ends)
    size = max(abs(low), abs(high)) or 1.0
    return axis_around(low, high, step_at_least=max(high - low, 0.1 * size) / TICKS)


def _draw_line(line: Series, *, across: dict[datetime, str], scale: Axis) -> Line:
    """Return the marks of a model's scores, or of more than MARKED nights their path alone."""

    def mark(point: Point) -> Mark:
        """Return the point of a night on the chart, with its 95 % interval, if there is one, and its tooltip."""
        measure = point.measure
        interval = "" if measure.low is None else f", 95 % {format_interval(measure)}"
        return Mark(
            x=across[point.night],
            y=scale.down(measure.value),
            low=None if measure.low is None else scale.down(measure.low),
            high=None if measure.high is None else scale.down(measure.high),
            tooltip=f"{line.label} {point.night:%F %R}: {format_value(measure.value)}{interval}, run {measure.run}",
        )

    last = line.points[-1]
    if len(across) <= MARKED:
        return Line(line.label, tuple(map(mark, line.points)), "", last)
    path = " ".join(f"{across[point.night][:-1]},{scale.down(point.measure.value)[:-1]}" for point in line.points)
    return Line(line.label, (), path, last)
