"""The picture of how selectors learnt: a row for each stage, a line for each seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tasks.lever.learning.selector_plot import colour, name
from tasks.lever.lever_records import CurvePoint, Stage
from tasks.measure.plot_style import GRID, INK, SOFT, TITLE_IN, Format, new_figure, save, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PANELS = {
    "loss": "loss",
    "reward_mean": "mean reward",
    "kl": "KL to where it started",
    "entropy": "entropy of the picks, nats",
}
"""Figures of a curve that are drawn, with what stands above them; the validation accuracy comes before these."""
PANEL_IN, ROW_IN, FRAME_IN = 2.7, 2.15, 0.95
SMOOTHED = 0.06
"""Share of a curve that a point of its bold line is the mean of."""
BARELY = 4
"""Points that are too few to be smoothed."""


class Training(NamedTuple):
    """One training as it is drawn."""

    stage: Stage
    seed: int
    points: Sequence[CurvePoint]
    validation: dict[int, float]
    """Epoch (0: before the first) → accuracy on the validation queries."""
    chosen_epoch: int


def draw_curves(trainings: Sequence[Training], *, about: str, format: Format = "png") -> bytes:
    """Validation accuracy by epoch and the figures of each update, stage by stage; the chosen epoch is ringed.

    about: what was trained on what, in a few words. Figures that a stage does not have are left out.
    """
    return save(lambda: _figure(trainings, about), format)


def _figure(trainings: Sequence[Training], about: str) -> Drawing:
    stages = list(dict.fromkeys(one.stage for one in trainings))
    shown = [panel for panel in PANELS if any(_known(one, panel) for one in trainings)]
    height = FRAME_IN + ROW_IN * max(1, len(stages))
    drawing = new_figure(PANEL_IN * (1 + max(1, len(shown))), height, title_in=TITLE_IN)
    rows = drawing.subplots(max(1, len(stages)), 1 + len(shown), squeeze=False)
    for row, stage in zip(rows, stages, strict=False):
        of_stage = [one for one in trainings if one.stage == stage]
        _draw_validation(row[0], of_stage)
        row[0].set_ylabel(name(stage), fontsize=11, fontweight="bold", color=colour(stage))
        for axes, panel in zip(row[1:], shown, strict=True):
            _draw_panel(axes, of_stage, panel)
    titles = ["validation accuracy", *(PANELS[panel] for panel in shown)]
    for axes, text in zip(rows[0], titles, strict=True):
        axes.set_title(text, fontsize=9.5, loc="left", color=INK)
    if not stages:
        rows[0][0].set_axis_off()
    bold = "mean of the seeds, smoothed" if len({one.seed for one in trainings}) > 1 else "smoothed"
    title(drawing, "How the selectors learnt", f"{about} · bold: {bold} · ring: the chosen epoch")
    return drawing


def _draw_validation(axes: Axes, trainings: Sequence[Training]) -> None:
    """A line per seed over epochs, the chosen epoch ringed."""
    tint = colour(trainings[0].stage)
    for one in trainings:
        epochs = sorted(one.validation)
        axes.plot(epochs, [one.validation[epoch] for epoch in epochs], color=tint, linewidth=1, alpha=0.45, zorder=2)
        if one.chosen_epoch in one.validation:
            chosen = [one.chosen_epoch], [one.validation[one.chosen_epoch]]
            axes.scatter(*chosen, s=30, facecolors="white", edgecolors=tint, linewidths=1.4, zorder=4)
    shared = sorted(set.intersection(*(set(one.validation) for one in trainings)))
    means = [math.fsum(one.validation[epoch] for one in trainings) / len(trainings) for epoch in shared]
    axes.plot(shared, means, color=tint, linewidth=2, zorder=3)
    _prepare(axes, "epoch")


def _draw_panel(axes: Axes, trainings: Sequence[Training], panel: str) -> None:
    """What each update found, faint, and the mean over seeds, smoothed; nothing where the stage does not have it."""
    tint = colour(trainings[0].stage)
    curves = [known for one in trainings if (known := _known(one, panel))]
    if not curves:
        axes.set_axis_off()
        return
    for curve in curves:
        axes.plot(list(curve), list(curve.values()), color=tint, linewidth=0.7, alpha=0.3, zorder=2)
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    means = [math.fsum(curve[step] for curve in curves) / len(curves) for step in shared]
    axes.plot(shared, _smoothed(means), color=tint, linewidth=2, zorder=3)
    _prepare(axes, "update")


def _prepare(axes: Axes, across: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(across, fontsize=8, color=SOFT, labelpad=1)


def _known(training: Training, panel: str) -> dict[int, float]:
    """Update → figure, where it is a number."""
    found = {point.step: point.figures[panel] for point in training.points if panel in point.figures}
    return {step: value for step, value in found.items() if math.isfinite(value)}


def _smoothed(values: Sequence[float]) -> list[float]:
    """Means of windows around each value, shorter at the ends."""
    half = 0 if len(values) < BARELY else max(1, round(SMOOTHED * len(values) / 2))
    windows = (values[max(0, at - half) : at + half + 1] for at in range(len(values)))
    return [math.fsum(window) / len(window) for window in windows]
