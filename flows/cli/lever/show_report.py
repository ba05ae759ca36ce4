"""The report of a run on the screen: accuracies with their intervals, gains, and the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from flows.cli.output import Screen

if TYPE_CHECKING:
    from tasks.lever.learning.arena import ArenaRow
    from tasks.lever.learning.lever_results import LeverReport
    from tasks.lever.learning.selector_comparison import SeedEstimate, Summary
    from tasks.lever.learning.transfer import TransferRow

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
        if found.arena:
            screen.print(_arena(found.arena))
        if found.transfer:
            screen.print(_transfer(found.transfer))
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


def _arena(rows: Sequence[ArenaRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("way to choose", no_wrap=True)
    for name in ("accuracy", "calls", "gap closed", "95 % interval", "per 1,000 calls"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        gap = _share(row.share), _between(row.low, row.high)
        table.add_row(row.selector, f"{row.accuracy:.3f}", f"{row.calls:,}", *gap, _share(row.per_1000_calls, 2))
    return table


def _transfer(rows: Sequence[TransferRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("trained on", "measured on"):
        table.add_column(name)
    for name in ("accuracy", "over similarity", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        gain = row.over_similarity
        figures = f"{row.accuracy.value:.3f}", f"{gain.value:+.3f}", _interval(gain)
        table.add_row(escape(row.trained_on), row.measured_on, *figures)
    return table


def _share(value: float | None, places: int = 1) -> str:
    return "·" if value is None else f"{value:.{places}%}"


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1%} … {high:.1%}"


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
