"""Runs a flow from the command line: a server for it, a progress bar, signals, the outcome as a value.

Ctrl-C or SIGTERM ─► calls and programs end, steps end after the item at hand ─► the flow unwinds, a sentence is printed
what still runs ENDING_S later is left where it is, as `kill -9` would: everything finished has been kept by then
"""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock, Thread, Timer
from typing import Any, Generic, NamedTuple, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from flows.cli.output import INTERRUPTED, fail, harmless, state
from flows.running.settings import settings
from tasks import progress
from tasks.progress import Stopped

R = TypeVar("R")

TERMINATED = 143
"""SIGTERM: 128 and the number of the signal, as shells have it."""
ENDING_S = 7.0
"""Time to end in order after the first signal."""


class Outcome(NamedTuple, Generic[R]):
    """What a run did, and what is left to be redone."""

    report: R
    unfinished: str | None


@contextmanager
def prefect_for_a_command(errors: AbstractContextManager[None], *, quiet: bool) -> Generator[None]:
    """A Prefect API of this command's own, a bar per step, and within `errors`."""
    from flows.running.command_server import prefect_api, refuse_a_dead_server

    # the flow's own log is for workers; here the progress bar speaks, and errors come as sentences
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
    # its own services complain when a refused build ends before they have told the server everything
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    with errors, progress_bars(quiet):
        refuse_a_dead_server()
        with prefect_api(settings().home):
            yield


def run_flow(flow: Callable[[Any], Any], config: object, *unfinished: type[Exception]) -> Outcome[Any]:
    """What the flow returns; `unfinished` are errors that carry a report of what is done."""
    from flows.running.command_server import wait_until_healthy

    wait_until_healthy(settings().home)
    from prefect.exceptions import TerminationSignal

    with interruptible(left="what is finished is kept, run the same command again to go on"):
        try:
            return Outcome(flow(config), None)  # a returned state is resolved by Prefect
        except unfinished as error:
            return Outcome(getattr(error, "report"), str(error))  # noqa: B009 each of them has one
        except TerminationSignal as error:  # Prefect takes SIGTERM for itself
            raise _Terminated from error


class _Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def interruptible(*, left: str) -> Generator[None]:
    """Ctrl-C and SIGTERM end this command with a sentence, and what it waits for with it: calls and programs.

    left: how things stand then.
    """

    def end(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    ending = _Ending(left)
    try:
        with _listening_for_signals(ending):
            yield
    except (KeyboardInterrupt, _Terminated, Stopped) as error:
        ending.said = True
        fail(*ending.of(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)


class _Ending:
    """How this command ends once a signal has come."""

    def __init__(self, left: str) -> None:
        self.said = False
        self._left = left
        self._number: int | None = None

    def begin(self, number: int) -> None:
        """End what is waited for and computed, and in ENDING_S the process wherever it is then."""
        from tasks.calls import stop_asking
        from tasks.sandbox import stop_executing

        if self._number is not None:
            return
        self._number = number
        timer = Timer(ENDING_S, self._end_now)
        timer.daemon = True
        timer.start()  # nobody cancels it: what follows the flow may take long, too
        progress.stop()
        stop_asking()
        stop_executing()

    def of(self, number: int) -> tuple[str, int]:
        """The sentence and the exit code; `number` where no signal was heard."""
        if (self._number or number) == signal.SIGINT:
            return f"interrupted; {self._left}", INTERRUPTED
        return f"terminated; {self._left}", TERMINATED

    def _end_now(self) -> None:
        """End without waiting for threads, which cannot be ended otherwise."""
        sentence, code = self.of(signal.SIGTERM)
        cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar has hidden it
        with suppress(OSError):
            os.write(2, (cursor + ("" if self.said else f"error: {harmless(sentence)}\n")).encode())
        os._exit(code)


@contextmanager
def _listening_for_signals(ending: _Ending) -> Generator[None]:
    """A thread hears of both signals, whoever handles them: Prefect, told to end, waits for the steps under way."""

    def listen() -> None:
        while heard := hears.recv(1):
            if heard[0] in (signal.SIGINT, signal.SIGTERM):
                ending.begin(heard[0])

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
def progress_bars(quiet: bool) -> Generator[None]:
    """A bar per step on stderr; none when nobody watches."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description:<16}"), BarColumn(), _Count(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars, progress.listening(_Bars(bars).report):
        yield


class _Bars:
    """A bar per stage, made when the stage first reports; shards report from several threads."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._tasks: dict[str, TaskID] = {}
        self._expected: Counter[str] = Counter()
        self._starting: TaskID | None = progress.add_task("start", total=None)

    def report(self, stage: str, done: int, expected: int) -> None:
        with self._lock:
            if self._starting is not None:
                self._progress.remove_task(self._starting)
                self._starting = None
            if stage not in self._tasks:
                self._tasks[stage] = self._progress.add_task(stage, total=0)
            self._expected[stage] += expected
            self._progress.update(self._tasks[stage], total=self._expected[stage], advance=done)


class _Count(MofNCompleteColumn):
    """`3/12`; nothing while nobody knows how much there is."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.total is not None else Text()
