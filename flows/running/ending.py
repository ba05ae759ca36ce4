"""A process that is told to end: no model request begins any more, what is under way is kept, and then it ends.

SIGTERM ─► no further call or program ─► answers under way are stored ─► steps end after their item ─► the process ends
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
"""Longest wait for answers that are under way."""
STEPS_S = 8.0
"""Longest wait for steps to end after that; Prefect itself kills the process after 30 s."""
LOOK_S = 0.1


@contextmanager
def listening_for_signals(begin: Callable[[int], None]) -> Generator[None]:
    """Have a thread notice SIGINT and SIGTERM, whoever handles them: Prefect waits for steps in progress first."""

    def listen() -> None:
        while heard := hears.recv(1):
            if heard[0] in (signal.SIGINT, signal.SIGTERM):
                begin(heard[0])

    hears, tells = socket.socketpair()
    tells.setblocking(False)
    listener = Thread(target=listen, name="signals", daemon=True)
    listener.start()
    before = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        tells.close()
        listener.join()
        hears.close()


@contextmanager
def ending_in_order() -> Generator[None]:
    """Have SIGTERM, by which a worker cancels a run, end this process in order; without effect outside its main thread.

    Prefect interrupts the flow alone: steps in threads would ask on until the process is killed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with listening_for_signals(lambda number: _end() if number == signal.SIGTERM else None):
        yield


def _end() -> None:
    from tasks.calls import finish_asking
    from tasks.sandbox import stop_executing

    finish_asking()
    stop_executing()
    Thread(target=_end_soon, daemon=True, name="ending").start()


def _end_soon() -> None:
    from tasks import progress
    from tasks.calls import is_asking

    latest = time.monotonic() + ANSWERS_S
    while is_asking() and time.monotonic() < latest:
        time.sleep(LOOK_S)
    progress.stop()
    time.sleep(STEPS_S)
    os.kill(os.getpid(), signal.SIGKILL)  # everything finished has been kept by then
