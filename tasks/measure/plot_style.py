"""One style for every plot: colours, fonts, resolution, rows and grid. Equal values give equal bytes."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Format = Literal["png", "svg"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
"""Distinguishable for colour-blind readers. Source: Okabe and Ito 2008, "Color Universal Design"."""
INK, SOFT, GRID, BAND, NEUTRAL = "#1F2328", "#6B7078", "#DDE0E4", "#F5F6F8", "#8A9099"
DOTS_PER_INCH = 160
STYLE: Any = {
    "font.size": 9.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "text.parse_math": False,  # a model may be called $\frac$
    "svg.hashsalt": "trivet",  # equal figures give equal files
}
FONT = "DejaVu Sans"
"""Comes with matplotlib, so that every machine draws the same."""
LEFT, TITLE_IN = 0.012, 0.62
"""Where titles begin, as a share of the width, and the height of a title with its detail."""
TITLE_CHARS, DETAIL_CHARS = 80, 140


def save(draw: Callable[[], Figure], format: Format = "png") -> bytes:
    """The figure that `draw` makes in this style, as a file of that format."""
    import matplotlib

    # else it warns on stderr that the Korean font has no bold
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with matplotlib.rc_context(STYLE | {"font.family": [FONT, *korean_font()]}):
        figure, out = draw(), io.BytesIO()
        figure.savefig(out, format=format, dpi=DOTS_PER_INCH, metadata={"Date": None} if format == "svg" else None)
    return out.getvalue()


def new_figure(width_in: float, height_in: float, *, title_in: float = 0.0) -> Figure:
    """An empty figure whose axes fill it. title_in: the height that `title` needs, or 0 for a plain suptitle."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, rect=(0, 0, 1, 1 - title_in / height_in))
    return Figure(figsize=(width_in, height_in), layout=layout)


def title(figure: Figure, text: str, detail: str) -> None:
    """A line in bold, and a small one below it; `TITLE_IN` is their height."""
    at: Any = {"ha": "left", "va": "top"}
    figure.suptitle(printable(text, TITLE_CHARS), x=LEFT, y=0.985, fontsize=13, fontweight="bold", **at)
    figure.text(LEFT, 0.985, f"\n\n{printable(detail, DETAIL_CHARS)}", fontsize=8.5, color=SOFT, **at)


def rows(axes: Axes, labels: Sequence[str]) -> None:
    """A row for each label from the top, every other one shaded; no more lines than needed."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    for at in range(0, len(labels), 2):
        axes.axhspan(at - 0.5, at + 0.5, color=BAND, zorder=0, linewidth=0)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def printable(text: str, chars: int) -> str:
    """`text` on one line that a font can draw."""
    kept = "".join(sign if sign.isprintable() else " " for sign in text)
    return kept if len(kept) <= chars else f"{kept[: chars - 1]}…"


@cache
def korean_font() -> tuple[str, ...]:
    """Family name of the typeface for Hangul that PyMuPDF carries, so that every machine draws the same."""
    import atexit
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    import pymupdf
    from matplotlib.font_manager import fontManager, get_font, ttfFontProperty

    with tempfile.NamedTemporaryFile(suffix=".ttf", delete=False) as file:
        file.write(pymupdf.Font("cjk").buffer)
    atexit.register(Path(file.name).unlink, missing_ok=True)  # it is read again whenever something is drawn
    # under a name of its own: Debian installs another Droid Sans Fallback, without Hangul, and names decide
    entry = replace(ttfFontProperty(get_font(file.name)), name="Trivet Hangul")
    fontManager.ttflist.append(entry)
    return (entry.name,)


WIDTH_IN, ROW_IN, FRAME_IN = 8.4, 0.42, 0.7
LABELS_CHARS, DETAILS_CHARS = 36, 60


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
    label, detail = printable(bar.label, LABELS_CHARS), printable(bar.detail, DETAILS_CHARS)
    for text, up, size, colour in ((label, 5, 10, INK), (detail, -7, 7.5, SOFT)):
        axes.annotate(text, (0, at), (-10, up), ha="right", va="center", fontsize=size, color=colour, **beside)
    decimals = 3 if bar.is_share else 2
    axes.annotate(f"{bar.value:.{decimals}f}", (1, at), (10, 0), ha="left", va="center", fontsize=10, **beside)
