"""Lines with their axes as pages draw them in SVG; every place is per cent of width and height."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from tasks.measure.page_style import Axis, axis_around

COLOURS = 7
"""Colours of lines in the style sheet; they repeat."""
TICKS, MOST_POINTS = 4, 200


class Line(NamedTuple):
    label: str
    colour: int
    points: str
    """Places in per cent, as SVG wants them: `0,12.5 50,80`."""
    last: float


class Plot(NamedTuple):
    """Lines with their axes; places of ticks are per cent."""

    name: str
    lines: tuple[Line, ...]
    rows: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]


def plot_of(name: str, lines: Mapping[str, Sequence[tuple[float, float]]], *, whole: bool = False) -> Plot | None:
    """A plot of lines of (x, y); None without any. whole: x counts whole things, each with a tick."""
    if not lines:
        return None
    xs, ys = ([at[axis] for line in lines.values() for at in line] for axis in (0, 1))
    low, high = min(xs), max(xs)
    scale = axis_around(min(ys), max(ys), step_at_least=max(max(ys) - min(ys), 1e-9) / TICKS)
    ticks = sorted({*xs}) if whole else [low, high]

    def across(x: float) -> float:
        return 100 * (x - low) / (high - low or 1)

    return Plot(
        name,
        tuple(
            Line(label, at % COLOURS + 1, _points(_thinned(line), across, scale), line[-1][1])
            for at, (label, line) in enumerate(lines.items())
        ),
        tuple((scale.down(tick), f"{tick:g}") for tick in scale.ticks),
        tuple((f"{across(tick):.2f}%", f"{tick:g}") for tick in ticks),
    )


def _points(line: Sequence[tuple[float, float]], across: Callable[[float], float], scale: Axis) -> str:
    return " ".join(f"{across(x):.2f},{scale.down(y)[:-1]}" for x, y in line)


def _thinned(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS points: means of what lies side by side."""
    each = -(-len(line) // MOST_POINTS)
    groups = [line[at : at + each] for at in range(0, len(line), each)]
    return [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups]
