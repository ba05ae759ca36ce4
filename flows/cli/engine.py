"""Run a flow from the command line: its Prefect API, progress bars, signals, and the outcome as a value.

Ctrl-C or SIGTERM ─► calls and programs end, steps end after the current item ─► the flow unwinds, a message is printed
After 7 s the process exits whatever still runs; everything finished has been kept by then.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from flows.cli.output import DONE_WITH_FAILURES, FAILED, INTERRUPTED, fail, harmless, state
from flows.running.command_server import has_server, prefect_api, wait_until_healthy
from flows.running.ending import end_work, listening_for_signals
from flows.running.progress_counts import counting
from flows.running.settings import settings
from flows.service.api import NotConnected, connect
from tasks.progress import ends_process

R = TypeVar("R")

TERMINATED = 143
"""Exit code after SIGTERM: 128 plus the number of the signal."""
ANSWERS_S, STEPS_S = 4.0, 3.0
"""Longest waits for answers that are under way, and then for steps, after the first signal."""


class Outcome(NamedTuple, Generic[R]):
    """The report of a run, and what it left unfinished."""

    report: R
    unfinished: str | None

    def end(self, *, has_failures: bool = False) -> None:
        """Exit with the code for unfinished work, or for work of which parts failed for good; return if all is done."""
        if self.unfinished:
            fail(self.unfinished, FAILED)
        if has_failures:
            raise typer.Exit(DONE_WITH_FAILURES)


class Terminated(BaseException):
    """The process was told to end by SIGTERM; a BaseException, so that no handler of errors swallows it."""


@contextmanager
def prefect_for_command(*, quiet: bool) -> Generator[None]:
    """Give a command that runs a flow its progress bars and a Prefect API. Raises ServerDidNotStart."""
    # the log of the flow is for workers; a command shows progress bars, and errors as sentences
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
    # Prefect's services log errors if a refused build ends before they have sent everything
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    home = settings().home
    if not os.environ.get("PREFECT_API_URL"):
        with suppress(NotConnected):
            connect(home)  # to the service, whose pages show the run
            os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")  # without which it is called dead
    with progress_bars(quiet), prefect_api(home):
        yield


def run_flow(flow: Callable[[Any], Any], config: object, *unfinished: type[Exception]) -> Outcome[Any]:
    """Run a flow and return its report; errors of `unfinished` carry one in `report`. Raises Terminated at SIGTERM."""
    wait_until_healthy(settings().home)
    from prefect.exceptions import TerminationSignal  # slow to import, while the server starts
    from prefect.settings import temporary_settings

    # nobody watches the heartbeats of a command, and its flow would wait up to a second for their thread to end
    quiet = temporary_settings({"flows.heartbeat_frequency": None}) if has_server() else nullcontext()
    with quiet, interruptible(outcome="what is finished is kept, run the same command again to go on"):
        try:
            return Outcome(flow(config), None)  # a returned state is resolved by Prefect
        except unfinished as error:
            return Outcome(getattr(error, "report"), str(error))  # noqa: B009 each of them has one
        except TerminationSignal as error:  # Prefect takes SIGTERM for itself
            raise Terminated from error


@contextmanager
def interruptible(*, outcome: str) -> Generator[None]:
    """Have Ctrl-C and SIGTERM end the command and its calls with a message. outcome: its words on the work's state."""
    first: list[int] = []
    is_told = False

    def words(number: int) -> tuple[str, int]:
        is_interrupt = (first or [number])[0] == signal.SIGINT  # a second signal changes no message
        return (f"interrupted; {outcome}", INTERRUPTED) if is_interrupt else (f"terminated; {outcome}", TERMINATED)

    def begin(number: int) -> None:
        if not first:
            first.append(number)
            end_work(answers_s=ANSWERS_S, steps_s=STEPS_S, then=exit_now)

    def exit_now() -> None:
        """Say why the command ends, unless that was said, and end the process with its exit code."""
        sentence, code = words(signal.SIGTERM)
        cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar has hidden it
        with suppress(OSError):
            os.write(2, (cursor + ("" if is_told else f"error: {harmless(sentence)}\n")).encode())
        os._exit(code)  # from a thread, where sys.exit would end that thread alone

    def end(*_: object) -> None:
        raise Terminated

    with handle_signal(signal.SIGTERM, end):
        try:
            with listening_for_signals(begin):
                yield
        except typer.Exit:  # the command has said why
            raise
        except BaseException as error:
            interrupted = _was_interrupted(error)
            if not (first or ends_process(error)):
                raise
            is_told = True
            fail(*words(signal.SIGINT if interrupted else signal.SIGTERM))


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error was raised while a KeyboardInterrupt was being handled, however deep in its chain."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _was_interrupted(error.__context__))


@contextmanager
def handle_signal(number: int, handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    """Have `handler` handle a signal while the block runs."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def progress_bars(quiet: bool) -> Generator[None]:
    """Show a bar per stage on stderr, if that is a terminal, unless `quiet`."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description:<16}"), BarColumn(), TextColumn("{task.fields[count]}"))
    bar_of, began = dict[str, TaskID](), dict[str, float]()

    def show(stage: str, completed: int, expected: int) -> None:
        """Move the bar of a stage; called in the thread of the step."""
        if starting in bars.task_ids:
            bars.remove_task(starting)
        if stage not in bar_of:
            bar_of[stage] = bars.add_task(stage, count="")
        seconds = time.monotonic() - began.setdefault(stage, time.monotonic())
        rate = f"  {completed / seconds:.1f}/s" if completed and seconds > 1 else ""
        bars.update(bar_of[stage], total=expected, completed=completed, count=f"{completed}/{expected}{rate}")

    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        starting = bars.add_task("start", total=None, count="")
        with counting(show):
            yield
