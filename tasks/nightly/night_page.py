"""A night as one HTML file in the style of the leaderboard, without scripts and external resources."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from storage.incidents import Incident
from tasks.measure.page_style import Axis, axis_around, render
from tasks.nightly import night_report
from tasks.nightly.night_records import Change, Curve, Curves, Dot, NightReport, Point, Series, Trend

PARTS = Path(__file__).parent / "page"
TICKS = 4
MARKED, LISTED = 60, 30
"""Most nights whose figures are marked one by one, and that are listed in a table."""
COLOURS = 7
"""Number of line colours in the style sheet; they repeat for further models."""


def render_page(report: NightReport) -> str:
    """The HTML of a night."""
    labels = [one.label for one in report.models]
    scores = {(one.model, one.task): one for one in report.scores}
    return render(
        PARTS / "nightly.html",
        style=PARTS / "nightly.css",
        report=report,
        night=report.night,
        say=night_report,
        tasks=list(dict.fromkeys(score.task for score in report.scores)),
        labels=labels,
        colour=colours_of(labels),
        score=lambda label, task: scores.get((label, task)),
        change={(one.of, one.task): one for one in report.changes},
        whiskers=_whiskers(report.changes),
        charts=charts_of(report.trends, report.incidents),
    )


def colours_of(labels: Sequence[str]) -> dict[str, int]:
    """Label of a model → number of its colour in the style sheet."""
    return {label: at % COLOURS + 1 for at, label in enumerate(labels)}


def charts_of(trends: Iterable[Trend | Curves], incidents: Sequence[Incident]) -> list[Chart]:
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
    last: Point | Dot


class Span(NamedTuple):
    """The nights of an incident on a chart; positions are per cent of the width."""

    left: str
    width: str
    open: bool
    told: str


Row = tuple[datetime, tuple[Point | Dot | None, ...]]
"""A night, and the figure of each series in it."""


class Chart(NamedTuple):
    """A trend with its coordinates."""

    trend: Trend | Curves
    lines: tuple[Line, ...]
    rows: tuple[tuple[str, str], ...]
    """Grid lines: position and label."""
    columns: tuple[tuple[str, str], ...]
    spans: tuple[Span, ...]
    table: tuple[Row, ...]
    """The figures of the last nights, the latest first, in the order of the series."""


def chart_of(trend: Trend | Curves, incidents: Sequence[Incident] = ()) -> Chart:
    """The coordinates of a trend, and of the incidents of its figures, on a chart."""
    points = [point for line in trend.series for point in line.points]
    nights = sorted({point.night for point in points})
    across = {night: f"{100 * at / max(1, len(nights) - 1):.2f}%" for at, night in enumerate(nights)}
    ends = [end for point in points for end in (point.measure.low, point.measure.value, point.measure.high)]
    scale = scale_of(end for end in ends if end is not None)
    every = max(1, ceil(len(nights) / 6))
    same_day = len({night.date() for night in nights}) < len(nights)
    return Chart(
        trend=trend,
        lines=tuple(_line(line, across=across, scale=scale) for line in trend.series),
        rows=tuple((scale.down(tick), f"{tick:g}") for tick in scale.ticks),
        columns=tuple(
            (across[night], f"{night:%m-%d %H:%M}" if same_day else f"{night:%m-%d}") for night in nights[::every]
        ),
        spans=tuple(_span(one, nights) for one in incidents if one.open or one.last.at >= nights[0]),
        table=tuple(_table(trend, nights[-LISTED:])),
    )


def _table(
    trend: Trend | Curves, nights: Sequence[datetime]
) -> Iterator[tuple[datetime, tuple[Point | Dot | None, ...]]]:
    found = [{point.night: point for point in line.points[-len(nights) :]} for line in trend.series]
    return ((night, tuple(line.get(night) for line in found)) for night in reversed(nights))


def _span(one: Incident, nights: Sequence[datetime]) -> Span:
    """From the night that opened it to its last one, or on to the end while it is open."""
    last = len(nights) - 1
    begin = min(bisect_left(nights, one.opened.at), last)
    end = last if one.open else max(begin, bisect_right(nights, one.last.at) - 1)
    left, right = max(0.0, begin - 0.5), min(float(last), end + 0.5)
    figures = f"{night_report.figure(one.baseline_value)} → {night_report.figure(one.last.value)}"
    told = f"{one.of}, since {night_report.day(one.opened.at)}: {figures}, {one.status}"
    return Span(f"{100 * left / last:.2f}%", f"{100 * (right - left) / last:.2f}%", one.open, told)


def scale_of(values: Iterable[float]) -> Axis:
    """The axis around all values; it covers at least a tenth of their size."""
    ends = list(values)
    low, high = min(ends), max(ends)
    size = max(abs(low), abs(high)) or 1.0
    return axis_around(low, high, step_at_least=max(high - low, 0.1 * size) / TICKS)


def _line(line: Series | Curve, *, across: dict[Any, str], scale: Axis) -> Line:
    def mark(point: Point | Dot) -> Mark:
        one = point.measure
        around = "" if one.low is None else f", 95 % {night_report.interval(one)}"
        return Mark(
            x=across[point.night],
            y=scale.down(one.value),
            low=None if one.low is None else scale.down(one.low),
            high=None if one.high is None else scale.down(one.high),
            told=f"{line.label} {point.night:%F %R}: {night_report.figure(one.value)}{around}, run {point.run}",
        )

    last = line.points[-1]
    if len(across) <= MARKED:
        return Line(line.label, tuple(map(mark, line.points)), "", last)
    path = " ".join(f"{across[one.night][:-1]},{scale.down(one.measure.value)[:-1]}" for one in line.points)
    return Line(line.label, (), path, last)


def _whiskers(changes: Sequence[Change]) -> dict[str, Any]:
    """Positions of the differences on the axis that all changes share and that includes zero."""
    ends = [end for one in changes for end in (one.low, one.difference, one.high) if end is not None]
    scale = scale_of([0.0, *ends]) if any(ends) else Axis(-1, 1, (-1, 0, 1))
    return {
        "ticks": [(scale.across(tick), tick) for tick in scale.ticks],
        "of": {
            (one.of, one.task): {"dot": scale.across(one.difference), "bar": scale.span(one.low, one.high)}
            for one in changes
            if one.difference is not None
        },
    }
