"""Ways to choose demonstrations beside what their training asked the judge: the gap that 1,000 calls close.

The gap is that between similarity (nearest neighbours among all candidates) and the oracle, at the trained shots.
"""

from __future__ import annotations

from collections.abc import Mapping

from storage.records import Record
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.lever_options import ARENA
from tasks.lever.lever_records import MMR, SIMILARITY, TRAINED

PER = 1_000
"""Calls to which shares are related."""
OF_SFT, OF_RCE = ("beams", "sft"), ("beams", "sft", "rl-data", "rce")
"""Stages whose calls a selector has cost."""


class ArenaRow(Record):
    """A way to choose."""

    selector: str
    accuracy: float
    calls: int
    """Prompts that its training asked the judge about, those of the stages before among them, over all seeds."""
    share: float | None
    """Of the gap, closed; None where there is no gap."""
    low: float | None
    high: float | None
    per_1000_calls: float | None
    """The same for 1,000 calls of a seed; None without calls."""
    per_1000_low: float | None
    per_1000_high: float | None


def arena_of(summary: Summary, calls: Mapping[str, int]) -> tuple[ArenaRow, ...]:
    """A row for similarity, MMR, and all that was trained. calls: by stage over all seeds; `arena`: of all rivals."""
    shots, seeds = summary.conditions.trained_shots, len(summary.seeds)
    ways = {way.selector: way for way in summary.ways if way.shots == shots}
    rows = list[ArenaRow]()
    for name in (SIMILARITY, MMR, *TRAINED, *ARENA):
        if (figure := summary.figure(name, shots=shots)) is None:
            continue
        cost, way = _cost(name, calls), ways.get(name)
        found = (way.share, way.low, way.high) if way else (0.0, 0.0, 0.0) if name == SIMILARITY else (None,) * 3
        each = [None if one is None or not cost else one * PER * seeds / cost for one in found]
        rows.append(
            ArenaRow(
                selector=name,
                accuracy=figure.accuracy.value,
                calls=cost,
                share=found[0],
                low=found[1],
                high=found[2],
                per_1000_calls=each[0],
                per_1000_low=each[1],
                per_1000_high=each[2],
            )
        )
    return tuple(rows)


def _cost(name: str, calls: Mapping[str, int]) -> int:
    if name in (SIMILARITY, MMR):
        return 0
    if name == "sft":
        return sum(calls.get(stage, 0) for stage in OF_SFT)
    before = sum(calls.get(stage, 0) for stage in OF_RCE)
    own = {"rce": 0, "grpo": calls.get("grpo", 0)}.get(name, calls.get("arena", 0) // len(ARENA))
    return before + own
