"""The picture of a run: a dot per benchmark with its 95 % interval; shares of one and other scales stand apart."""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tasks.evaluation.records import Estimate, EvalReport, TaskResult
from tasks.rag.measuring.plotting import BAND, COLOURS, DOTS_PER_INCH, GRID, INK, SOFT, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN, ROW_IN, FRAME_IN = 8.4, 0.42, 0.7
LABEL_CHARS, DETAIL_CHARS, TITLE_CHARS = 36, 60, 80


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


def plot_results(report: EvalReport, format: Literal["png", "svg"] = "png") -> bytes:
    """The headlines of a run with their intervals; equal values give equal bytes."""
    bars = [_bar(result, result.headline) for result in report.results if result.headline]
    return draw(bars, title=report.run.model.name, format=format)


def draw(bars: Sequence[Bar], *, title: str, format: Literal["png", "svg"] = "png") -> bytes:
    """Bars from the top as a file of that format; none gives a picture that says so."""
    import matplotlib

    # it would say on stderr that a Korean font has no bold
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # a model may be called $\frac$
    style = STYLE | {"font.family": [STYLE["font.family"], *korean_font()], "text.parse_math": False}
    with matplotlib.rc_context(style):
        figure = _figure(bars, title)
        out = io.BytesIO()
        figure.savefig(out, format=format, dpi=DOTS_PER_INCH, metadata={"Date": None} if format == "svg" else None)
    return out.getvalue()


def _figure(bars: Sequence[Bar], title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    scales = [[bar for bar in bars if bar.is_share], [bar for bar in bars if not bar.is_share]]
    panels = [panel for panel in scales if panel] or [[]]
    height = FRAME_IN * (len(panels) + 1) + ROW_IN * max(1, len(bars))
    figure = Figure(figsize=(WIDTH_IN, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
    rows = figure.subplots(len(panels), 1, squeeze=False, height_ratios=[len(panel) + 1 for panel in panels])
    for (axes,), panel in zip(rows, panels, strict=True):
        _draw_panel(axes, panel)
    if bars:
        rows[-1][0].set_xlabel("dots: scores · lines: 95 % intervals", fontsize=8.5, color=SOFT)
    figure.suptitle(printable(title, TITLE_CHARS), x=0.015, ha="left", fontsize=13, fontweight=_weight(title))
    return figure


def _draw_panel(axes: Axes, panel: Sequence[Bar]) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_yticks(range(len(panel)), [""] * len(panel))
    axes.set_ylim(max(len(panel), 1) - 0.5, -0.5)
    if not panel:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no scores", transform=axes.transAxes, ha="center", va="center", color=SOFT)
        return
    for at, bar in enumerate(panel):
        if at % 2 == 0:
            axes.axhspan(at - 0.5, at + 0.5, color=BAND, zorder=0, linewidth=0)
        _draw_bar(axes, at, bar)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
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
    axes.annotate(
        printable(bar.label, LABEL_CHARS), (0, at), (-10, 5), ha="right", va="center", fontsize=10, color=INK, **beside
    )
    axes.annotate(
        printable(bar.detail, DETAIL_CHARS),
        (0, at),
        (-10, -7),
        ha="right",
        va="center",
        fontsize=7.5,
        color=SOFT,
        **beside,
    )
    decimals = 3 if bar.is_share else 2
    axes.annotate(f"{bar.value:.{decimals}f}", (1, at), (10, 0), ha="left", va="center", fontsize=10, **beside)


def _bar(result: TaskResult, one: Estimate) -> Bar:
    detail = f"{one.metric} · {one.n:,} items{_unscored(result.counts.unscored)}"
    return Bar(result.task, detail, one.value, one.low, one.high)


def printable(text: str, chars: int) -> str:
    """`text` on one line that a font can draw."""
    kept = "".join(sign if sign.isprintable() else " " for sign in text)
    return kept if len(kept) <= chars else f"{kept[: chars - 1]}…"


def _unscored(count: int) -> str:
    return f" · {count:,} unscored" if count else ""


def _weight(text: str) -> str:
    return "bold" if text.isascii() else "regular"  # the Korean font has no bold


@cache
def korean_font() -> tuple[str, ...]:
    """Droid Sans Fallback, which PyMuPDF carries, so that Hangul is drawn the same on every machine."""
    import atexit
    import tempfile
    from pathlib import Path

    import pymupdf
    from matplotlib.font_manager import fontManager

    with tempfile.NamedTemporaryFile(suffix=".ttf", delete=False) as file:
        file.write(pymupdf.Font("cjk").buffer)
    atexit.register(Path(file.name).unlink, missing_ok=True)  # it is read again whenever something is drawn
    fontManager.addfont(file.name)
    return ("Droid Sans Fallback",)
