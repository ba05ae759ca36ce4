"""A run is done again, as by the UI's Retry: a worker executes the same flow run, and finds its finished steps.

Import it once the environment names a server (`flows.service.api.connect`): Prefect reads that as it is imported.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, FlowRun, StateType, WorkerStatus
from prefect.client.schemas.responses import SetStateStatus
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import AwaitingRetry
from prefect.utilities.urls import url_for

from storage.records import Record

RECENT = 1_000
"""Runs, newest first, among which the beginning of an id is looked for."""
PAGE = 200
"""Most runs that the server gives at once."""
POLL_S = 1.0
UNAUTHORIZED = 401
BEGINNING = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,35}")
MESSAGE = "Rerun by `trivet rerun`"
TAKES_A_PLACE = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
"""States of runs that have one of the places of their deployment, or get it as soon as a worker looks."""
SHOWN = 5
"""Runs that are named where one name means several."""


class CannotRerun(ValueError):
    """No worker can do this run again; says why, and what can be done."""


class ServerAway(RuntimeError):
    """The Prefect server does not answer, or not to us."""


class Rerun(Record):
    """A run that a worker is to do again."""

    id: UUID
    name: str
    deployment: str
    """`flow/deployment`."""
    state: str
    """`AwaitingRetry`, `Running`, `Completed`, `CompletedWithFailures`, `Failed` …"""
    ended: bool
    completed: bool
    message: str | None
    """What the state says, such as the items that are not finished."""
    url: str | None
    """Its page in the newer UI: the older one shows nothing to who has not said the auth string yet."""
    note: str | None = None
    """Why it may not begin."""


def rerun(wanted: str, *, said: str = MESSAGE) -> Rerun:
    """Have a worker do a run again, given by ID, start of the ID, or name. Raises CannotRerun, ServerAway.

    said: message of the state in which the run waits for the worker.
    """
    with _connected() as client:
        run = _found(client, wanted)
        _refuse(client, run)
        answer = client.set_flow_run_state(run.id, AwaitingRetry(message=said))
        if answer.status != SetStateStatus.ACCEPT:
            reason = getattr(answer.details, "reason", None) or answer.status.value
            raise CannotRerun(f"{_label(run)} cannot be done again: {reason}")
        pool, note = run.work_pool_name, None
        if pool and not any(one.status == WorkerStatus.ONLINE for one in client.read_workers_for_work_pool(pool)):
            note = f"no worker of the pool {pool} is alive; `trivet up` starts one"
        return _told(client, client.read_flow_run(run.id), note=note)


def wait_for(again: Rerun) -> Rerun:
    """How it ended. Raises ServerAway."""
    with _connected() as client:
        while True:
            run = client.read_flow_run(again.id)
            if run.state and run.state.is_final():
                return _told(client, run)
            time.sleep(POLL_S)


@contextmanager
def _connected() -> Generator[SyncPrefectClient]:
    address = PREFECT_API_URL.value()
    try:
        with get_client(sync_client=True) as client:
            yield client
    except httpx.TransportError as error:
        raise ServerAway(f"no Prefect server answers at {address}; `trivet status` tells more") from error
    except httpx.HTTPStatusError as error:
        if error.response.status_code != UNAUTHORIZED:
            raise
        raise ServerAway(f"the server at {address} wants an auth string: set PREFECT_API_AUTH_STRING to it") from error


def _found(client: SyncPrefectClient, wanted: str) -> FlowRun:
    runs: list[FlowRun] = []
    with suppress(ValueError, ObjectNotFound):
        runs = [client.read_flow_run(UUID(wanted))]
    if not runs:
        called = FlowRunFilter.model_validate({"name": {"any_": [wanted]}})
        runs = client.read_flow_runs(flow_run_filter=called, sort=FlowRunSort.ID_DESC, limit=PAGE)
    runs = runs or _beginning_with(client, wanted)
    if not runs:
        raise CannotRerun(
            f"there is no run {wanted!r}: give its ID, the first characters of the ID (of the {RECENT:,} newest runs), "
            "or its name; `prefect flow-run ls` lists runs"
        )
    if len(runs) > 1:
        named = "; ".join(_label(run) for run in runs[:SHOWN])
        more = f"; and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
        raise CannotRerun(f"{wanted!r} means {len(runs)} runs, the newest first: {named}{more}; give the id of one")
    return runs[0]


def _beginning_with(client: SyncPrefectClient, beginning: str) -> list[FlowRun]:
    """Runs whose ID begins so; the server itself finds only whole IDs."""
    if not BEGINNING.fullmatch(beginning):
        return []
    pages = (
        client.read_flow_runs(sort=FlowRunSort.ID_DESC, limit=PAGE, offset=offset) for offset in range(0, RECENT, PAGE)
    )
    return [run for page in pages for run in page if str(run.id).startswith(beginning.lower())]


def _refuse(client: SyncPrefectClient, run: FlowRun) -> None:
    """Raise CannotRerun if a run is under way, is part of another, or cannot be started by a worker."""
    if run.state is None or not run.state.is_final():
        raise CannotRerun(f"{_label(run)} has not ended; wait for it, or cancel it first")
    # the run that sent this one to the pool of its GPU steps, or whose child it is, as a model of a night
    waiting = client.read_task_run(run.parent_task_run_id).flow_run_id if run.parent_task_run_id else None
    if waiting:
        parent = client.read_flow_run(waiting)
        raise CannotRerun(
            f"{_label(run)} is a part of {parent.name}, which a rerun of the part alone would not resume; "
            f"rerun that: trivet rerun {parent.id}"
        )
    if run.deployment_id is None:
        raise CannotRerun(
            f"{_label(run)} was not started from a deployment, so no worker can start it; "
            "run its command again: what it has finished is found"
        )
    if taken := _without_a_place(client, run.deployment_id):
        named = "; ".join(_label(other) for other in taken[:SHOWN])
        raise CannotRerun(
            f"{_label(run)} would be cancelled now, as its deployment has no place beside {named}; "
            f"wait for that or cancel it, then: trivet rerun {run.id}"
        )


def _without_a_place(client: SyncPrefectClient, deployment: UUID) -> list[FlowRun]:
    """The runs that fill a deployment whose further runs are cancelled; empty if there is room."""
    found = client.read_deployment(deployment)
    limit, options = found.global_concurrency_limit, found.concurrency_options
    if limit is None or options is None or options.collision_strategy != ConcurrencyLimitStrategy.CANCEL_NEW:
        return []
    taking = {"state": {"type": {"any_": TAKES_A_PLACE}}, "expected_start_time": {"before_": datetime.now(UTC)}}
    due = FlowRunFilter.model_validate({"deployment_id": {"any_": [deployment]}, **taking})
    runs = client.read_flow_runs(flow_run_filter=due, limit=PAGE)
    return runs if len(runs) >= limit.limit else []


def _told(client: SyncPrefectClient, run: FlowRun, *, note: str | None = None) -> Rerun:
    assert run.state is not None
    assert run.deployment_id is not None
    page = url_for(run)
    return Rerun(
        id=run.id,
        name=run.name,
        deployment=f"{client.read_flow(run.flow_id).name}/{client.read_deployment(run.deployment_id).name}",
        state=run.state.name or run.state.type.value,
        ended=run.state.is_final(),
        completed=run.state.is_completed(),
        message=run.state.message,
        url=page and page.replace("/runs/", "/v2/runs/", 1),
        note=note,
    )


def _label(run: FlowRun) -> str:
    state = run.state.name if run.state else "no state"
    return f"{run.name} ({run.id}, {state})"
