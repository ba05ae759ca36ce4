"""Plots of a run: accuracy by selector, and learning curves. Equal values give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.lever.learning.selector_comparison import Figure, SeedEstimate, Summary
from tasks.lever.lever_records import ORACLE, RANDOM, SIMILARITY, CurvePoint, Stage
from tasks.measure import plot_style as style
from tasks.measure.plot_style import BAND, COLOURS, INK, NEUTRAL, SOFT, Format, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, _ = COLOURS
LOOKS = {
    "zero_shot": ("zero-shot", NEUTRAL),
    "random": ("random", NEUTRAL),
    "similarity": ("nearest of all (RICES)", BLUE),
    "similarity_vote": ("nearest of the voted class", "#5B7BD5"),
    "mmr": ("near and diverse (MMR)", "#2A8C82"),
    "similarity_pool": ("nearest of the pool", SKY),
    "TextSimSampler": ("TextSimSampler", "#8FB3CF"),
    "ImgSimSampler": ("ImgSimSampler", "#3F6E9A"),
    "MixSampler": ("MixSampler", "#8C8C9C"),
    "similarity_class": ("nearest by class", "#7E74B8"),
    "sft": ("SFT", YELLOW),
    "rce": ("RCE", ORANGE),
    "grpo": ("RCE + GRPO", GREEN),
    "oracle": ("oracle", INK),
}
"""Selector → its name and colour in plots; others have their own names and one colour."""
WIDTH_IN, ROW_IN, FRAME_IN = 10.2, 0.42, 1.7
BAR, DOT = 0.62, 12
BESIDE: Any = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
"""Placement of text beside a point."""


def _name(figure: Figure) -> str:
    at_least = " (at least)" if figure.is_lower_bound else ""
    return LOOKS.get(figure.selector, (printable(figure.selector, 40),))[0] + at_least


def _colour(selector: str) -> str:
    return LOOKS.get(selector, ("", PINK))[1]


def draw_accuracy(summary: Summary, *, format: Format = "png") -> bytes:
    """A bar for each selector with its 95 % interval and a dot per seed; what training gains over similarity."""
    shots, shown = summary.conditions.trained_shots, summary.compared()

    def draw() -> Drawing:
        drawing = style.new_figure(WIDTH_IN, FRAME_IN + ROW_IN * max(1, len(shown)), title_in=style.TITLE_IN)
        values, gains = drawing.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for axes in (values, gains):
            style.rows(axes, [_name(figure) for figure in shown])
        _draw_values(values, shown)
        _draw_gains(gains, shown, summary, shots)
        heading = f"Accuracy with {shots} demonstration{'s' if shots != 1 else ''} chosen by each selector"
        style.title(drawing, heading, _about(summary, "lines: 95 % intervals"))
        return drawing

    return style.save(draw, format)


def _draw_values(axes: Axes, shown: Sequence[Figure]) -> None:
    for at, figure in enumerate(shown):
        one, tint = figure.accuracy, _colour(figure.selector)
        if figure.selector in (RANDOM, ORACLE):
            axes.axvline(one.value, color=tint, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
        if figure.selector == ORACLE:
            axes.barh(at, one.value, height=BAR, color="none", edgecolor=SOFT, linewidth=1, zorder=2)
        else:
            axes.barh(at, one.value, height=BAR, color=tint, alpha=0.78, linewidth=0, zorder=2)
        _draw_estimate(axes, one, at, tint=INK, text=f"{one.value:.3f}", bold=figure.selector == "grpo")
    axes.set_xlim(0, 1.12)  # room for the oracle's number
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_xlabel("accuracy")


def _draw_gains(axes: Axes, shown: Sequence[Figure], summary: Summary, shots: int) -> None:
    """What was trained against the nearest neighbours among all candidates, which are the hollow dot."""
    from matplotlib.ticker import MaxNLocator

    gains = {gain.better: gain.accuracy for gain in summary.gains if gain.shots == shots and gain.worse == SIMILARITY}
    if not gains:
        axes.set_axis_off()
        return
    for at, figure in enumerate(shown):
        tint = _colour(figure.selector)
        if one := gains.get(figure.selector):
            text = f"{one.value:+.3f}".replace("-", "−")
            _draw_estimate(axes, one, at, tint=tint, text=text, bold=figure.selector == "grpo")
            axes.scatter([one.value], [at], s=44, color=tint, zorder=4)
        elif figure.selector == SIMILARITY:
            axes.scatter([0], [at], s=44, color="white", edgecolors=tint, linewidths=1.5, zorder=4)
    axes.axvline(0, color=SOFT, linewidth=1.1, zorder=1)
    low, high = axes.get_xlim()
    axes.set_xlim(low - 0.08 * (high - low), high + 0.22 * (high - low))  # room for the numbers
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("gain over the nearest of all candidates, paired")


def _draw_estimate(axes: Axes, one: SeedEstimate, at: float, *, tint: str, text: str, bold: bool) -> None:
    """The interval, a dot per seed, and the number at its right, on the colour of its row: no line crosses it."""
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [at, at], color=tint, linewidth=1.6, solid_capstyle="butt", zorder=3)
    across = list(one.by_seed.values())
    if len(across) > 1:
        height = at + BAR / 2 - 0.12
        axes.scatter(across, [height] * len(across), s=DOT, color="white", edgecolors=INK, linewidths=0.7, zorder=4)
    behind = {"boxstyle": "round,pad=0.15", "facecolor": BAND if at % 2 == 0 else "white", "linewidth": 0}
    right = max([one.high or one.value, one.value, *across])
    weight = "bold" if bold else "regular"
    axes.annotate(text, (right, at), (8, 0), fontsize=9, fontweight=weight, bbox=behind, zorder=5, **BESIDE)


def _about(summary: Summary, lines: str) -> str:
    about, seeds = summary.conditions, len(summary.seeds)
    n = max((figure.accuracy.n for figure in summary.figures), default=0)
    of_seeds = f"{seeds} seeds" if seeds > 1 else f"seed {summary.seeds[0]}"
    return (
        f"{about.dataset} · {n:,} held-out questions, {of_seeds} · pools of {about.pool_size} by {about.sampler} · "
        f"judge {about.judge} · {lines}"
    )


PANELS = {
    "loss": "loss",
    "reward_mean": "mean reward",
    "kl": "KL to where it started",
    "entropy": "entropy of the picks, nats",
}
"""Figures of a curve that are drawn, with what stands above them; the validation accuracy comes before these."""
PANEL_IN, CURVE_ROW_IN, CURVE_FRAME_IN = 2.7, 2.15, 0.95


class Training(NamedTuple):
    """One training as it is drawn."""

    stage: Stage
    seed: int
    points: Sequence[CurvePoint]
    validation: dict[int, float]  # epoch (0: before the first) → accuracy on the validation queries
    chosen_epoch: int

    def known(self, panel: str) -> dict[int, float]:
        """Update → figure, where it is a number."""
        found = {point.step: point.figures[panel] for point in self.points if panel in point.figures}
        return {step: value for step, value in found.items() if math.isfinite(value)}


def draw_curves(trainings: Sequence[Training], *, about: str, format: Format = "png") -> bytes:
    """Validation accuracy by epoch and the figures of each update, a row for each stage, a line for each seed.

    about: a few words for the title.
    """
    stages: list[Stage] = list(dict.fromkeys(one.stage for one in trainings))
    shown = [panel for panel in PANELS if any(one.known(panel) for one in trainings)]

    def draw() -> Drawing:
        height = CURVE_FRAME_IN + CURVE_ROW_IN * max(1, len(stages))
        drawing = style.new_figure(PANEL_IN * (1 + max(1, len(shown))), height, title_in=style.TITLE_IN)
        grid = drawing.subplots(max(1, len(stages)), 1 + len(shown), squeeze=False)
        for row, stage in zip(grid, stages, strict=False):
            of_stage = [one for one in trainings if one.stage == stage]
            row[0].set_ylabel(LOOKS[stage][0], fontsize=11, fontweight="bold", color=_colour(stage))
            _draw_lines(row[0], [dict(sorted(one.validation.items())) for one in of_stage], stage, "epoch")
            for one in of_stage:
                if one.chosen_epoch in one.validation:
                    chosen: Any = {"s": 30, "facecolors": "white", "edgecolors": _colour(stage), "zorder": 4}
                    row[0].scatter([one.chosen_epoch], [one.validation[one.chosen_epoch]], **chosen)
            for axes, panel in zip(row[1:], shown, strict=True):
                if curves := [known for one in of_stage if (known := one.known(panel))]:
                    _draw_lines(axes, curves, stage, "update")
                else:  # the stage does not have the figure
                    axes.set_axis_off()
        for axes, text in zip(grid[0], ["validation accuracy", *map(PANELS.__getitem__, shown)], strict=True):
            axes.set_title(text, fontsize=9.5, loc="left", color=INK)
        if not stages:
            grid[0][0].set_axis_off()
        style.title(drawing, "How the selectors learnt", f"{about} · ring: the chosen epoch")
        return drawing

    return style.save(draw, format)


def _draw_lines(axes: Axes, curves: Sequence[Mapping[int, float]], stage: Stage, unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for curve in curves:
        axes.plot(list(curve), list(curve.values()), color=_colour(stage), linewidth=1.2, zorder=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=style.GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(unit, fontsize=8, color=SOFT, labelpad=1)
