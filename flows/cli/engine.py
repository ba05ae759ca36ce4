"""Run a flow from the command line: its Prefect API, progress bars, signals, and the outcome as a value.

Ctrl-C or SIGTERM ─► calls and programs end, steps end after the current item ─► the flow unwinds, a message is printed
After 7 s the process exits whatever still runs; everything finished has been kept by then.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from threading import Lock
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from flows.cli.output import INTERRUPTED, fail, harmless, plain_errors, state
from flows.running.ending import end_work, listening_for_signals
from flows.running.settings import ClusterUnusable, settings
from models.model_errors import ModelError
from storage.storage_errors import IndexUnusable, StorageError
from tasks import progress
from tasks.budget import BudgetSpent
from tasks.documents.document_errors import ReaderUnusable
from tasks.evaluation import evaluation_errors as of_evaluation
from tasks.lever import lever_errors as of_lever
from tasks.progress import Stopped
from tasks.rag import rag_errors as of_rag

R = TypeVar("R")

TERMINATED = 143
"""Exit code after SIGTERM: 128 plus the number of the signal."""
ANSWERS_S, STEPS_S = 4.0, 3.0
"""Longest waits for answers that are under way, and then for steps, after the first signal."""


class Outcome(NamedTuple, Generic[R]):
    """The report of a run, and what it left unfinished."""

    report: R
    unfinished: str | None


@contextmanager
def expected_errors() -> Generator[None]:
    """Expected errors of the flows, as one sentence: a request that is refused, or work that failed."""
    from flows.running.command_server import ServerDidNotStart
    from tasks.grading.grading_records import GradingError, TemplateUnusable
    from tasks.rag.numbers.concepts import ConceptsUnusable
    from tasks.sandbox.sandbox_errors import LanguageUnavailable, SandboxError, UnsafeCodeRefused

    documents = (
        of_rag.FolderUnusable,
        of_rag.MetadataUnusable,
        of_rag.QuestionsUnusable,
        ReaderUnusable,
        ConceptsUnusable,
    )
    options = (of_evaluation.OptionUnusable, of_evaluation.UnknownTask, of_lever.OptionUnusable)
    data = (of_evaluation.DataMissing, of_evaluation.DataUnusable, of_lever.DatasetUnusable, of_lever.FileUnusable)
    benchmarks = (of_evaluation.BenchmarkUnusable, of_evaluation.PreflightFailed, of_evaluation.NeedsLogLikelihood)
    grading = (TemplateUnusable, LanguageUnavailable, UnsafeCodeRefused, of_evaluation.ResultsUnusable)
    selection = (of_lever.PoolTooSmall, of_lever.PointerUnusable, of_lever.RewardUnusable)
    flows = (of_rag.RagError, of_evaluation.EvaluationError, GradingError, SandboxError, of_lever.LeverError)
    services = (StorageError, ModelError, ServerDidNotStart, ClusterUnusable, BudgetSpent)
    refused = (*documents, IndexUnusable, *options, *data, *benchmarks, *grading, *selection)
    with plain_errors(*refused, failed=(*flows, *services)):
        yield


@contextmanager
def prefect_for_a_command(*, quiet: bool) -> Generator[None]:
    """Context of a command that runs a flow: expected errors, progress bars and a Prefect API."""
    from flows.running.command_server import prefect_api, refuse_a_dead_server

    # the log of the flow is for workers; a command shows progress bars, and errors as sentences
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
    # Prefect's services log errors if a refused build ends before they have sent everything
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    with expected_errors(), progress_bars(quiet):
        refuse_a_dead_server()
        with prefect_api(settings().home):
            yield


def run_flow(flow: Callable[[Any], Any], config: object, *unfinished: type[Exception]) -> Outcome[Any]:
    """Run a flow; unfinished: errors with a report of what is done."""
    from flows.running.command_server import has_server, wait_until_healthy

    wait_until_healthy(settings().home)
    from prefect.exceptions import TerminationSignal
    from prefect.settings import temporary_settings

    from flows.running.run_reporting import outcome_of

    # nobody watches the heartbeats of a command, and its flow would wait up to a second for their thread to end
    quiet = temporary_settings({"flows.heartbeat_frequency": None}) if has_server() else nullcontext()
    with quiet, interruptible(left="what is finished is kept, run the same command again to go on"):
        try:
            return Outcome(outcome_of(flow, config), None)  # a returned state is resolved by Prefect
        except unfinished as error:
            return Outcome(getattr(error, "report"), str(error))  # noqa: B009 each of them has one
        except TerminationSignal as error:  # Prefect takes SIGTERM for itself
            raise _Terminated from error


class _Terminated(BaseException):
    """SIGTERM was received."""


@contextmanager
def interruptible(*, left: str) -> Generator[None]:
    """Have Ctrl-C and SIGTERM end the command with a message, with the calls and programs that it waits for.

    left: what the message says about the state of the work.
    """
    numbers: list[int] = []  # of the first signal
    is_told = False

    def words(number: int) -> tuple[str, int]:
        is_interrupt = (numbers or [number])[0] == signal.SIGINT
        return (f"interrupted; {left}", INTERRUPTED) if is_interrupt else (f"terminated; {left}", TERMINATED)

    def begin(number: int) -> None:
        if not numbers:
            numbers.append(number)
            end_work(answers_s=ANSWERS_S, steps_s=STEPS_S, then=exit_now)

    def exit_now() -> None:
        sentence, code = words(signal.SIGTERM)
        cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar has hidden it
        with suppress(OSError):
            os.write(2, (cursor + ("" if is_told else f"error: {harmless(sentence)}\n")).encode())
        os._exit(code)

    def end(*_: object) -> None:
        raise _Terminated

    with handling(signal.SIGTERM, end):
        try:
            with listening_for_signals(begin):
                yield
        except (KeyboardInterrupt, _Terminated, Stopped) as error:
            is_told = True
            fail(*words(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM))
        except Exception as error:  # Prefect's own, where a signal comes between two of its steps
            interrupted = _is_of_interruption(error)
            if isinstance(error, typer.Exit) or not (numbers or interrupted):
                raise
            is_told = True
            fail(*words(signal.SIGINT if interrupted else signal.SIGTERM))


def _is_of_interruption(error: BaseException | None) -> bool:
    """Whether it was raised while Ctrl-C was on its way."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _is_of_interruption(error.__context__))


@contextmanager
def handling(number: int, handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    """Have `handler` handle a signal while the block runs."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def progress_bars(quiet: bool) -> Generator[None]:
    """A bar per stage on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description:<16}"), BarColumn(), _Count(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars, progress.listening(_Bars(bars).report):
        yield


class _Bars:
    """A bar for each stage, from the first report of any."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._lock = Lock()
        self._tasks: dict[str, TaskID] = {}
        self._expected: Counter[str] = Counter()
        self._starting: TaskID | None = bars.add_task("start", total=None)

    def report(self, stage: str, done: int, expected: int) -> None:
        """Move the bar of a stage; called in the thread of the step."""
        with self._lock:
            if self._starting is not None:
                self._bars.remove_task(self._starting)
                self._starting = None
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(stage, total=0)
            self._expected[stage] += expected
            self._bars.update(self._tasks[stage], total=self._expected[stage], advance=done)


class _Count(MofNCompleteColumn):
    """`3/12`; nothing while the total is unknown."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.total is not None else Text()
