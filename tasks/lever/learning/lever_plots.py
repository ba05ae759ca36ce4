"""Plots of a run: accuracy by selector, and learning curves. Equal values give equal bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.lever.learning.selector_comparison import SeedEstimate, Summary
from tasks.lever.lever_records import ORACLE, SELECTED, SIMILARITY, TRAINED, Curve, TrainedSelector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

BLUE, ORANGE = "#0072B2", "#D55E00"
"""Rules, and what was trained, as in the reports of the house."""
INK, SOFT, GRID, BAND = "#1F2328", "#6B7078", "#DDE0E4", "#F5F6F8"
STYLE: Any = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that every machine draws the same
    "font.size": 9.5,
    "axes.edgecolor": SOFT,
    "text.parse_math": False,  # a model may be called $\frac$
}
DOTS_PER_INCH = 160
TITLE_CHARS, DETAIL_CHARS, NAME_CHARS = 80, 140, 40
BAR = 0.62
"""Height of a bar, as a share of its row."""


def draw_accuracy(summary: Summary) -> bytes:
    """Return a PNG with a bar, 95 % interval and dot per seed for each selector, and the gains over the best rule."""
    about, scores, count = summary.conditions, summary.compared(), len(summary.seeds)
    seeds = f"{count} seeds" if count > 1 else f"seed {summary.seeds[0]}"
    questions = max((score.accuracy.n for score in summary.figures), default=0)
    detail = (
        f"{about.dataset} · {questions:,} held-out questions, {seeds} · "
        f"pools of {about.pool_size} by {about.sampler} · judge {about.judge} · lines: 95 % intervals"
    )
    shots, rule = about.trained_shots, (summary.headline.worse if summary.headline else SIMILARITY)
    gains = {gain.better: gain.accuracy for gain in summary.gains if gain.shots == shots and gain.worse == rule}

    title = f"Accuracy with {shots} demonstration{'s' if shots != 1 else ''} chosen by each selector"
    with _save_figure(10.2, 1.7 + 0.42 * max(1, len(scores)), title=title, detail=detail) as (drawing, png):
        accuracies, differences = drawing.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        names = [
            _to_drawable(score.selector.replace("_", " "), NAME_CHARS) + (" (at least)" if score.is_lower_bound else "")
            for score in scores
        ]
        for axes in (accuracies, differences):
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
            for at in range(0, len(names), 2):
                axes.axhspan(at - 0.5, at + 0.5, color=BAND, zorder=0, linewidth=0)
            axes.grid(axis="x", color=GRID, linewidth=0.7)
            axes.set_axisbelow(True)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(length=0)
        for at, score in enumerate(scores):
            colour = ORANGE if score.selector in (*TRAINED, SELECTED) else SOFT if score.selector == ORACLE else BLUE
            accuracies.barh(at, score.accuracy.value, height=BAR, color=colour, alpha=0.6, linewidth=0, zorder=2)
            _draw_estimate(accuracies, score.accuracy, at, "{:.3f}")
            if score.selector in gains:
                _draw_estimate(differences, gains[score.selector], at, "{:+.3f}")
        accuracies.set_xlim(0, 1.12)  # room for the oracle's number
        accuracies.set_xlabel("accuracy")
        differences.margins(x=0.25)
        differences.axvline(0, color=SOFT, linewidth=1.1, zorder=1)
        differences.set_xlabel(f"gain over {rule.replace('_', ' ')}, paired")
        if not gains:
            differences.set_axis_off()
    return png.getvalue()


def _draw_estimate(axes: Axes, estimate: SeedEstimate, at: float, text: str) -> None:
    """Draw the interval, a dot per seed, and the number, written as `text` has it, at their right."""
    low, high = (estimate.value if end is None else end for end in (estimate.low, estimate.high))
    axes.plot([low, high], [at, at], color=INK, linewidth=1.6, solid_capstyle="butt", zorder=3)
    values = list(estimate.by_seed.values())
    axes.scatter(values, [at + 0.2] * len(values), s=12, color="white", edgecolors=INK, linewidths=0.7, zorder=4)
    axes.annotate(
        text.format(estimate.value).replace("-", "−"),
        (max(high, *values), at),
        (8, 0),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
    )


PANELS = {
    "loss": "loss",
    "reward_mean": "mean reward",
    "kl": "KL to where it started",
    "entropy": "entropy of the picks, nats",
}
"""Values of a curve that are drawn, with their headings; the validation accuracy comes before these."""


def draw_curves(trainings: Sequence[tuple[TrainedSelector, Curve]], *, about: str) -> bytes:
    """Return a PNG of validation accuracy by epoch and values by update, a row for each stage, a line for each seed.

    about: a few words for the title.
    """
    stages = list(dict.fromkeys(trained.stage for trained, _ in trainings))

    width, height = 2.7 * (1 + len(PANELS)), 0.95 + 2.15 * max(1, len(stages))
    detail = f"{about} · dashed: the chosen epoch"
    with _save_figure(width, height, title="How the selectors learnt", detail=detail) as (drawing, png):
        grid = drawing.subplots(max(1, len(stages)), 1 + len(PANELS), squeeze=False)
        for row, stage in zip(grid, stages, strict=False):
            row[0].set_ylabel(stage.upper(), fontweight="bold")
            for trained, curve in ((trained, curve) for trained, curve in trainings if trained.stage == stage):
                _draw_line(row[0], dict(sorted(trained.validation.items())), "epoch")
                row[0].axvline(trained.chosen_epoch, color=SOFT, linewidth=0.8, linestyle="--", zorder=1)
                for axes, panel in zip(row[1:], PANELS, strict=True):
                    values = {point.step: point.figures.get(panel, math.nan) for point in curve.points}
                    _draw_line(axes, {step: value for step, value in values.items() if math.isfinite(value)}, "update")
        for axes, text in zip(grid[0], ["validation accuracy", *PANELS.values()], strict=True):
            axes.set_title(text, fontsize=9.5, loc="left")
    return png.getvalue()


def _draw_line(axes: Axes, values: Mapping[int, float], unit: str) -> None:
    """Draw values by step into axes without frame; unit: the name of a step."""
    from matplotlib.ticker import MaxNLocator

    axes.plot(list(values), list(values.values()), color=ORANGE, linewidth=1.2, zorder=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel(unit, fontsize=8, color=SOFT)


@contextmanager
def _save_figure(
    width_in: float, height_in: float, *, title: str, detail: str
) -> Generator[tuple[Drawing, io.BytesIO]]:
    """Give a figure with a bold title and a small line of detail, and the file that is its PNG after the block."""
    import matplotlib
    from matplotlib.figure import Figure as Drawing
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout, png = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, rect=(0, 0, 1, 1 - 0.62 / height_in)), io.BytesIO()
    with matplotlib.rc_context(STYLE):
        drawing = Drawing(figsize=(width_in, height_in), layout=layout)
        place: Any = {"x": 0.012, "y": 0.985, "ha": "left", "va": "top"}
        drawing.suptitle(_to_drawable(title, TITLE_CHARS), fontsize=13, fontweight="bold", **place)
        drawing.text(s=f"\n\n{_to_drawable(detail, DETAIL_CHARS)}", fontsize=8.5, color=SOFT, **place)
        yield drawing, png
        drawing.savefig(png, format="png", dpi=DOTS_PER_INCH)


def _to_drawable(text: str, chars: int) -> str:
    """Return a text as one line, cut to so many characters, with ? for those that the font lacks."""
    line = "".join(sign if ord(sign) in _drawable_signs() and sign.isprintable() else "?" for sign in text)
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


@cache
def _drawable_signs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())
