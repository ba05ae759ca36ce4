"""Plots of a run: accuracy by selector, and learning curves. Equal values give equal bytes."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tasks.lever.learning.selector_comparison import SeedEstimate, SelectorScore, Summary
from tasks.lever.lever_records import ORACLE, RANDOM, SIMILARITY, CurvePoint, Stage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

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
TITLE_X, TITLE_IN = 0.012, 0.62
"""Where titles begin, as a share of the width, and the height of a title with its detail."""
TITLE_CHARS, DETAIL_CHARS = 80, 140
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, _ = COLOURS
LOOKS = {
    "zero_shot": ("zero-shot", NEUTRAL),
    "random": ("random", NEUTRAL),
    "similarity": ("nearest of all (RICES)", BLUE),
    "similarity_vote": ("nearest of the voted class", "#5B7BD5"),
    "mmr": ("near and diverse (MMR)", "#2A8C82"),
    "distinct_questions": ("nearest of distinct questions", "#4C9F70"),
    "dpp": ("near and spread out (DPP)", "#6C8F3C"),
    "similarity_pool": ("nearest of the pool", SKY),
    "TextSimSampler": ("TextSimSampler", "#8FB3CF"),
    "ImgSimSampler": ("ImgSimSampler", "#3F6E9A"),
    "MixSampler": ("MixSampler", "#8C8C9C"),
    "similarity_class": ("nearest by class", "#7E74B8"),
    "sft": ("SFT", YELLOW),
    "rce": ("RCE", ORANGE),
    "grpo": ("GRPO", GREEN),
    "selected": ("what predict shows", GREEN),
    "oracle": ("oracle", INK),
}
"""Name and colour of each selector in plots; others keep their own names and share one colour."""
WIDTH_IN, ROW_IN, FRAME_IN = 10.2, 0.42, 1.7
BAR, DOT = 0.62, 12
LABEL_STYLE: Any = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
"""Placement of a label beside a point."""


def _colour(selector: str) -> str:
    return LOOKS.get(selector, ("", PINK))[1]


def draw_accuracy(summary: Summary, *, format: Format = "png") -> bytes:
    """Draw a bar for each selector with its 95 % interval and a dot per seed, and the gains over the best rule."""
    about, shots, scores = summary.conditions, summary.conditions.trained_shots, summary.compared()
    count = len(summary.seeds)
    seeds = f"{count} seeds" if count > 1 else f"seed {summary.seeds[0]}"
    n = max((score.accuracy.n for score in summary.figures), default=0)
    detail = (
        f"{about.dataset} · {n:,} held-out questions, {seeds} · "
        f"pools of {about.pool_size} by {about.sampler} · judge {about.judge} · lines: 95 % intervals"
    )
    names = [
        LOOKS.get(score.selector, (to_printable(score.selector, 40), PINK))[0]
        + (" (at least)" if score.is_lower_bound else "")
        for score in scores
    ]

    def draw() -> Drawing:
        drawing = new_figure(WIDTH_IN, FRAME_IN + ROW_IN * max(1, len(scores)), title_in=TITLE_IN)
        values, gains = drawing.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for axes in (values, gains):
            set_rows(axes, names)
        _draw_values(values, scores)
        _draw_gains(gains, scores, summary, shots)
        heading = f"Accuracy with {shots} demonstration{'s' if shots != 1 else ''} chosen by each selector"
        write_title(drawing, heading, detail)
        return drawing

    return save_figure(draw, format)


def _draw_values(axes: Axes, scores: Sequence[SelectorScore]) -> None:
    for at, score in enumerate(scores):
        estimate, tint = score.accuracy, _colour(score.selector)
        if score.selector in (RANDOM, ORACLE):
            axes.axvline(estimate.value, color=tint, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
        if score.selector == ORACLE:
            axes.barh(at, estimate.value, height=BAR, color="none", edgecolor=SOFT, linewidth=1, zorder=2)
        else:
            axes.barh(at, estimate.value, height=BAR, color=tint, alpha=0.78, linewidth=0, zorder=2)
        _draw_estimate(axes, estimate, at, tint=INK, text=f"{estimate.value:.3f}", bold=score.selector == "grpo")
    axes.set_xlim(0, 1.12)  # room for the oracle's number
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_xlabel("accuracy")


def _draw_gains(axes: Axes, scores: Sequence[SelectorScore], summary: Summary, shots: int) -> None:
    """Draw the gains of trained selectors over the strongest rule, which is the hollow dot at 0."""
    from matplotlib.ticker import MaxNLocator

    rule = summary.headline.worse if summary.headline else SIMILARITY
    gains = {gain.better: gain.accuracy for gain in summary.gains if gain.shots == shots and gain.worse == rule}
    if not gains:
        axes.set_axis_off()
        return
    for at, score in enumerate(scores):
        tint = _colour(score.selector)
        if estimate := gains.get(score.selector):
            text = f"{estimate.value:+.3f}".replace("-", "−")
            _draw_estimate(axes, estimate, at, tint=tint, text=text, bold=score.selector == "grpo")
            axes.scatter([estimate.value], [at], s=44, color=tint, zorder=4)
        elif score.selector == rule:
            axes.scatter([0], [at], s=44, color="white", edgecolors=tint, linewidths=1.5, zorder=4)
    axes.axvline(0, color=SOFT, linewidth=1.1, zorder=1)
    low, high = axes.get_xlim()
    axes.set_xlim(low - 0.08 * (high - low), high + 0.22 * (high - low))  # room for the numbers
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"gain over {LOOKS[rule][0]}, paired")


def _draw_estimate(axes: Axes, estimate: SeedEstimate, at: float, *, tint: str, text: str, bold: bool) -> None:
    """Draw the interval, a dot per seed, and the number at its right, on the colour of its row: no line crosses it."""
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [at, at], color=tint, linewidth=1.6, solid_capstyle="butt", zorder=3)
    values = list(estimate.by_seed.values())
    if len(values) > 1:
        height = at + BAR / 2 - 0.12
        axes.scatter(values, [height] * len(values), s=DOT, color="white", edgecolors=INK, linewidths=0.7, zorder=4)
    box = {"boxstyle": "round,pad=0.15", "facecolor": BAND if at % 2 == 0 else "white", "linewidth": 0}
    right = max([estimate.high or estimate.value, estimate.value, *values])
    weight = "bold" if bold else "regular"
    axes.annotate(text, (right, at), (8, 0), fontsize=9, fontweight=weight, bbox=box, zorder=5, **LABEL_STYLE)


PANELS = {
    "loss": "loss",
    "reward_mean": "mean reward",
    "kl": "KL to where it started",
    "entropy": "entropy of the picks, nats",
}
"""Values of a curve that are drawn, with their headings; the validation accuracy comes before these."""
PANEL_IN, CURVE_ROW_IN, CURVE_FRAME_IN = 2.7, 2.15, 0.95


class LearningCurve(NamedTuple):
    """The values of one training, by update and by epoch."""

    stage: Stage
    seed: int
    points: Sequence[CurvePoint]
    validation: dict[int, float]  # epoch (0: before the first) → accuracy on the validation queries
    chosen_epoch: int

    def values_of(self, panel: str) -> dict[int, float]:
        """Return the finite values of a panel, by update."""
        values = {point.step: point.figures[panel] for point in self.points if panel in point.figures}
        return {step: value for step, value in values.items() if math.isfinite(value)}


def draw_curves(trainings: Sequence[LearningCurve], *, about: str, format: Format = "png") -> bytes:
    """Draw validation accuracy by epoch and values by update, a row for each stage, a line for each seed.

    about: a few words for the title.
    """
    stages: list[Stage] = list(dict.fromkeys(training.stage for training in trainings))
    panels = [panel for panel in PANELS if any(training.values_of(panel) for training in trainings)]

    def draw() -> Drawing:
        height = CURVE_FRAME_IN + CURVE_ROW_IN * max(1, len(stages))
        drawing = new_figure(PANEL_IN * (1 + max(1, len(panels))), height, title_in=TITLE_IN)
        grid = drawing.subplots(max(1, len(stages)), 1 + len(panels), squeeze=False)
        for row, stage in zip(grid, stages, strict=False):
            of_stage = [training for training in trainings if training.stage == stage]
            row[0].set_ylabel(LOOKS[stage][0], fontsize=11, fontweight="bold", color=_colour(stage))
            _draw_lines(row[0], [dict(sorted(training.validation.items())) for training in of_stage], stage, "epoch")
            for training in of_stage:
                if training.chosen_epoch in training.validation:
                    marker: Any = {"s": 30, "facecolors": "white", "edgecolors": _colour(stage), "zorder": 4}
                    row[0].scatter([training.chosen_epoch], [training.validation[training.chosen_epoch]], **marker)
            for axes, panel in zip(row[1:], panels, strict=True):
                curves = [values for values in (training.values_of(panel) for training in of_stage) if values]
                if curves:
                    _draw_lines(axes, curves, stage, "update")
                else:  # the stage does not log this value
                    axes.set_axis_off()
        for axes, text in zip(grid[0], ["validation accuracy", *map(PANELS.__getitem__, panels)], strict=True):
            axes.set_title(text, fontsize=9.5, loc="left", color=INK)
        if not stages:
            grid[0][0].set_axis_off()
        write_title(drawing, "How the selectors learnt", f"{about} · ring: the chosen epoch")
        return drawing

    return save_figure(draw, format)


def _draw_lines(axes: Axes, curves: Sequence[Mapping[int, float]], stage: Stage, unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for curve in curves:
        axes.plot(list(curve), list(curve.values()), color=_colour(stage), linewidth=1.2, zorder=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(unit, fontsize=8, color=SOFT, labelpad=1)


def save_figure(draw: Callable[[], Drawing], format: Format = "png") -> bytes:
    """Return the figure that `draw` makes in this style, as a file of that format."""
    import matplotlib

    # else it warns on stderr that the Korean font has no bold
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with matplotlib.rc_context(STYLE | {"font.family": [FONT, *korean_font()]}):
        figure, out = draw(), io.BytesIO()
        figure.savefig(out, format=format, dpi=DOTS_PER_INCH, metadata={"Date": None} if format == "svg" else None)
    return out.getvalue()


def new_figure(width_in: float, height_in: float, *, title_in: float = 0.0) -> Drawing:
    """Return an empty figure whose axes fill it. title_in: the height that `write_title` needs, or 0 for a suptitle."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, rect=(0, 0, 1, 1 - title_in / height_in))
    return Drawing(figsize=(width_in, height_in), layout=layout)


def write_title(figure: Drawing, text: str, detail: str) -> None:
    """Write a title in bold and a small line of detail below it; `TITLE_IN` is their height."""
    alignment: Any = {"ha": "left", "va": "top"}
    figure.suptitle(to_printable(text, TITLE_CHARS), x=TITLE_X, y=0.985, fontsize=13, fontweight="bold", **alignment)
    figure.text(TITLE_X, 0.985, f"\n\n{to_printable(detail, DETAIL_CHARS)}", fontsize=8.5, color=SOFT, **alignment)


def set_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Set up a row for each label from the top, every other one shaded, without needless lines."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    for at in range(0, len(labels), 2):
        axes.axhspan(at - 0.5, at + 0.5, color=BAND, zorder=0, linewidth=0)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def to_printable(text: str, chars: int) -> str:
    """Return a text as one line that a font can draw, cut to so many characters."""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


@cache
def korean_font() -> tuple[str, ...]:
    """Register the typeface for Hangul that PyMuPDF carries, so that every machine draws the same; return its name."""
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
