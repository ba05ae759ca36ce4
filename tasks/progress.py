"""Progress of long work: steps report it, and a terminal or a status file listens.

Steps report after each item that is kept, so this is also where they end once the process was told to end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Listener = Callable[[str, int, int], None]
"""Called with a stage, the number of items newly done, and the number newly expected."""

_listeners: list[Listener] = []
_stopping = Event()


class Stopped(BaseException):
    """The process is ending; like KeyboardInterrupt, it is caught by no handler for failures of single items."""


def ends_process(error: BaseException | None) -> bool:
    """Return whether an error, or one in whose handling it was raised, ends the process as Ctrl-C or SIGTERM do.

    Prefect raises errors of its own where a signal comes between two of its steps.
    """
    from asyncio import CancelledError  # slow to import

    goes_on = isinstance(error, (Exception, CancelledError, GeneratorExit))
    return error is not None and (not goes_on or ends_process(error.__context__))


def stop() -> None:
    """End all work of this process between two items, for good: it is about to end."""
    _stopping.set()


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Call `listener` with every report of this process."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def expect(stage: str, count: int) -> None:
    """Report that `count` more items are to be done in `stage`. Raises Stopped."""
    _refuse_when_stopping()
    for listener in list(_listeners):
        listener(stage, 0, count)


def advance(stage: str, count: int = 1) -> None:
    """Report that `count` items of `stage` are done and stored. Raises Stopped."""
    for listener in list(_listeners):
        listener(stage, count, 0)
    _refuse_when_stopping()


def counted(stage: str, items: Sequence[Item]) -> Generator[Item]:
    """Yield the items, one after the other; each is reported as done before the next one is taken. Raises Stopped."""
    expect(stage, len(items))
    for item in items:
        yield item
        advance(stage)


def _refuse_when_stopping() -> None:
    if _stopping.is_set():
        raise Stopped
