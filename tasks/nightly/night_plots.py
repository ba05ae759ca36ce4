"""The pictures of a night: scores, changes, and each benchmark over time. Equal values give equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tasks.evaluation.results.results_file import safe_name
from tasks.measure.plot_style import (
    COLOURS,
    GRID,
    INK,
    NEUTRAL,
    SOFT,
    TITLE_IN,
    Bar,
    new_figure,
    printable,
    rows,
    save,
    title,
)
from tasks.measure.plot_style import draw as draw_bars
from tasks.nightly.night_records import Change, NightReport, Series, Trend
from tasks.nightly.night_report import figure, signed, tone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORSE, BETTER = COLOURS[1], COLOURS[2]
WIDTH_IN, ROW_IN, FRAME_IN, TREND_IN = 8.4, 0.46, 1.55, 3.7
LABEL_CHARS = 34
LEAST_GAP = 0.075
"""Smallest distance of two labels beside the lines, as a share of the height."""


def plots_of(report: NightReport) -> dict[str, bytes]:
    """PNGs by file name; a trend for each figure measured in two nights or more."""
    drawn: dict[str, bytes] = {}
    found = [(score, score.measure) for score in report.scores if score.measure]
    if bars := [
        Bar(f"{score.model} · {score.task}", f"{one.metric} · {one.n:,} items", one.value, one.low, one.high)
        for score, one in found
    ]:
        drawn["scores.png"] = draw_bars(bars, title=f"{report.night.suite}: scores of this night")
    if changes := [one for one in report.changes if one.difference is not None]:
        drawn["changes.png"] = save(lambda: _changes(changes))
    for trend in report.trends:
        if any(len(line.points) > 1 for line in trend.series):
            drawn[f"trend_{safe_name(trend.task)}.png"] = save(lambda trend=trend: _trend(trend))
    return drawn


def _figure(height: float, text: str, detail: str) -> tuple[Figure, Axes]:
    drawn = new_figure(WIDTH_IN, height, title_in=TITLE_IN)
    title(drawn, text, detail)
    return drawn, drawn.subplots()


def _changes(changes: Sequence[Change]) -> Figure:
    """A row per figure: its difference with interval."""
    drawn, axes = _figure(
        FRAME_IN + ROW_IN * len(changes),
        "Change against the last comparable night",
        "dots: differences · lines: 95 % intervals, paired by item · filled: beyond noise",
    )
    rows(axes, [printable(f"{one.of} · {one.task}", LABEL_CHARS) for one in changes])
    axes.axvline(0, color=SOFT, linewidth=1.1, zorder=1)
    for at, one in enumerate(changes):
        _draw_change(axes, at, one)
    axes.margins(x=0.12)
    return drawn


def _draw_change(axes: Axes, at: int, change: Change) -> None:
    assert change.difference is not None
    tint = {"worse": WORSE, "better": BETTER}.get(tone(change.verdict), NEUTRAL)
    if change.low is not None and change.high is not None:
        axes.plot([change.low, change.high], [at, at], color=tint, linewidth=2, solid_capstyle="round", zorder=2)
    inside = "white" if tint is NEUTRAL else tint
    axes.scatter([change.difference], [at], s=46, color=inside, edgecolors=tint, linewidths=1.6, zorder=3)
    beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
    text = signed(change.difference, like=change.now.value)
    axes.annotate(text, (1, at), (10, 0), ha="left", va="center", fontsize=10, color=tint, **beside)


def _trend(trend: Trend) -> Figure:
    """A line per model over the nights, with 95 % intervals."""
    nights = sorted({point.night for line in trend.series for point in line.points})
    places = {night: at for at, night in enumerate(nights)}
    drawn, axes = _figure(
        TREND_IN,
        trend.task,
        f"{trend.metric} · {len(nights)} nights · lines: 95 % intervals · only equal data and settings are joined",
    )
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    count = len(trend.series)
    for at, line in enumerate(trend.series):
        shift = (at - (count - 1) / 2) * min(0.06, 0.4 / count)
        _draw_line(axes, line, COLOURS[at % len(COLOURS)], [places[point.night] + shift for point in line.points])
    shown = range(0, len(nights), max(1, len(nights) // 8))
    axes.set_xticks(list(shown), [f"{nights[at]:%m-%d}\n{nights[at]:%H:%M}" for at in shown], fontsize=8)
    axes.set_xlim(-0.3, len(nights) - 0.7)
    _label(axes, trend)
    return drawn


def _draw_line(axes: Axes, line: Series, tint: str, across: Sequence[float]) -> None:
    values = [point.measure.value for point in line.points]
    for at, point in zip(across, line.points, strict=True):
        if point.measure.low is not None and point.measure.high is not None:
            ends = [point.measure.low, point.measure.high]
            axes.plot([at, at], ends, color=tint, linewidth=1.4, alpha=0.45, solid_capstyle="butt", zorder=2)
    axes.plot(across, values, "o-", color=tint, linewidth=2, markersize=5.5, markeredgecolor="white", zorder=3)


def _label(axes: Axes, trend: Trend) -> None:
    """Names and last figures to the right of the lines, spaced so that they do not overlap."""
    low, high = axes.get_ylim()
    lowest = low - (high - low)
    ends = [(line.points[-1].measure.value, at, line.label) for at, line in enumerate(trend.series)]
    for value, at, label in sorted(ends):
        height = max(value, lowest)
        lowest = height + LEAST_GAP * (high - low)
        tint = COLOURS[at % len(COLOURS)] if len(ends) > 1 else INK
        text = f"{printable(label, LABEL_CHARS)}  {figure(value)}"
        beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
        axes.annotate(text, (1, height), (8, 0), fontsize=9, color=tint, annotation_clip=False, **beside)
