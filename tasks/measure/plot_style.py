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
