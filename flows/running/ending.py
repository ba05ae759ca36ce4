"""A process that is told to end: no model request begins any more, what is done is kept, and then it ends.

SIGINT, SIGTERM ─► no further call or program ─► answers under way are stored ─► steps end after their item ─► the end
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Thread

ANSWERS_S = 15.0
"""Longest wait of a worker's process for answers that are under way."""
STEPS_S = 8.0
"""Longest wait for steps to end after that; Prefect itself kills the process after 30 s."""
LOOK_S = 0.1


@contextmanager
def listening_for_signals(begin: Callable[[int], None]) -> Generator[None]:
    """Have a thread notice SIGINT and SIGTERM, whoever handles them: Prefect waits for steps in progress first."""

    def listen() -> None:
        while signals := reader.recv(1):
            if signals[0] in (signal.SIGINT, signal.SIGTERM):
                begin(signals[0])

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    listener = Thread(target=listen, name="signals", daemon=True)
    listener.start()
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        listener.join()
        reader.close()


@contextmanager
def ending_in_order() -> Generator[None]:
    """Have SIGTERM, by which a worker cancels a run, end this process in order; without effect outside its main thread.

    Prefect interrupts the flow alone: steps in threads would ask on until the process is killed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def begin(number: int) -> None:
        if number == signal.SIGTERM:
            end_run()

    with listening_for_signals(begin):
        yield


def end_run() -> None:
    """End the process of a run in order: its answers under way are stored, and nothing else is asked."""
    end_work(answers_s=ANSWERS_S, steps_s=STEPS_S, then=lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_work(*, answers_s: float, steps_s: float, then: Callable[[], object]) -> None:
    """Begin no call or program any more, and call `then` when answers and steps under way have had their time.

    Everything finished has been kept when `then` is called.
    """
    from tasks import progress
    from tasks.calls import is_asking, stop_asking
    from tasks.sandbox import stop_executing

    def end() -> None:
        latest = time.monotonic() + answers_s
        while is_asking() and time.monotonic() < latest:
            time.sleep(LOOK_S)
        progress.stop()
        time.sleep(steps_s)
        then()

    stop_asking()
    stop_executing()
    Thread(target=end, daemon=True, name="ending").start()
