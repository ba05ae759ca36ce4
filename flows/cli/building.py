"""Runs the flows behind `trivet rag index` and `batch`: a server for them, a progress bar, the outcome as a value."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from flows.cli.output import INTERRUPTED, fail, plain_errors, state
from flows.settings import prepare_environment, settings

if TYPE_CHECKING:
    from tasks.rag.batching import BatchReport
    from tasks.rag.indexing.figures import FigurePlan
    from tasks.rag.indexing.report import IndexReport


R = TypeVar("R")


class Outcome(NamedTuple, Generic[R]):
    """What a run did, and what is left to be redone."""

    report: R
    unfinished: str | None


def run_build(chosen: dict[str, Any], *, quiet: bool) -> Outcome[IndexReport]:
    """Run `build_index` here and now. Raises pydantic.ValidationError for options that do not fit."""
    with _api(quiet):
        from flows.rag import IndexConfig, build_index

        return _run(build_index, IndexConfig.model_validate(chosen))


def run_batch(chosen: dict[str, Any], *, quiet: bool) -> Outcome[BatchReport]:
    """Run `answer_batch` here and now. Raises pydantic.ValidationError for options that do not fit."""
    with _api(quiet):
        from flows.rag import AnswerConfig, answer_batch

        return _run(answer_batch, AnswerConfig.model_validate(chosen))


@contextmanager
def _api(quiet: bool) -> Generator[None]:
    """A Prefect API of this command's own, and its errors as sentences."""
    from flows.server import prefect_api

    prepare_environment()
    # the flow's own log is for workers; here the progress bar speaks, and errors come as sentences
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
    # its own services complain when a refused build ends before they have told the server everything
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "INFO" if state["debug"] else "CRITICAL")
    with _expected_errors(), _progress(quiet), prefect_api(settings().home):
        yield


def _run(flow: Callable[[Any], Any], config: object) -> Outcome[Any]:
    from flows.server import wait_until_healthy
    from tasks.rag.errors import Unfinished

    wait_until_healthy(settings().home)
    try:
        with _calls_stop_too():
            return Outcome(flow(config), None)  # a returned state is resolved by Prefect
    except Unfinished as error:
        return Outcome(error.report, str(error))
    except KeyboardInterrupt:
        fail("interrupted; what is finished is kept, run the same command again to go on", INTERRUPTED)


@contextmanager
def _calls_stop_too() -> Generator[None]:
    """Ctrl-C also ends the calls that shards wait for: the program would else stay until a model's time-out."""
    from tasks.calls import stop_asking

    def stop(number: int, frame: FrameType | None) -> None:
        stop_asking()
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def plan_figures(chosen: dict[str, Any], *, quiet: bool) -> FigurePlan:
    """What describing the figures of a folder would take; asks no model, writes no index."""
    from flows.settings import configure_steps

    configure_steps()
    with _expected_errors(), _progress(quiet):
        from flows.rag import IndexConfig
        from tasks.rag.indexing.figure_planning import plan_folder
        from tasks.resources import artifacts, resources, responses, vision

        config = IndexConfig.model_validate(chosen)
        password = resources().secret(config.password_env) if config.password_env else None
        return plan_folder(
            config.documents,
            artifacts(),
            include=config.include,
            exclude=config.exclude,
            settings=config.figures,
            limits=config.limits,
            password=password,
            chat=vision(config.vlm) if config.vlm else None,
            responses=responses(),
        )


@contextmanager
def _expected_errors() -> Generator[None]:
    from flows.server import ServerDidNotStart
    from models.errors import ModelError
    from storage.errors import IndexUnusable, StorageError
    from tasks.rag.errors import FolderUnusable, MetadataUnusable, QuestionsUnusable, RagError

    refused = (FolderUnusable, MetadataUnusable, QuestionsUnusable, IndexUnusable)
    with plain_errors(*refused, failed=(RagError, StorageError, ModelError, ServerDidNotStart)):
        yield


@contextmanager
def _progress(quiet: bool) -> Generator[None]:
    """A bar per step on stderr; none when nobody watches."""
    from tasks.progress import listening

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description:<16}"), BarColumn(), _Count(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress, listening(_Bars(progress).report):
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
