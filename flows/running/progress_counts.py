"""Sums of what the steps of this process report: what a terminal, the Prefect UI and the parent of a child show."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock

from tasks import progress

Counts = dict[str, list[int]]
"""Stage → [done, expected]; lists, since JSON has no tuples."""


@contextmanager
def counting(on_change: Callable[[str, int, int], object] = lambda *_: None) -> Generator[Counts]:
    """Yield the sums by stage of this process's reports, kept current. on_change: called with a stage and both sums."""
    counts: Counts = {}
    lock = Lock()

    def count(stage: str, completed: int, expected: int) -> None:
        with lock:
            before = counts.get(stage, [0, 0])
            counts[stage] = [before[0] + completed, before[1] + expected]
            on_change(stage, *counts[stage])

    with progress.listening(count):
        yield counts
