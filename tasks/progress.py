"""How far long work has come: steps report, whoever shows it (a terminal, a status file) listens."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]
"""(stage, newly done, newly expected)"""

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Call `listener` with every report of this process."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def expect(stage: str, count: int) -> None:
    """`count` more items are to be done in `stage`."""
    for listener in list(_listeners):
        listener(stage, 0, count)


def advance(stage: str, count: int = 1) -> None:
    """`count` items of `stage` are done."""
    for listener in list(_listeners):
        listener(stage, count, 0)
