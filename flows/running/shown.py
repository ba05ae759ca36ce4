"""What a run shows in the Prefect UI: a progress bar per stage, and a final message; and how it reaches the server.

steps report (tasks/progress.py) ─► a Stage counts ─► a thread looks every 2 s ─► progress artifacts, one per stage
Steps that are done on a pool report here as well: flows/running/dispatch.py reads their bars as they are described.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from math import floor
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import httpx
from prefect import events
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events.clients import PrefectEventsClient
from prefect.events.worker import EventsWorker, emit_events_to_cloud
from prefect.exceptions import FailedRun, PrefectException
from prefect.logging import get_run_logger
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Failed

from flows.running.ending import ending_in_order
from flows.running.environment import git_commit, program_version
from tasks import progress

P = ParamSpec("P")
R = TypeVar("R")
Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

LOOK_S = 2.0
"""Seconds between two updates."""
WORTH_TELLING = 0.5
"""Smallest change that is sent, in percentage points: at most some 200 updates per stage."""
PATIENCE_S = 5.0
"""Timeout of a request, and longest wait of a run for its last update."""
NAMES = 4
"""Most names in the name of a run; of further ones, only the number is shown."""
OURS = ("flows.", "tasks.", "models.", "storage.")
"""Modules whose errors are whole sentences; others are shown with their type."""

_NUMBERED = re.compile(r"(?P<step>.+?),? (?P<number>\d+)/(?P<of>\d+)")
_deployed: ContextVar[tuple[FlowRun, ...]] = ContextVar("_deployed", default=())
"""The run of a deployment, and its nested runs down to the current one."""
_errors: ContextVar[list[Exception] | None] = ContextVar("_errors", default=None)
"""What flows that `outcome_of` called have ended with, the outermost last."""
AT_ONCE = 1
"""Reconnection attempts without a delay; Prefect sleeps a second before the fourth and later ones."""
PENDING = "Still processing items"
LAST_WORDS_S = 10.0
"""Longest wait for the last events of this process to be sent."""
_emit = PrefectEventsClient._emit  # pyright: ignore[reportPrivateUsage]


def watched(flow: Callable[P, R]) -> Callable[P, R]:
    """The function of a flow, whose stages the Prefect UI shows while a deployment runs it or a flow that calls it.

    An error becomes a state whose message begins with it, not with Prefect's phrase; the caller gets the error itself.
    """
    tell_patiently()  # as the module of the flow is imported: before anything is told

    @wraps(flow)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        context = FlowRunContext.get()
        run = context.flow_run if context else None
        if run is None:
            return flow(*args, **kwargs)
        around = _deployed.get()
        runs = (*around, run) if around or run.deployment_id else ()
        token = _deployed.set(runs)
        try:
            # a run that is a part of another ends with that
            in_order = ending_in_order() if runs and not around else nullcontext()
            with in_order, _bars(run.id, get_run_logger()) if runs else nullcontext():
                result = flow(*args, **kwargs)
            if isinstance(result, State) and isinstance(error := result.data, Exception):
                _note(error)
            return result
        except Exception as error:
            _note(error)
            if not _is_running(run):
                raise
            failed: Any = _failed(error, around)
            return failed
        finally:
            _deployed.reset(token)

    # Prefect draws its form from the signature, and would look names up in this module
    setattr(body, "__signature__", signature(flow, eval_str=True))  # noqa: B010 functions have no such attribute
    return body


def outcome_of(flow: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a flow of this process. Raises its own error, even where Prefect has lost it.

    Prefect asks again when the answer to the last state of a run is lost, and is told the state without the error.
    """
    errors: list[Exception] = []
    token = _errors.set(errors)
    try:
        return flow(*args, **kwargs)
    except FailedRun as lost:
        raise (errors[-1] if errors else lost) from lost
    finally:
        _errors.reset(token)


def _note(error: Exception) -> None:
    errors = _errors.get()
    if errors is not None:
        errors.append(error)


def begun_run() -> FlowRun | None:
    """The run that was begun by its deployment, of which the current one may be a part; None elsewhere."""
    return next(iter(_deployed.get()), None)


def flow_version() -> str:
    """`0.1.0`, of a checkout `0.1.0+d19d205e2f31`; Prefect's default is a hash of the file with the function."""
    commit = git_commit()
    return f"{program_version()}+{commit[:12]}" if commit else program_version()


def say(sentence: str) -> None:
    """Log a line, which the UI shows."""
    get_run_logger().info("%s", sentence)


def alert(event: str, sentence: str) -> None:
    """Log a line, and have the server know an event of this run, to which automations listen.

    Asked of the API: an event that Prefect only queues is lost with a request for what is related to it.
    """
    say(sentence)
    run = {"prefect.resource.id": f"prefect.flow-run.{flow_run.id}", "prefect.resource.name": str(flow_run.name)}
    told = events.Event(event=event, resource=events.Resource(run), payload={"text": sentence})
    with get_client(sync_client=True) as client:
        client.request("POST", "/events", json=[told.model_dump(mode="json")])


def few(names: Iterable[str]) -> str:
    """`AIME24,MATH500`: the first names, and the number of further ones; of a path, its last part."""
    short = [name.rstrip("/").rpartition("/")[2] for name in names]
    more = f" and {len(short) - NAMES} more" if len(short) > NAMES else ""
    return ",".join(short[:NAMES]) + more


def part_name(name: str, whole: str) -> str:
    """`embed 1/1 of index notices`: name of a run that is a part of another, in the list of runs."""
    return f"{name} of {whole}"


def as_part(flow: Any, name: str) -> Any:
    """A flow whose run carries the name of the run that calls it, where runs are listed."""
    named = part_name(name, str(flow_run.name))
    return flow.with_options(flow_run_name=lambda: named)


class Shard(NamedTuple):
    """A part of a step, as the name of its task run says."""

    step: str
    number: int = 1
    of: int = 1

    @classmethod
    def called(cls, name: str) -> Shard:
        """`score MATH500 2/4` is the second of four; a name without a number is the only shard."""
        found = _NUMBERED.fullmatch(name)
        return cls(found["step"], int(found["number"]), int(found["of"])) if found else cls(name)


@dataclass
class Stage:
    """Reports of the shards of a stage, which begin in order; cached ones report nothing, and do not count."""

    _counts: dict[Shard, tuple[int, int]] = field(default_factory=dict[Shard, tuple[int, int]])

    def count(self, shard: Shard, *, done: int, expected: int) -> None:
        """Add a report."""
        before = self._counts.get(shard, (0, 0))
        self._counts[shard] = before[0] + done, before[1] + expected

    @property
    def done(self) -> int:
        """Items done; of a shard at most those that it expected."""
        return sum(min(counts) for counts in self._counts.values())

    @property
    def expected(self) -> int:
        """Items of the shards that have begun."""
        return sum(expected for _, expected in self._counts.values())

    @property
    def ahead(self) -> float:
        """Estimated items of the shards that have not begun, from the other shards of their step."""
        guessed = 0.0
        for step in {shard.step for shard in self._counts}:
            begun = {shard: expected for shard, (_, expected) in self._counts.items() if shard.step == step}
            left = max(shard.of for shard in begun) - max(shard.number for shard in begun)
            guessed += left * sum(begun.values()) / len(begun)
        return guessed

    @property
    def percent(self) -> float:
        """Progress from 0 to 100, rounded down to tenths."""
        total = self.expected + self.ahead
        return floor(1000 * self.done / total) / 10 if total else 0.0

    @property
    def words(self) -> str:
        """`12 of 25`, or `12 of about 100`."""
        total = f"about {self.expected + self.ahead:,.0f}" if self.ahead else f"{self.expected:,}"
        return f"{self.done:,} of {total}"


def _is_running(run: FlowRun) -> bool:
    """False for a run that is being cancelled, which takes no other state, and for one whose server is away."""
    try:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), impatient_client() as client:
            state = client.read_flow_run(run.id).state
    except (httpx.HTTPError, PrefectException):
        return False
    return bool(state and state.is_running())


def _failed(error: Exception, around: tuple[FlowRun, ...]) -> State[Any]:
    """The state of a run that an error has ended; around: its parents, of which the first can be retried."""
    is_sentence = type(error).__module__.startswith(OURS) and str(error)
    words = str(error) if is_sentence else f"{type(error).__name__}: {error}".removesuffix(": ")
    if around:
        words += f"; this run is a part of {around[0].name}, so retry that: prefect flow-run retry {around[0].id}"
    get_run_logger().error("%s", words, exc_info=error)
    return Failed(message=words, data=error)


@contextmanager
def _bars(run: UUID, log: Log) -> Generator[None]:
    """Count reports of steps, and send them from a thread; the run waits for neither."""
    board = _Board(run, log)
    # it sees the settings of this run, and ends with the process at the latest
    thread = Thread(target=copy_context().run, args=(board.tell_on,), name="progress", daemon=True)
    with progress.listening(board.report):
        thread.start()
        try:
            yield
            board.succeeded = True
        finally:
            board.ended.set()
            thread.join(PATIENCE_S)


class _Board:
    def __init__(self, run: UUID, log: Log) -> None:
        self.succeeded = False
        self.ended = Event()
        self._run = run
        self._log = log
        self._lock = Lock()
        self._stages: dict[str, Stage] = {}
        self._told: dict[str, tuple[UUID, float, str]] = {}  # artifact, percent and words by stage
        self._logged: dict[str, str] = {}

    def report(self, stage: str, done: int, expected: int) -> None:
        """Add newly done and newly expected items; called in the thread of the step."""
        runs = _deployed.get()
        if runs and self._run not in (run.id for run in runs):
            return  # of another run, which is done in this process too
        context = TaskRunContext.get()
        shard = Shard.called(context.task_run.name if context else stage)
        with self._lock:
            self._stages.setdefault(stage, Stage()).count(shard, done=done, expected=expected)

    def tell_on(self) -> None:
        """Send updates periodically, and once more at the end."""
        while not self.ended.wait(LOOK_S) and not self._stages:
            pass
        if not self._stages:
            return
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), impatient_client() as client:
            while not self.ended.is_set():
                self._tell(client)
                self.ended.wait(LOOK_S)
            self._tell(client)

    def _tell(self, client: SyncPrefectClient) -> None:
        with self._lock:
            now = {name: (stage.percent, stage.words) for name, stage in self._stages.items()}
        for name, (percent, words) in now.items():
            if self.succeeded:  # stages that stop early, and shards that were in the cache
                percent = 100.0
            if (percent == 100 or self.ended.is_set()) and self._logged.get(name) != words:
                self._logged[name] = words
                self._log.info("%s: %s", name, words)
            try:
                self._show(client, name, percent, words)
            except httpx.HTTPError as error:
                self._log.debug("the server did not take the progress of %s: %s", name, error)

    def _show(self, client: SyncPrefectClient, name: str, percent: float, words: str) -> None:
        told = self._told.get(name)
        if told and told[1:] == (percent, words):
            return
        if told and abs(told[1] - percent) < WORTH_TELLING and percent < 100 and not self.ended.is_set():
            return
        described = f"{name}: {words}"
        if artifact := told[0] if told else earlier_artifact(client, self._run, key_of(name)):
            client.update_artifact(artifact, ArtifactUpdate(data=percent, description=described))
        else:
            key = key_of(name)
            bar = ArtifactCreate(type="progress", key=key, data=percent, description=described, flow_run_id=self._run)
            artifact = client.create_artifact(bar).id
        self._told[name] = artifact, percent, words


def impatient_client() -> SyncPrefectClient:
    """A client whose requests wait for PATIENCE_S."""
    return get_client(httpx_settings={"timeout": PATIENCE_S}, sync_client=True)  # other settings: not the run's own


def key_of(stage: str) -> str:
    """Key of a stage's artifact: lower-case letters, digits and dashes."""
    return "progress-" + re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")


def earlier_artifact(client: SyncPrefectClient, run: UUID, key: str) -> UUID | None:
    """The artifact of an earlier attempt at this run, which a retry goes on with."""
    wanted = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run]}, "key": {"any_": [key]}})
    found = client.read_artifacts(artifact_filter=wanted, limit=1)
    return found[0].id if found else None


def tell_patiently() -> None:
    """Have this process wait for an unavailable server as long with events as with requests, and only once.

    Prefect gives each event eight seconds: too few for a server that is away for a minute, and hours for a process that
    ends with thousands of events.
    """
    if emit_events_to_cloud():
        return
    patience = 2 ** (PREFECT_CLIENT_MAX_RETRIES.value() + 1)  # seconds: requests wait 2, 4, 8 …
    EventsWorker.set_client_override(PrefectEventsClient, reconnection_attempts=patience)

    async def emit(self: PrefectEventsClient, event: Any) -> None:
        try:
            await _emit(self, event)
        except Exception:
            self._reconnection_attempts = AT_ONCE  # the event is kept, and sent before the next that can be sent
            raise
        self._reconnection_attempts = patience

    # a method of the class: Prefect drops the events of a client that is not one of its own classes
    PrefectEventsClient._emit = emit  # pyright: ignore[reportPrivateUsage]


def tell_the_rest() -> None:
    """Send pending events and logs before the server ends; the next one may be another."""
    for worker in (EventsWorker, APILogWorker):
        # warnings about what is still to be sent are no news; what cannot be sent stays a warning
        logging.getLogger(worker.__name__).addFilter(lambda record: not record.getMessage().startswith(PENDING))
        worker.drain_all(timeout=LAST_WORDS_S, at_exit=False)
