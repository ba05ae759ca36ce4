"""What the server does with runs once all is deployed: limits, bounds of parameters, automations."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from httpx import HTTPStatusError
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events import Event
from prefect.states import Completed, Failed, Paused, Pending, Running, Scheduled

from flows.service.api import Api
from flows.service.deploy import deploy

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

PATIENCE_S = 100.0
WITH_PARAMETERS = ("evaluation/evaluate", "lever/train", "nightly/nightly", "rag-answer/answer", "rag/index")


@flow(name="waiting")
def waiting() -> None:
    """Never run: it stands for runs whose process is elsewhere."""


@flow(name="nightly")
def night() -> None:
    """Never run, as above."""


def until(seen: Callable[[], bool]) -> None:
    assert comes(seen, within_s=PATIENCE_S), "it did not happen"


def comes(seen: Callable[[], bool], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not (found := seen()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What is posted to TRIVET_NOTIFY_URL."""
    heard: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """No word on stderr."""

    with HTTPServer(("127.0.0.1", 0), Hook) as listening:
        monkeypatch.setenv("TRIVET_NOTIFY_URL", f"http://127.0.0.1:{listening.server_port}/hook?key=hidden")
        Thread(target=listening.serve_forever, daemon=True).start()
        yield heard
        listening.shutdown()


def test_failures_are_told_to_the_address_of_the_environment(
    client: SyncPrefectClient, server: Api, hook: list[dict[str, Any]]
) -> None:
    deploy(server)
    run = client.create_flow_run(waiting, name='index "a"')
    client.set_flow_run_state(run.id, Running())
    client.set_flow_run_state(run.id, Failed(name="Regressed", message="MATH500 fell by 0.3"))

    until(lambda: bool(hook))

    assert hook[0]["text"].startswith('waiting / index "a": Regressed. MATH500 fell by 0.3')


def test_a_night_over_its_budget_is_told(client: SyncPrefectClient, server: Api, hook: list[dict[str, Any]]) -> None:
    deploy(server)
    run = client.create_flow_run(night, name="nightly models")
    whole = {"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": "nightly models"}
    spent = {"text": "nightly models is over its budget: 6.20 of 5.00 in money spent so far, after small."}
    over = Event.model_validate({"event": "trivet.night.over-budget", "resource": whole, "payload": spent})
    client._client.post("/events", json=[over.model_dump(mode="json")]).raise_for_status()

    until(lambda: bool(hook))

    assert [each["text"] for each in hook] == [spent["text"]]


def test_nights_that_do_not_begin_or_end_and_pools_without_workers_are_told(
    client: SyncPrefectClient, server: Api, hook: list[dict[str, Any]]
) -> None:
    deploy(server)
    [deadline] = client.read_automations_by_name("trivet-notify-deadline")
    assert deadline.trigger.model_dump()["within"] == timedelta(hours=6)
    soon = deadline.model_copy(
        update={"trigger": deadline.trigger.model_copy(update={"within": timedelta(seconds=11)})}
    )
    body = soon.model_dump(mode="json", exclude={"id", "owner_resource"})
    client._client.put(f"/automations/{deadline.id}", json=body).raise_for_status()
    nights = {name: client.create_flow_run(night, name=name) for name in ("ends", "hangs", "is late")}
    client.set_flow_run_state(nights["is late"].id, Scheduled(name="Late"), force=True)
    for name in ("ends", "hangs"):
        client.set_flow_run_state(nights[name].id, Running(), force=True)
    client.set_flow_run_state(nights["ends"].id, Completed(), force=True)
    pool = client.read_work_pool("gpu")
    of_pool = {"prefect.resource.id": f"prefect.work-pool.{pool.id}", "prefect.resource.name": "gpu"}
    gone = Event.model_validate({"event": "prefect.work-pool.not-ready", "resource": of_pool})
    client._client.post("/events", json=[gone.model_dump(mode="json")]).raise_for_status()

    until(lambda: len(hook) >= 3)

    told = sorted(each["text"] for each in hook)
    assert told[0].startswith("The pool gpu has no worker")
    assert told[1].startswith("nightly / hangs has not ended by its deadline.")
    assert told[2].startswith("nightly / is late waits for a worker")
    assert len(told) == 3


def started(client: SyncPrefectClient, name: str) -> FlowRun:
    return client.create_flow_run_from_deployment(client.read_deployment_by_name(name).id)


def state_of(client: SyncPrefectClient, run: UUID) -> StateType | None:
    state = client.read_flow_run(run).state
    return state.type if state else None


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_the_server_takes_a_run_with_the_parameters_of_the_folder(client: SyncPrefectClient, name: str) -> None:
    run = started(client, name)
    assert run.parameters == client.read_deployment_by_name(name).parameters
    client.set_flow_run_state(run.id, Completed(), force=True)


def test_a_run_whose_parameters_are_out_of_bounds_never_starts(client: SyncPrefectClient) -> None:
    found = client.read_deployment_by_name("rag/index")
    wrong = {"config": found.parameters["config"] | {"chunk_chars": 5}}
    with pytest.raises(HTTPStatusError, match="5 is less than the minimum of 100"):
        client.create_flow_run_from_deployment(found.id, parameters=wrong)


def test_of_two_runs_at_once_the_second_is_cancelled(client: SyncPrefectClient) -> None:
    under_way, second = started(client, "nightly/nightly"), started(client, "nightly/nightly")
    for run in (under_way, second):
        client.set_flow_run_state(run.id, Pending())

    assert [state_of(client, run.id) for run in (under_way, second)] == [StateType.PENDING, StateType.CANCELLED]
    client.set_flow_run_state(under_way.id, Completed(), force=True)


def test_a_full_pool_hands_out_its_next_run_when_there_is_room(client: SyncPrefectClient) -> None:
    deployment = client.read_deployment_by_name("gpu-step/gpu")
    params: dict[str, Any] = {"entry": "tasks.rag.steps.embed", "params": {}}
    runs = [client.create_flow_run_from_deployment(deployment.id, parameters=params) for _ in range(2)]
    soon = datetime.now(UTC) + timedelta(minutes=1)

    [handed] = client.get_scheduled_flow_runs_for_work_pool("gpu", scheduled_before=soon)
    client.set_flow_run_state(handed.flow_run.id, Pending())
    client.set_flow_run_state(handed.flow_run.id, Running())
    while_full = client.get_scheduled_flow_runs_for_work_pool("gpu", scheduled_before=soon)
    client.set_flow_run_state(handed.flow_run.id, Completed())
    [after] = client.get_scheduled_flow_runs_for_work_pool("gpu", scheduled_before=soon)

    assert while_full == []
    assert {handed.flow_run.id, after.flow_run.id} == {run.id for run in runs}
    client.set_flow_run_state(after.flow_run.id, Completed(), force=True)


def test_only_a_run_whose_heartbeats_stopped_is_crashed(client: SyncPrefectClient) -> None:
    """Heartbeats of 105 s ago: 15 more seconds of silence make a zombie; a pause or an end is no silence."""
    for _ in range(3):
        dead, paused, ended, never_began = (client.create_flow_run(waiting) for _ in range(4))
        for run in (dead, paused, ended):
            client.set_flow_run_state(run.id, Running())
        until(lambda: all(has_told(client, run, "Running") for run in (dead, paused, ended)))  # noqa: B023
        for run in (dead, paused, ended):
            beat(client, run, datetime.now(UTC) - timedelta(seconds=105))
        until(lambda: [silences(run) for run in (dead, paused, ended)] == [[0], [0], [0]])  # noqa: B023
        client.set_flow_run_state(paused.id, Paused(timeout_seconds=600))
        client.set_flow_run_state(ended.id, Completed())
        if comes(lambda: all(silences(paused) + silences(ended)), within_s=10):  # noqa: B023
            break  # else Prefect has put an event aside for minutes, until the one before it is known: other runs, then
    else:
        raise AssertionError("three times no event ended the wait of a run that was paused or completed")

    def crashed() -> bool:
        look_again(client)
        return state_of(client, dead.id) is StateType.CRASHED

    until(crashed)

    zombie = client.read_flow_run(dead.id).state
    assert isinstance(zombie, State)
    assert (zombie.type, "Retry" in str(zombie.message)) == (StateType.CRASHED, True)
    assert [state_of(client, run.id) for run in (paused, ended, never_began)] == [
        StateType.PAUSED,
        StateType.COMPLETED,
        StateType.PENDING,
    ]


def look_again(client: SyncPrefectClient) -> None:
    """The server looks for silence once in two minutes while nobody beats, and when an automation has changed."""
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.pause_automation(zombies.id)
    client.resume_automation(zombies.id)


def silences(run: FlowRun) -> list[int]:
    """How many events the automation has seen since the heartbeat that it waits behind, read where Prefect counts."""
    file = Path(os.environ["PREFECT_HOME"], "prefect.db")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT count FROM automation_bucket WHERE bucketing_key LIKE ?", [f"%{run.id}%"])
        return [count for (count,) in rows]


def has_told(client: SyncPrefectClient, run: FlowRun, state: str) -> bool:
    """Whether the server has seen the event of this state, which came before the heartbeats."""
    wanted = {
        "event": {"name": [f"prefect.flow-run.{state}"]},
        "resource": {"id": [f"prefect.flow-run.{run.id}"]},
        "occurred": {"since": (datetime.now(UTC) - timedelta(hours=1)).isoformat()},
    }
    return bool(client.request("POST", "/events/filter", json={"filter": wanted}).json()["events"])


def beat(client: SyncPrefectClient, run: FlowRun, at: datetime) -> None:
    event = Event(
        occurred=at,  # pyright: ignore[reportArgumentType] its type is a datetime at run time
        event="prefect.flow-run.heartbeat",
        resource={"prefect.resource.id": f"prefect.flow-run.{run.id}"},  # pyright: ignore[reportArgumentType]
        id=UUID(int=run.id.int ^ 1),
    )
    client.request("POST", "/events", json=[event.model_dump(mode="json")])
