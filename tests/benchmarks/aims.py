"""The table of all benchmarks: figures beside those of peers and beside their aims, and the history of both."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

NOISE = 0.1
"""Share by which a figure may miss its aim where a row names none."""
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#B0B0B0"


class Row(NamedTuple):
    """A line of the table."""

    work: str
    ours: float | None
    """None: not measured."""
    peer: float | None
    aim: float
    at_least: bool
    """Whether more is better; else less is."""
    noise: float

    @classmethod
    def of(cls, aim: Mapping[str, Any], figures: Mapping[str, Any]) -> Row:
        """A row of aims.toml with what was measured."""
        ours, peer = figures.get(aim["ours"]), figures.get(aim.get("peer", ""))
        if "peer" in aim and peer is None:
            ours = None
        at_least = "at_least" in aim
        bound = float(aim["at_least" if at_least else "at_most"])
        return cls(aim["work"], ours, peer, bound, at_least, aim.get("noise", NOISE))

    @property
    def value(self) -> float | None:
        """What has the aim: the ratio to the peer, or the figure where there is no peer."""
        return self.ours / self.peer if self.ours is not None and self.peer else self.ours

    @property
    def share(self) -> float:
        """How much of the aim is used up: met at 1 and below; infinite where nothing was measured."""
        if self.value is None:
            return float("inf")
        return self.aim / max(self.value, 1e-9) if self.at_least else self.value / self.aim

    @property
    def failed(self) -> bool:
        """Whether the aim is missed by more than noise."""
        return self.share > 1 + self.noise

    @property
    def met(self) -> str:
        """How the aim was met, in a word."""
        if self.value is None:
            return "not run"
        return "yes" if self.share <= 1 else "no" if self.failed else "nearly"


def show_table(rows: Sequence[Row]) -> None:
    """Print all rows."""
    width = max((len(row.work) for row in rows), default=0)
    print(f"\n{'work':{width}}{'ours':>10}{'peer':>10}{'ratio':>9}{'aim':>10}  met")
    for row in rows:
        cells = (row.ours, row.peer, row.value if row.peer else None)
        ours, peer, ratio = ("–" if cell is None else f"{cell:,.3g}" for cell in cells)
        aim = f"{'≥' if row.at_least else '≤'} {row.aim:,g}"
        print(f"{row.work:{width}}{ours:>10}{peer:>10}{ratio:>9}{aim:>10}  {row.met}")


def append_history(file: Path, rows: Sequence[Row]) -> None:
    """Add what was measured to a CSV, with commit and time."""
    describe = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.check_output(describe, text=True).strip()
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines)
        if new:
            table.writerow(["commit", "time", "work", "ours", "peer", "value", "aim", "share"])
        for row in (row for row in rows if row.value is not None):
            numbers = (f"{one:.4g}" if one is not None else "" for one in (row.ours, row.peer, row.value))
            time = datetime.now(UTC).isoformat(timespec="seconds")
            table.writerow([commit, time, row.work, *numbers, f"{row.aim:g}", f"{row.share:.3f}"])


def draw_history(file: Path) -> None:
    """Draw each row's shares of its aim beside the file: the last one coloured, those of earlier commits grey."""
    import matplotlib.pyplot as plt

    by_work: dict[str, list[float]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            by_work.setdefault(line["work"], []).append(float(line["share"]))
    figure, axes = plt.subplots(figsize=(9, 1 + 0.22 * len(by_work)), layout="constrained")
    for height, (work, shares) in enumerate(reversed(by_work.items())):
        axes.plot(shares[:-1], [height] * (len(shares) - 1), ".", color=GREY)
        axes.plot(shares[-1], height, "o", color=BLUE if shares[-1] <= 1 else ORANGE, label=work)
    axes.set_yticks(range(len(by_work)), list(reversed(by_work)), fontsize=7)
    axes.axvline(1, color="black", linewidth=0.6)
    axes.set_xscale("log")
    axes.set_xlabel("share of the aim used up: met at 1 and below (coloured: last run; grey: before)", fontsize=7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(file.with_suffix(".png"), dpi=110)
    plt.close(figure)
