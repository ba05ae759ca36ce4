"""Scores with their 95 % intervals, a dot for each; shares of one and other scales stand in panels of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.measure.plot_style import COLOURS, INK, LEFT, SOFT, TITLE_CHARS, new_figure, printable, rows, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN, ROW_IN, FRAME_IN = 8.4, 0.42, 0.7
LABEL_CHARS, DETAIL_CHARS = 36, 60


class Bar(NamedTuple):
    """A figure as it is drawn."""

    label: str
    detail: str
    """Small, below the label: metric and number of items."""
    value: float
    low: float | None
    high: float | None

    @property
    def is_share(self) -> bool:
        """It stands on the scale from 0 to 1."""
        return all(0 <= end <= 1 for end in (self.value, self.low, self.high) if end is not None)


def draw(bars: Sequence[Bar], *, title: str) -> bytes:
    """A PNG of the bars from the top; without bars a picture that says so."""
    return save(lambda: _figure(bars, title))


def _figure(bars: Sequence[Bar], title: str) -> Figure:
    scales = [[bar for bar in bars if bar.is_share], [bar for bar in bars if not bar.is_share]]
    panels = [panel for panel in scales if panel] or [[]]
    height = FRAME_IN * (len(panels) + 1) + ROW_IN * max(1, len(bars))
    figure = new_figure(WIDTH_IN, height)
    subplots = figure.subplots(len(panels), 1, squeeze=False, height_ratios=[len(panel) + 1 for panel in panels])
    for (axes,), panel in zip(subplots, panels, strict=True):
        _draw_panel(axes, panel)
    if bars:
        subplots[-1][0].set_xlabel("dots: scores · lines: 95 % intervals", fontsize=8.5, color=SOFT)
    weight = "bold" if title.isascii() else "regular"  # the Korean font has no bold
    figure.suptitle(printable(title, TITLE_CHARS), x=LEFT, ha="left", fontsize=13, fontweight=weight)
    return figure


def _draw_panel(axes: Axes, panel: Sequence[Bar]) -> None:
    rows(axes, [""] * len(panel))
    if not panel:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no scores", transform=axes.transAxes, ha="center", va="center", color=SOFT)
        return
    for at, bar in enumerate(panel):
        _draw_bar(axes, at, bar)
    if all(bar.is_share for bar in panel):
        axes.set_xlim(0, 1)
    else:
        axes.margins(x=0.12)  # room for the numbers


def _draw_bar(axes: Axes, at: int, bar: Bar) -> None:
    """A dot with its interval, its name at the left, its value at the right."""
    around: Any = None
    if bar.low is not None and bar.high is not None:
        around = [[max(bar.value - bar.low, 0)], [max(bar.high - bar.value, 0)]]
    axes.errorbar(bar.value, at, xerr=around, fmt="o", color=COLOURS[0], markersize=6.5, elinewidth=1.8, clip_on=False)
    beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
    label, detail = printable(bar.label, LABEL_CHARS), printable(bar.detail, DETAIL_CHARS)
    for text, up, size, colour in ((label, 5, 10, INK), (detail, -7, 7.5, SOFT)):
        axes.annotate(text, (0, at), (-10, up), ha="right", va="center", fontsize=size, color=colour, **beside)
    decimals = 3 if bar.is_share else 2
    axes.annotate(f"{bar.value:.{decimals}f}", (1, at), (10, 0), ha="left", va="center", fontsize=10, **beside)
