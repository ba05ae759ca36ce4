"""Plots of a run: accuracy by selector and by shots, and learning curves. Equal values give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.lever.learning.selector_comparison import Figure, SeedEstimate, Summary
from tasks.lever.lever_records import ORACLE, RANDOM, SIMILARITY, UNTRAINED, CurvePoint, Stage
from tasks.measure.plot_style import (
    BAND,
    COLOURS,
    GRID,
    INK,
    NEUTRAL,
    SOFT,
    TITLE_IN,
    Format,
    new_figure,
    printable,
    rows,
    save,
    title,
)

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
LEAST_GAP = 0.042
"""Smallest distance of two labels at the right of lines, as a share of the height."""


def draw_accuracy(summary: Summary, *, format: Format = "png") -> bytes:
    """A bar for each selector with its 95 % interval and a dot per seed; what training gains over similarity."""
    return save(lambda: _accuracy_figure(summary, summary.conditions.trained_shots), format)


def draw_shots(summary: Summary, *, format: Format = "png") -> bytes:
    """A line for each selector over the number of demonstrations, with 95 % intervals."""
    return save(lambda: _shots_figure(summary), format)


def _look(selector: str) -> tuple[str, str]:
    return LOOKS.get(selector, (printable(selector, 40), PINK))


def _accuracy_figure(summary: Summary, shots: int) -> Drawing:
    shown = summary.compared()
    drawing = new_figure(WIDTH_IN, FRAME_IN + ROW_IN * max(1, len(shown)), title_in=TITLE_IN)
    values, gains = drawing.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for axes in (values, gains):
        rows(axes, [_label(figure) for figure in shown])
    _draw_values(values, shown)
    _draw_gains(gains, shown, summary, shots)
    shown_by = f"Accuracy with {shots} demonstration{'s' if shots != 1 else ''} chosen by each selector"
    title(drawing, shown_by, _about(summary, "lines: 95 % intervals"))
    return drawing


def _draw_values(axes: Axes, rows: Sequence[Figure]) -> None:
    for at, figure in enumerate(rows):
        one, (_, tint) = figure.accuracy, _look(figure.selector)
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


def _draw_gains(axes: Axes, rows: Sequence[Figure], summary: Summary, shots: int) -> None:
    """What was trained against the nearest neighbours among all candidates, which are the hollow dot."""
    from matplotlib.ticker import MaxNLocator

    gains = {gain.better: gain for gain in summary.gains if gain.shots == shots and gain.worse == SIMILARITY}
    for at, figure in enumerate(rows):
        _, tint = _look(figure.selector)
        if gain := gains.get(figure.selector):
            one = gain.accuracy
            text = f"{one.value:+.3f}".replace("-", "−")
            _draw_estimate(axes, one, at, tint=tint, text=text, bold=figure.selector == "grpo")
            axes.scatter([one.value], [at], s=44, color=tint, zorder=4)
        elif gains and figure.selector == SIMILARITY:
            axes.scatter([0], [at], s=44, color="white", edgecolors=tint, linewidths=1.5, zorder=4)
    if not gains:
        axes.set_axis_off()
        return
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


def _shots_figure(summary: Summary) -> Drawing:
    drawing = new_figure(8.4, 5.2, title_in=TITLE_IN)
    axes = drawing.subplots()
    _set_grid(axes)
    counts = sorted({figure.shots for figure in summary.figures})
    selectors = list(dict.fromkeys(figure.selector for figure in summary.figures))
    trained = summary.conditions.trained_shots
    if trained in counts and len(counts) > 1:
        axes.axvspan(trained - 0.14, trained + 0.14, color=BAND, zorder=0, linewidth=0)
        above: Any = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "ha": "center"}
        axes.annotate("trained for", (trained, 1), (0, 4), fontsize=8, color=SOFT, **above)
    for place, selector in enumerate(selectors):
        line = [figure for figure in summary.figures if figure.selector == selector]
        _draw_line(axes, line, shift=(place - (len(selectors) - 1) / 2) * 0.018)
    axes.set_xticks(counts)
    axes.set_xlim(min(counts) - 0.25, max(counts) + 0.2)
    axes.set_xlabel("demonstrations in the prompt")
    axes.set_ylabel("accuracy")
    _label_lines(axes, summary, last=max(counts))
    title(drawing, "Accuracy by number of demonstrations", _about(summary, "upright lines: 95 % intervals"))
    return drawing


def _draw_line(axes: Axes, line: Sequence[Figure], *, shift: float) -> None:
    """shift: so that intervals do not cover each other."""
    selector, (_, tint) = line[0].selector, _look(line[0].selector)
    across = [figure.shots + shift for figure in line]
    learnt = selector not in (*UNTRAINED, ORACLE)
    for at, figure in zip(across, line, strict=True):
        one = figure.accuracy
        if one.low is not None and one.high is not None:
            axes.plot([at, at], [one.low, one.high], color=tint, linewidth=1.1, alpha=0.75, zorder=2)
        inside = "white" if figure.is_lower_bound else tint
        size = 6.5 if learnt else 4.5
        axes.plot([at], [one.value], "o", color=tint, markersize=size, markerfacecolor=inside, zorder=5)
    style: Any = (
        {"linewidth": 2.4, "zorder": 4} if learnt else {"linewidth": 1.3, "linestyle": (0, (4, 2)), "zorder": 3}
    )
    axes.plot(across, [figure.accuracy.value for figure in line], color=tint, **style)


def _label_lines(axes: Axes, summary: Summary, *, last: int) -> None:
    """The names at the right of the lines, moved apart where they would touch; a line that ends early has its own."""
    ends = {figure.selector: figure for figure in summary.figures}  # by shots: the last one counts
    low, high = axes.get_ylim()
    gap, lowest = LEAST_GAP * (high - low), low
    for figure in sorted(ends.values(), key=lambda one: one.accuracy.value):
        across, height, away = figure.shots, figure.accuracy.value, 14
        if figure.shots == last:
            across, height, away = axes.get_xlim()[1], max(height, lowest), 4
            lowest = height + gap
        text, (_, tint) = f"{_label(figure)}  {figure.accuracy.value:.2f}", _look(figure.selector)
        axes.annotate(text, (across, height), (away, 0), fontsize=9, color=tint, **BESIDE)


def _label(figure: Figure) -> str:
    return _look(figure.selector)[0] + (" (at least)" if figure.is_lower_bound else "")


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
SMOOTHED = 0.06
"""Share of a curve that a point of its bold line is the mean of."""


class Training(NamedTuple):
    """One training as it is drawn."""

    stage: Stage
    seed: int
    points: Sequence[CurvePoint]
    validation: dict[int, float]  # epoch (0: before the first) → accuracy on the validation queries
    chosen_epoch: int


def draw_curves(trainings: Sequence[Training], *, about: str, format: Format = "png") -> bytes:
    """Validation accuracy by epoch and the figures of each update, stage by stage. about: a few words for the title."""
    return save(lambda: _figure(trainings, about), format)


def _figure(trainings: Sequence[Training], about: str) -> Drawing:
    stages = list(dict.fromkeys(one.stage for one in trainings))
    shown = [panel for panel in PANELS if any(_known(one, panel) for one in trainings)]
    height = CURVE_FRAME_IN + CURVE_ROW_IN * max(1, len(stages))
    drawing = new_figure(PANEL_IN * (1 + max(1, len(shown))), height, title_in=TITLE_IN)
    rows = drawing.subplots(max(1, len(stages)), 1 + len(shown), squeeze=False)
    for row, stage in zip(rows, stages, strict=False):
        of_stage = [one for one in trainings if one.stage == stage]
        _draw_validation(row[0], of_stage)
        label, tint = _look(stage)
        row[0].set_ylabel(label, fontsize=11, fontweight="bold", color=tint)
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
    """Accuracy over epochs; the chosen epoch of each seed is ringed."""
    curves = [dict(sorted(one.validation.items())) for one in trainings]
    _draw_curves(axes, curves, trainings[0].stage, "epoch", linewidth=1, alpha=0.45)
    for one in trainings:
        if one.chosen_epoch in one.validation:
            chosen = [one.chosen_epoch], [one.validation[one.chosen_epoch]]
            tint = _look(one.stage)[1]
            axes.scatter(*chosen, s=30, facecolors="white", edgecolors=tint, linewidths=1.4, zorder=4)


def _draw_panel(axes: Axes, trainings: Sequence[Training], panel: str) -> None:
    """A figure over updates, its mean smoothed; empty where the stage does not have the figure."""
    if curves := [known for one in trainings if (known := _known(one, panel))]:
        _draw_curves(axes, curves, trainings[0].stage, "update", linewidth=0.7, alpha=0.3, smooth=True)
    else:
        axes.set_axis_off()


def _draw_curves(
    axes: Axes, curves: Sequence[Mapping[int, float]], stage: Stage, unit: str, *, smooth: bool = False, **faint: Any
) -> None:
    """A faint line for each seed, and a bold one for their mean at the points that all of them have."""
    from matplotlib.ticker import MaxNLocator

    _, tint = _look(stage)
    for curve in curves:
        axes.plot(list(curve), list(curve.values()), color=tint, zorder=2, **faint)
    shared = sorted(set.intersection(*map(set, curves)))
    means = [math.fsum(curve[at] for curve in curves) / len(curves) for at in shared]
    axes.plot(shared, _smoothed(means) if smooth else means, color=tint, linewidth=2, zorder=3)
    _set_grid(axes)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(unit, fontsize=8, color=SOFT, labelpad=1)


def _set_grid(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def _known(training: Training, panel: str) -> dict[int, float]:
    """Update → figure, where it is a number."""
    found = {point.step: point.figures[panel] for point in training.points if panel in point.figures}
    return {step: value for step, value in found.items() if math.isfinite(value)}


def _smoothed(values: Sequence[float]) -> list[float]:
    """Means of windows around each value, shorter at the ends."""
    half = max(1, round(SMOOTHED * len(values) / 2)) if len(values) > 3 else 0
    windows = (values[max(0, at - half) : at + half + 1] for at in range(len(values)))
    return [math.fsum(window) / len(window) for window in windows]
