"""A process that is told to end: no model request begins any more, what is done is kept, and then it ends.

SIGINT, SIGTERM ─► no further call or program ─► answers under way are stored ─► steps end after their item ─► the end
a run that is lost: deleted, or begun again elsewhere, as its process was suspended ─► the same
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
FRESH_S = 0.2
"""Age up to which the server's word that a run is this process's holds for a request."""
LEASE_S = 60.0
"""Longest time without that word in which requests are sent: after twice as long a run is given to another process."""
RENEWAL_S = 5.0
"""Seconds between two questions of a run that sends no requests."""


class ServerAway(Exception):
    """The server did not say whose a run is."""


class Lease:
    """The right of this process to work for a run, which the server confirms before each request to a model."""

    def __init__(
        self,
        count_begins: Callable[[], int | None],
        *,
        lose: Callable[[], object],
        clocks: tuple[Callable[[], float], ...] = (time.monotonic, time.time),
    ) -> None:
        """Take the run that runs now.

        count_begins: how often a process has begun the run; None where it is not running. Raises ServerAway.
        lose: called once, when another process has begun the run, or nobody runs it.
        clocks: the longest time that one of them shows has passed: the first stands still while a machine sleeps.
        """
        self._count_begins, self._lose, self._clocks = count_begins, lose, clocks
        self._asking = threading.Lock()
        self._begins: int | None = None
        self._looked = self._renewed = self._now()
        self._renew()

    def confirm(self) -> None:
        """Return once requests may be sent, or the run is lost; the server is waited for after `LEASE_S`."""
        from tasks.calls import has_stopped

        with self._asking:
            while self._since(self._looked) > FRESH_S or self._since(self._renewed) > LEASE_S:
                if self._renew() or self._since(self._renewed) <= LEASE_S or has_stopped():
                    return
                time.sleep(LOOK_S)

    def _renew(self) -> bool:
        """Ask the server, and call `lose` where the run is no longer ours; return whether it has answered."""
        try:
            begins = self._count_begins()
        except ServerAway:
            return False
        finally:
            self._looked = self._now()
        self._renewed = self._looked
        self._begins = self._begins or begins
        if begins != self._begins or begins is None:
            self._lose()
        return True

    def _now(self) -> tuple[float, ...]:
        return tuple(clock() for clock in self._clocks)

    def _since(self, then: tuple[float, ...]) -> float:
        return max(abs(now - before) for now, before in zip(self._now(), then, strict=True))


@contextmanager
def holding_run(count_begins: Callable[[], int | None]) -> Generator[None]:
    """Send no request, and end this process, as soon as the run is no longer its own. count_begins: see Lease.

    A flow that fails meanwhile must not tell the server so, as the run may be another's: the main thread waits.
    """
    from tasks.calls import confirming, has_stopped, stop_asking

    ended = threading.Event()

    def lose() -> None:
        """End this process, which has lost its run, once its answers under way have come."""
        if not (ended.is_set() or has_stopped()):  # the former: the server has heard of the end
            stop_asking()
            if in_main_thread:
                os.kill(os.getpid(), signal.SIGUSR1)
            # a worker calls a run crashed whose process ends otherwise, and the run may be under way elsewhere
            end_work(answers_s=ANSWERS_S, steps_s=0, then=lambda: os._exit(0))

    def renew() -> None:
        while not ended.wait(RENEWAL_S):
            lease.confirm()

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread:
        signal.signal(signal.SIGUSR1, lambda *_: ended.wait())
    lease = Lease(count_begins, lose=lose)
    Thread(target=renew, daemon=True, name="lease").start()
    try:
        with confirming(lease.confirm):
            yield
    finally:
        ended.set()


@contextmanager
def listening_for_signals(begin: Callable[[int], None]) -> Generator[None]:
    """Have a thread call `begin` with each SIGINT and SIGTERM, whoever handles them: Prefect waits for steps first."""

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
        if number == signal.SIGTERM:  # answers under way are stored, and nothing else is asked
            end_work(answers_s=ANSWERS_S, steps_s=STEPS_S, then=lambda: os.kill(os.getpid(), signal.SIGKILL))

    with listening_for_signals(begin):
        yield


def end_work(*, answers_s: float, steps_s: float, then: Callable[[], object]) -> None:
    """Begin no call or program any more, and call `then` when answers and steps under way have had their time.

    It returns at once. Everything finished has been kept when `then` is called, in a thread.
    """
    from tasks import progress
    from tasks.calls import is_asking, stop_asking
    from tasks.sandbox import stop_executing

    def end() -> None:
        """Wait for answers at most `answers_s` seconds, then `steps_s` seconds more, and call `then`."""
        latest = time.monotonic() + answers_s
        while is_asking() and time.monotonic() < latest:
            time.sleep(LOOK_S)
        progress.stop()
        time.sleep(steps_s)
        then()

    stop_asking()
    stop_executing()
    Thread(target=end, daemon=True, name="ending").start()
