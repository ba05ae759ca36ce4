"""The report of a run on the screen: accuracies with their intervals, gains, and the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from flows.cli.output import Screen

if TYPE_CHECKING:
    from tasks.lever.learning.lever_results import LeverReport
    from tasks.lever.learning.selector_comparison import SeedEstimate, Summary

FILES = 4
"""Most files of a folder that are named."""


def show(found: LeverReport) -> None:
    """Print accuracies with their intervals, gains, and the files."""
    screen = Screen()
    if found.summary:
        screen.print(_title(found.summary), style="bold", markup=False)
        screen.print(_accuracies(found.summary))
        for line in _gains(found.summary):
            screen.print(line)
    else:
        screen.print(f"done: {', '.join(found.stages)}")
    for note in found.notes:
        screen.print(note, style="yellow", markup=False, soft_wrap=True)
    for line in _by_folder(found.files):
        screen.print(line, style="dim", markup=False, soft_wrap=True)


def _by_folder(files: Sequence[str]) -> list[str]:
    """A line for each folder, with its first files; a file that is alone there by its whole path."""
    folders: dict[str, list[str]] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    lines: list[str] = []
    for folder, names in folders.items():
        more = f" and {len(names) - FILES} more" if len(names) > FILES else ""
        lines.append(f"{folder}/{'' if len(names) == 1 else ' '}{', '.join(names[:FILES])}{more}")
    return lines


def _title(found: Summary) -> str:
    about = found.conditions
    seeds = f"{len(found.seeds)} seed{'s' if len(found.seeds) > 1 else ''}"
    questions = max(figure.accuracy.n for figure in found.figures)
    return f"{about.dataset}, {about.sampler}, pools of {about.pool_size}, {seeds}, {questions:,} questions: accuracy"


def _accuracies(found: Summary) -> Table:
    shots = sorted({one.shots for one in found.figures})
    about = found.conditions
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("demonstrations by")
    for count in shots:
        table.add_column(f"{count} shot{'s' if count != 1 else ''}", justify="right", no_wrap=True)
        if count == about.trained_shots:
            table.add_column("95 % interval", justify="right", no_wrap=True)
    for name in dict.fromkeys(one.selector for one in found.figures):
        cells = [escape(name.replace("_", " "))]
        for count in shots:
            figure = found.figure(name, shots=count)
            bound = "≥ " if figure and figure.is_lower_bound else ""
            cells.append(f"{bound}{figure.accuracy.value:.3f}" if figure else "·")
            if count == about.trained_shots:
                cells.append(_interval(figure.accuracy) if figure else "")
        table.add_row(*cells)
    return table


def _gains(found: Summary) -> list[str]:
    shots = found.conditions.trained_shots
    lines = [
        f"{gain.better} − {gain.worse}: ".replace("_", " ")
        + f"{gain.accuracy.value:+.3f}  ({_interval(gain.accuracy)})"
        for gain in found.gains
        if gain.shots == shots
    ]
    ways = [
        f"{way.selector} is {way.share:.0%} of the way from similarity to the oracle"
        for way in found.ways
        if way.shots == shots and way.selector == "grpo"
    ]
    return lines + ways


def _interval(estimate: SeedEstimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "—"
    return f"{estimate.low:.3f} … {estimate.high:.3f}"
