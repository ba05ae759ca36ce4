"""What a flow run tells Prefect: its version and name, a progress artifact per stage, and why it failed.

steps report (tasks/progress.py) ─► counts by stage ─► a thread looks every 2 s ─► progress artifacts of Prefect
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import wraps
from inspect import signature
from threading import Event, Thread
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
from prefect import events
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.events.clients import PrefectEventsClient
from prefect.events.worker import EventsWorker, emit_events_to_cloud
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, get_current_settings, temporary_settings
from prefect.states import Failed

from flows.running.ending import ServerAway, ending_in_order, holding_run
from flows.running.environment import ANSWER_S, LOOPBACK, trust
from flows.running.progress_counts import counting
from storage.storage_errors import list_some

P = ParamSpec("P")
R = TypeVar("R")

LOOK_S = 2.0
"""Seconds between two updates of the progress artifacts."""
PATIENCE_S = 5.0
"""Longest wait of a run for its last update."""
NAMES = 4
"""Most names in the name of a run; of further ones, only the number is shown."""
OURS = ("flows.", "tasks.", "models.", "storage.")
"""Modules whose errors are whole sentences; others are shown with their type."""

_deployed: ContextVar[FlowRun | None] = ContextVar("_deployed", default=None)
"""The run of a deployment, of which the current run may be a part."""


def watched(flow: Callable[P, R]) -> Callable[P, R]:
    """Wrap the function of a flow: the Prefect UI shows its stages while a deployment runs it, or a flow that calls it.

    An error becomes a state whose message begins with it, not with Prefect's phrase; the caller gets the error itself.
    """

    if not emit_events_to_cloud():
        # an event that cannot be sent waits for the next one; Prefect would try each for 8 s, as the process ends too
        EventsWorker.set_client_override(PrefectEventsClient, reconnection_attempts=1)

    @wraps(flow)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        """Return the flow's result, or a Failed state with its error as long as the server calls the run running."""
        context, outer = FlowRunContext.get(), _deployed.get()
        run = context.flow_run if context else None
        if run is None:
            return flow(*args, **kwargs)
        is_deployed = bool(outer or run.deployment_id)
        token = _deployed.set(outer or (run if is_deployed else None))
        try:
            # a run that is a part of another ends with that
            in_order = _ending_with(run) if is_deployed and not outer else nullcontext()
            with in_order, _progress_artifacts() if is_deployed else nullcontext():
                return flow(*args, **kwargs)
        except Exception as error:
            # a run that is being cancelled takes no other state, and one whose server is away none at all
            try:
                with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
                    state = client.read_flow_run(run.id).state
            except (httpx.HTTPError, PrefectException):
                state = None
            if not (state and state.is_running()):
                raise
            is_sentence = type(error).__module__.startswith(OURS) and str(error)
            words = str(error) if is_sentence else f"{type(error).__name__}: {error}".removesuffix(": ")
            if outer:  # it can be retried, and not this part of it
                words += f"; this run is a part of {outer.name}, so retry that: prefect flow-run retry {outer.id}"
            get_run_logger().error("%s", words, exc_info=error)
            return cast("Any", Failed(message=words, data=error))
        finally:
            _deployed.reset(token)

    # Prefect draws its form from the signature, and would look names up in this module
    setattr(body, "__signature__", signature(flow, eval_str=True))  # noqa: B010 functions have no such attribute
    body.__qualname__ = f"{flow.__qualname__}.fn"  # where it is once it is a flow: it is pickled by this name
    return body


@contextmanager
def _ending_with(run: FlowRun) -> Generator[None]:
    """End this process in order when it is told to, and when the run is no longer its own."""
    ids = [str(each) for each in (run.id, flow_run.parent_flow_run_id) if each]

    def count_begins() -> int | None:
        """Return how often the run was begun; None once it runs no more, or its parent is gone. Raises ServerAway."""
        try:
            answer = client.post("/flow_runs/filter", json={"flow_runs": {"id": {"any_": ids}}})
            runs = {each["id"]: each for each in answer.raise_for_status().json()}
        except (httpx.HTTPError, ValueError) as error:
            raise ServerAway from error
        own = runs.get(ids[0], {})
        is_held = len(runs) == len(ids) and own.get("state_type") in ("RUNNING", "CANCELLING")
        return own["run_count"] if is_held else None

    api = get_current_settings().api
    url, secret = api.url or "", api.auth_string
    client = httpx.Client(
        base_url=url,
        auth=httpx.BasicAuth(*secret.get_secret_value().split(":", 1)) if secret else None,
        trust_env=httpx.URL(url).host not in LOOPBACK,  # no proxy stands before this machine
        verify=trust() if url.startswith("https:") else False,
        timeout=ANSWER_S,
    )
    with client, ending_in_order(), holding_run(count_begins) if url else nullcontext():
        yield


@contextmanager
def _progress_artifacts() -> Generator[None]:
    """Count the reports of steps, and send the sums to Prefect from a thread; the run waits for neither."""
    artifacts: dict[str, tuple[UUID, list[int]]] = {}
    ended, succeeded = Event(), False

    def send(stage: str, counts: list[int]) -> None:
        """Make or update the progress bar of a stage (counts: completed, expected); failures are passed over."""
        completed, expected = counts
        # stages that stop early, and shards that were in the cache, are done when the run is
        percent = 100.0 if succeeded else min(1000 * completed // max(expected, 1), 1000) / 10  # rounded down
        words = f"{stage}: {completed:,} of {expected:,}"
        try:
            artifact: Any  # Prefect's type is that of sync and async calls
            if stage in artifacts:
                artifact = update_progress_artifact(artifacts[stage][0], percent, words)
            else:
                key = "progress-" + re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")  # as Prefect allows keys
                artifact = create_progress_artifact(percent, key, words)
        except (httpx.HTTPError, PrefectException):  # the results are worth more than a bar
            return
        artifacts[stage] = artifact, counts

    def send_on() -> None:
        """Send changed counts every LOOK_S seconds, and once more at the end."""
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            is_last = False
            while not is_last:
                is_last = ended.wait(LOOK_S)
                for stage, now in [*counts.items()]:
                    if succeeded or stage not in artifacts or artifacts[stage][1] != now:
                        send(stage, now)

    with counting() as counts:
        # it sees the settings of this run, and ends with the process at the latest
        thread = Thread(target=copy_context().run, args=(send_on,), name="progress", daemon=True)
        thread.start()
        try:
            yield
            succeeded = True
        finally:
            ended.set()
            thread.join(PATIENCE_S)


def say(sentence: str) -> None:
    """Write a line to the log of the run, which the UI shows."""
    get_run_logger().info("%s", sentence)


def alert(event: str, sentence: str) -> None:
    """Log a line, and have the server know an event of this run, to which automations listen. Raises httpx.HTTPError.

    Asked of the API: an event that Prefect only queues is lost with a request for what is related to it.
    """
    say(sentence)
    run = {"prefect.resource.id": f"prefect.flow-run.{flow_run.id}", "prefect.resource.name": str(flow_run.name)}
    record = events.Event(event=event, resource=events.Resource(run), payload={"text": sentence})
    with get_client(sync_client=True) as client:
        client.request("POST", "/events", json=[record.model_dump(mode="json")])


def first_names(names: Iterable[str]) -> str:
    """Join the first NAMES names, `AIME24,MATH500`, and the number of further ones; of a path, its last part."""
    return list_some((name.rstrip("/").rpartition("/")[2] for name in names), NAMES, separator=",")


def as_part(flow: Any, name: str) -> Any:
    """Return a flow whose run carries the name of the run that calls it, where runs are listed."""
    run_name = f"{name} of {flow_run.name}"
    return flow.with_options(flow_run_name=lambda: run_name)
