"""`trivet deploy` against a server: all of it once, again what the folder says; then what the server does with runs.

One server for all: what is deployed first counts, the notifications come with the tests that hear them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
import yaml

from flows.running.environment import prepare_environment

os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"  # the API is gone before Prefect's last flush
prepare_environment()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient, get_client  # noqa: E402
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate, WorkPoolUpdate  # noqa: E402
from prefect.client.schemas.objects import FlowRun, State, StateType  # noqa: E402
from prefect.events import Event  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402
from prefect.states import Completed, Failed, Paused, Running, Scheduled  # noqa: E402

from flows.running.settings import settings  # noqa: E402
from flows.service.api import Api  # noqa: E402
from flows.service.deploy import SCHEDULES, Deployed, DeployFailed, deploy, pack_schedules  # noqa: E402
from storage.files import write  # noqa: E402
from tests.command import run_here, until  # noqa: E402
from tests.service.serviced import DEPLOYMENTS, free_port  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


@flow(name="waiting")
def waiting() -> None:
    """Never run: it stands for runs whose process is elsewhere."""


@flow(name="nightly")
def night() -> None:
    """Never run, as above."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with an empty database, which the environment names."""
    home, port = tmp_path_factory.mktemp("server"), free_port()
    (home / "prefect").mkdir()
    api = Api(f"http://127.0.0.1:{port}/api", None)
    named = {
        "TRIVET_HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": api.url,
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect/prefect.db",
        "TRIVET_TIMEZONE": "Europe/Berlin",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        process = subprocess.Popen([sys.executable, "-P", "-m", "flows.service.run_server", str(port)])
        try:
            until(api.is_ready)
            with temporary_settings({PREFECT_API_URL: api.url}):
                yield api
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def first(server: Api) -> Deployed:
    """What the first deploy did."""
    return deploy(server)


@pytest.fixture
def client(first: Deployed) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as opened:
        yield opened


def only(folder: Path, name: str, *, config: dict[str, Any] | None = None, **changed: Any) -> None:
    """Leave one deployment in the folder, changed: each of them takes seconds."""
    file = folder / "prefect.yaml"
    told = yaml.safe_load(file.read_text())
    [kept] = [one for one in told["deployments"] if one["name"] == name]
    if config:
        kept["parameters"]["config"] |= config
    file.write_text(yaml.safe_dump(told | {"deployments": [kept | changed]}))


def test_a_first_deploy_makes_everything(first: Deployed, client: SyncPrefectClient) -> None:
    assert (set(first.deployments), first.unchanged) == (DEPLOYMENTS, False)
    pools = {pool.name: (pool.type, pool.concurrency_limit) for pool in client.read_work_pools()}
    assert pools == {"cpu": ("process", 4), "gpu": ("process", 1)}
    limits = {limit.name: limit.limit for limit in client.read_global_concurrency_limits(limit=10, offset=0)}
    assert {name: limits[name] for name in ("gpu", "judge", "database")} == {"gpu": 1, "judge": 16, "database": 8}
    assert [one.name for one in client.read_automations()] == ["trivet-zombies"]


def test_nights_are_off_at_first_and_in_the_time_zone_of_the_environment(client: SyncPrefectClient) -> None:
    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (nightly.active, getattr(nightly.schedule, "timezone", None)) == (False, "Europe/Berlin")


def test_an_unchanged_folder_is_deployed_again_only_when_asked(
    client: SyncPrefectClient, server: Api, folder: Path
) -> None:
    before = client.read_deployment_by_name("rag/index")
    assert deploy(server, folder, even_unchanged=False).unchanged
    assert client.read_deployment_by_name("rag/index").updated == before.updated

    only(folder, "index", config={"index": "/srv/index"})
    assert not deploy(server, folder, even_unchanged=False).unchanged
    assert client.read_deployment_by_name("rag/index").parameters["config"]["index"] == "/srv/index"


def test_pools_limits_zones_and_what_was_switched_stay_as_they_were_set(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIVET_TIMEZONE")
    nightly = client.read_deployment_by_name("nightly/nightly")
    client.update_deployment_schedule(nightly.id, nightly.schedules[0].id, active=True)
    client.update_work_pool("cpu", WorkPoolUpdate(concurrency_limit=9))
    client.update_global_concurrency_limit("judge", GlobalConcurrencyLimitUpdate(limit=3))
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.pause_automation(zombies.id)

    done = run_here("deploy", "--json")

    assert (done.code, set(done.json["deployments"])) == (0, DEPLOYMENTS), done.stderr
    assert client.read_work_pool("cpu").concurrency_limit == 9
    assert client.read_global_concurrency_limit_by_name("judge").limit == 3
    [zombies] = client.read_automations_by_name("trivet-zombies")
    assert not zombies.enabled
    client.resume_automation(zombies.id)
    [schedule] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (schedule.active, getattr(schedule.schedule, "timezone", None)) == (True, "Europe/Berlin")


def test_what_was_set_in_the_ui_is_taken_up_by_a_restored_home(
    client: SyncPrefectClient, server: Api, folder: Path
) -> None:
    only(folder, "nightly")
    nightly = client.read_deployment_by_name("nightly/nightly")
    own = {"config": {"suite": "/srv/suite.yaml"}}
    server.send("PATCH", f"/deployments/{nightly.id}", {"parameters": own})
    packed = pack_schedules(server)
    assert not deploy(server, folder).unchanged
    assert client.read_deployment_by_name("nightly/nightly").parameters != own
    write(settings().home / SCHEDULES, packed)
    deploy(server, folder)
    assert client.read_deployment_by_name("nightly/nightly").parameters == own
    assert not (settings().home / SCHEDULES).exists()


def test_a_folder_that_cannot_be_deployed_is_named_with_what_prefect_says(server: Api, folder: Path) -> None:
    only(folder, "index", entrypoint="flows.rag.nothing")
    with pytest.raises(DeployFailed, match=r"prefect\.yaml cannot be deployed"):
        deploy(server, folder)


def test_a_time_zone_that_is_none_is_named(server: Api, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIVET_TIMEZONE", "Berlin")
    only(folder, "nightly")
    with pytest.raises(DeployFailed, match="Berlin"):
        deploy(server, folder)


@pytest.fixture(scope="module")
def notified(first: Deployed, server: Api) -> Iterator[list[dict[str, Any]]]:
    """What is posted to TRIVET_NOTIFY_URL, with which everything is deployed once more."""
    heard: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """No word on stderr."""

    with HTTPServer(("127.0.0.1", 0), Hook) as listening, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIVET_NOTIFY_URL", f"http://127.0.0.1:{listening.server_port}/hook?key=hidden")
        deploy(server)
        Thread(target=listening.serve_forever, daemon=True).start()
        yield heard
        listening.shutdown()


@pytest.fixture
def hook(notified: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is posted during one test."""
    notified.clear()
    return notified


def test_failures_are_told_to_the_address_of_the_environment(
    client: SyncPrefectClient, hook: list[dict[str, Any]]
) -> None:
    run = client.create_flow_run(waiting, name='index "a"')
    client.set_flow_run_state(run.id, Running())
    client.set_flow_run_state(run.id, Failed(name="Regressed", message="MATH500 fell by 0.3"))

    until(lambda: bool(hook))

    assert hook[0]["text"].startswith('waiting / index "a": Regressed. MATH500 fell by 0.3')


def test_a_night_over_its_budget_is_told(client: SyncPrefectClient, hook: list[dict[str, Any]]) -> None:
    run = client.create_flow_run(night, name="nightly models")
    whole = {"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": "nightly models"}
    spent = {"text": "nightly models is over its budget: 6.20 of 5.00 in money spent so far, after small."}
    over = Event.model_validate({"event": "trivet.night.over-budget", "resource": whole, "payload": spent})
    client._client.post("/events", json=[over.model_dump(mode="json")]).raise_for_status()

    until(lambda: bool(hook))

    assert [each["text"] for each in hook] == [spent["text"]]


def test_nights_that_do_not_begin_or_end_and_pools_without_workers_are_told(
    client: SyncPrefectClient, hook: list[dict[str, Any]]
) -> None:
    [deadline] = client.read_automations_by_name("trivet-notify-deadline")
    assert deadline.trigger.model_dump()["within"] == timedelta(hours=6)
    soon = deadline.model_copy(
        update={"trigger": deadline.trigger.model_copy(update={"within": timedelta(seconds=11)})}
    )
    body = soon.model_dump(mode="json", exclude={"id", "owner_resource"})
    client._client.put(f"/automations/{deadline.id}", json=body).raise_for_status()
    nights = {name: client.create_flow_run(night, name=name) for name in ("ends", "hangs", "is late")}
    for name in ("ends", "hangs"):
        client.set_flow_run_state(nights[name].id, Running(), force=True)
    client.set_flow_run_state(nights["is late"].id, Scheduled(name="Late"), force=True)
    # an end that overtakes its beginning is looked at after 15 minutes: in a night's six hours, not in 11 seconds
    until(lambda: bool(hook))
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


def state_of(client: SyncPrefectClient, run: UUID) -> StateType | None:
    state = client.read_flow_run(run).state
    return state.type if state else None


def test_only_a_run_whose_heartbeats_stopped_is_crashed(client: SyncPrefectClient) -> None:
    """Heartbeats of 105 s ago: 15 more seconds of silence make a zombie; a pause or an end is no silence."""
    dead, paused, ended, never_began = (client.create_flow_run(waiting) for _ in range(4))
    for run in (dead, paused, ended):
        client.set_flow_run_state(run.id, Running())
    client.set_flow_run_state(paused.id, Paused(timeout_seconds=600))
    client.set_flow_run_state(ended.id, Completed())
    until(lambda: all(events_of(client, run, "Running") for run in (dead, paused, ended)))
    until(lambda: bool(events_of(client, paused, "Paused") and events_of(client, ended, "Completed")))
    for run in (dead, paused, ended):
        beat(client, run, datetime.now(UTC) - timedelta(seconds=105))
    until(lambda: [len(silences(run)) for run in (dead, paused, ended)] == [1, 1, 1])
    for [event] in (events_of(client, paused, "Paused"), events_of(client, ended, "Completed")):
        # one that follows no other: Prefect may put the first aside for minutes, until it knows the one before it
        again = event | {"id": str(uuid4()), "occurred": datetime.now(UTC).isoformat(), "follows": None}
        client.request("POST", "/events", json=[again])
    until(lambda: all(silences(paused) + silences(ended)))

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


def events_of(client: SyncPrefectClient, run: FlowRun, state: str) -> list[dict[str, Any]]:
    """The events by which the server said that a run came to this state."""
    wanted = {
        "event": {"name": [f"prefect.flow-run.{state}"]},
        "resource": {"id": [f"prefect.flow-run.{run.id}"]},
        "occurred": {"since": (datetime.now(UTC) - timedelta(hours=1)).isoformat()},
    }
    return client.request("POST", "/events/filter", json={"filter": wanted}).json()["events"]


def beat(client: SyncPrefectClient, run: FlowRun, at: datetime) -> None:
    event = Event(
        occurred=at,  # pyright: ignore[reportArgumentType] its type is a datetime at run time
        event="prefect.flow-run.heartbeat",
        resource={"prefect.resource.id": f"prefect.flow-run.{run.id}"},  # pyright: ignore[reportArgumentType]
        id=UUID(int=run.id.int ^ 1),
    )
    client.request("POST", "/events", json=[event.model_dump(mode="json")])
