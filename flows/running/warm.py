"""The process of a GPU step executes the next ones too: what it has loaded serves all steps of a kind of one run.

run_step (a process of the worker's) ─► its own step ─► the next that waits, of the same kind and parent ─► …
                                                        each a flow run of its own, under its own name and state
"""

from __future__ import annotations

import os
import time
from threading import Thread
from typing import Any
from uuid import UUID

from prefect import Flow, get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.client.schemas.sorting import FlowRunSort
from prefect.context import get_settings_context
from prefect.exceptions import PrefectException
from prefect.flow_engine import run_flow
from prefect.runtime import flow_run
from prefect.states import AwaitingRetry, Cancelled, Crashed, Pending

from tasks.calls import finish_asking

LINGER_S = 30.0
"""How long a process waits for the next step of its run."""
YIELD_S = 5.0
"""How long it waits while steps of other runs need its place."""
LOOK_S = 0.5
TAKEN = "taken by the process of "
"""Beginning of the message of the state, which names the host before the label is set."""
HOST = "trivet.host"
"""Label of a run that another run's process executes: the ID of that run."""


def is_first() -> bool:
    """Whether the worker started this process for the current run."""
    return os.environ.get("PREFECT__FLOW_RUN_ID") == str(flow_run.id)


def do_the_next(flow: Flow[..., Any]) -> None:
    """Execute further steps of the same kind from this run's parent, until none is left."""
    with get_client(sync_client=True) as client:
        mine = client.read_flow_run(UUID(str(flow_run.id)))
        parent = flow_run.parent_flow_run_id
        if parent is None:
            return
        try:
            while taken := _next_of(client, mine, UUID(str(parent))):
                get_run_logger().info("%s is done in this process too", taken.name)
                if not _done(client, flow, taken):
                    return
        except PrefectException as error:
            get_run_logger().warning("The next step gets a process of its own: %s", error)


def _next_of(client: SyncPrefectClient, mine: FlowRun, parent: UUID) -> FlowRun | None:
    began, is_wanted = time.monotonic(), False
    while time.monotonic() < began + (YIELD_S if is_wanted else LINGER_S):
        waiting = _waiting(client, mine, parent_flow_run_id={"any_": [parent]})
        kind = [run for run in waiting if run.parameters["entry"] == mine.parameters["entry"]]
        for run in kind:
            if _taken(client, run, host=mine.id):
                return run
        if not kind and (waiting or ((state := client.read_flow_run(parent).state) and state.is_final())):
            return None
        is_wanted = bool(_waiting(client, mine))
        time.sleep(LOOK_S)
    return None


def _waiting(client: SyncPrefectClient, mine: FlowRun, **wanted: Any) -> list[FlowRun]:
    """The runs of this deployment that no worker has taken."""
    assert mine.deployment_id
    return client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": [StateType.SCHEDULED]}}, **wanted}),
        deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [mine.deployment_id]}}),
        sort=FlowRunSort.EXPECTED_START_TIME_ASC,
    )


def _taken(client: SyncPrefectClient, run: FlowRun, *, host: UUID) -> bool:
    """Claim a run, as a worker does; False if a worker was faster."""
    said = client.set_flow_run_state(run.id, Pending(message=f"{TAKEN}{host}"))
    if said.status != SetStateStatus.ACCEPT:
        return False
    client.update_flow_run_labels(run.id, {HOST: str(host)})
    return True


def _done(client: SyncPrefectClient, flow: Flow[..., Any], run: FlowRun) -> bool:
    """Execute a run; False if it did not complete, and this process should end."""
    around = get_settings_context()

    def work() -> None:
        with around.model_copy():  # the settings of this process, and nothing of the run that it was started for
            run_flow(flow, flow_run=run, return_type="state")

    worker = Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(timeout=LOOK_S)
        state = client.read_flow_run(run.id).state
        if state and state.is_cancelling():
            finish_asking()
            client.set_flow_run_state(run.id, Cancelled(message="Its process was ended."), force=True)
            return False  # which ends the thread with the process
    state = client.read_flow_run(run.id).state
    return bool(state and state.is_completed())


def settle(client: SyncPrefectClient, run: FlowRun) -> FlowRun:
    """The current run, in the state of its host once that has ended or waits: a worker reports only its own run."""
    host = _host_of(run)
    hosting = client.read_flow_run(host).state if host else None
    run = client.read_flow_run(run.id)  # behind its host: what a living host did was told before the host ended
    if hosting is None or run.state is None or run.state.is_final() or run.state.is_scheduled():
        return run
    if hosting.is_final():
        why = f"The process that did it ended with another run: {hosting.name}. {hosting.message or ''}"
        client.set_flow_run_state(run.id, Crashed(message=why), force=True)
    elif hosting.is_scheduled():
        client.update_flow_run_labels(run.id, {HOST: ""})
        client.set_flow_run_state(run.id, AwaitingRetry(message="The process that did it was stopped."), force=True)
    else:
        return run
    return client.read_flow_run(run.id)


def _host_of(run: FlowRun) -> UUID | None:
    if label := run.labels.get(HOST):
        return UUID(str(label))
    message = (run.state and run.state.message) or ""
    return UUID(message.removeprefix(TAKEN)) if message.startswith(TAKEN) else None
