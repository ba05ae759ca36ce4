"""The picture of a sweep: a row per search strategy, a colour per chunking, bars for the 95 % intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tasks.measure.plot_style import COLOURS, LEFT, SOFT, Format, new_figure, rows, save
from tasks.rag.measuring.ranking_metrics import Mean
from tasks.rag.measuring.sweep import DECIDING, Chunking, Compared, Point, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P", "X")
WIDTH_IN, ROW_IN, FRAME_IN = 9.6, 0.2, 1.9


def draw_sweep(compared: Compared, format: Format) -> bytes:
    """The figure as a file of that format; equal values give equal bytes."""
    return save(lambda: _figure(compared), format)


class _Layout(NamedTuple):
    """Which row and which colour a point has."""

    searches: list[str]
    """Rows from the top, the one with the best point first."""
    chunkings: list[Chunking]

    def height(self, point: Point) -> float:
        """Where the point stands: within the row of its search, a step per chunking."""
        step = 0.72 / len(self.chunkings)
        return self.searches.index(point.search_name) + step * (self.style(point) - (len(self.chunkings) - 1) / 2)

    def style(self, point: Point) -> int:
        return self.chunkings.index(point.chunking)


def _figure(compared: Compared) -> Figure:
    points = [row.swept.point for row in compared.rows]
    layout = _Layout(
        searches=list(dict.fromkeys(point.search_name for point in points)),
        chunkings=sorted(
            dict.fromkeys(point.chunking for point in points), key=lambda one: (-one.chunk_chars, one.overlap_chars)
        ),
    )
    rows_in = ROW_IN * len(layout.searches) * (len(layout.chunkings) + 1)
    figure = new_figure(WIDTH_IN, FRAME_IN + max(rows_in, 0.8))
    values, differences = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for axes in (values, differences):
        rows(axes, layout.searches)
    for row in compared.rows:
        _draw(values, row.value, row, layout)
        _label(values, row, layout)
        if row.difference:
            _draw(differences, row.difference, row, layout)
    _name(figure, values, differences, compared)
    _explain(figure, compared, layout)
    return figure


def _draw(axes: Axes, mean: Mean, row: Row, layout: _Layout) -> None:
    """A dot with its interval; hollow for the point that the others are compared with."""
    style = layout.style(row.swept.point)
    colour = COLOURS[style % len(COLOURS)]
    around = [[max(mean.value - mean.low, 0)], [max(mean.high - mean.value, 0)]]
    axes.errorbar(
        mean.value,
        layout.height(row.swept.point),
        xerr=around,
        fmt=MARKERS[style % len(MARKERS)],
        color=colour,
        markerfacecolor=colour if row.difference else "white",
        markeredgewidth=1.4,
        markersize=6,
        elinewidth=1.6,
        capsize=0,
    )


def _label(axes: Axes, row: Row, layout: _Layout) -> None:
    """The value, right of its interval."""
    at = (row.value.high, layout.height(row.swept.point))
    axes.annotate(f"{row.value.value:.3f}", at, (5, 0), textcoords="offset points", va="center", fontsize=8, color=SOFT)


def _name(figure: Figure, values: Axes, differences: Axes, compared: Compared) -> None:
    """Title and axes."""
    measured = f"{compared.unit} {DECIDING.replace('mrr', 'MRR')}"
    values.set_xlabel(measured)
    values.margins(x=0.12)  # room for the labels
    differences.set_xlabel("difference to the hollow one, paired by question")
    differences.axvline(0, color=SOFT, linewidth=1.1, zorder=1)
    title = f"{measured[0].upper()}{measured[1:]} by search and chunking"
    figure.suptitle(title, x=LEFT, ha="left", fontsize=13, fontweight="bold")


def _explain(figure: Figure, compared: Compared, layout: _Layout) -> None:
    """A legend below: the colours, and what dots and bars are."""
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=COLOURS[at % len(COLOURS)], marker=MARKERS[at % len(MARKERS)], linewidth=1.6, markersize=6)
        for at in range(len(layout.chunkings))
    ]
    names = [f"chunks of {one.chunk_chars:,} characters, {one.overlap_chars} shared" for one in layout.chunkings]
    evaluation = compared.rows[0].swept.evaluation
    asked = evaluation.paged if compared.unit == "page" else evaluation.n
    figure.legend(
        keys,
        names,
        loc="outside lower left",
        ncols=min(len(names), 3),
        frameon=False,
        title=f"{asked:,} questions; dots are means, bars 95 % bootstrap intervals, hollow is {compared.baseline.name}",
        alignment="left",
        title_fontsize=9,
        fontsize=9,
    )
