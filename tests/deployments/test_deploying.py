"""`trivet deploy` against a server: all of it once, and never over what was set in the UI."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
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
import yaml

from flows.server import prefect_api, wait_until_healthy
from flows.settings import prepare_environment
from tests.command import run_here

os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"  # the API is gone before Prefect's last flush
prepare_environment()

from httpx import HTTPStatusError  # noqa: E402
from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient, get_client  # noqa: E402
from prefect.client.schemas.actions import (  # noqa: E402
    DeploymentUpdate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import FlowRun, State, StateType  # noqa: E402
from prefect.events import Event  # noqa: E402
from prefect.events.schemas.automations import AutomationCore  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402
from prefect.states import Completed, Failed, Paused, Pending, Running  # noqa: E402

from flows.deploying import Deployed, deploy, find_deployments_folder  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

PATIENCE_S = 60.0
DEPLOYMENTS = {
    *("rag/index", "rag-answer/answer", "evaluation/evaluate", "lever/train", "nightly/nightly", "gpu-step/gpu"),
}


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server of its own, with an empty database."""
    home = tmp_path_factory.mktemp("server")
    told = {"PREFECT_HOME": str(home / "prefect"), "PREFECT_API_URL": "", "TRIVET_TIMEZONE": "Europe/Berlin"}
    before = {name: os.environ.get(name) for name in told}
    os.environ |= told
    try:
        with prefect_api(home):
            wait_until_healthy(home)
            with temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}):
                yield home
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="module")
def first(server: Path) -> Deployed:
    """What the first deploy did."""
    return deploy()


@pytest.fixture
def client(first: Deployed) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(find_deployments_folder(), tmp_path / "deployments"))


@flow(name="waiting")
def waiting() -> None:
    """Never run: it stands for runs whose process is elsewhere."""


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)


def edit(file: Path, **change: Any) -> None:
    """Change the deployment `index` of a prefect.yaml."""
    written = yaml.safe_load(file.read_text())
    written["deployments"][0] |= change
    file.write_text(yaml.safe_dump(written))


def test_a_first_deploy_makes_everything(first: Deployed) -> None:
    assert set(first.deployments) == DEPLOYMENTS
    assert (first.pools, first.limits, first.automations) == (
        ("cpu", "gpu"),
        ("gpu", "judge", "database"),
        ("trivet-zombies",),
    )
    assert (first.kept, first.failed) == ((), {})
    assert [line for line in first.changed if not line.endswith("made")] == ["queue gpu/default: limit"]


def test_a_second_deploy_changes_nothing(client: SyncPrefectClient) -> None:
    before = client.read_deployment_by_name("nightly/nightly")

    again = deploy()

    assert (again.changed, again.kept, again.failed) == ((), (), {})
    assert client.read_deployment_by_name("nightly/nightly") == before


def test_the_command_says_that_nothing_changed(client: SyncPrefectClient) -> None:
    told = run_here("deploy", "--json")
    said = run_here("deploy")

    assert (told.code, told.json["changed"], set(told.json["deployments"])) == (0, [], DEPLOYMENTS)
    assert (said.code, said.stdout.splitlines()[0]) == (0, "unchanged")


def test_a_schedule_is_in_the_time_zone_of_the_environment(client: SyncPrefectClient) -> None:
    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (nightly.slug, nightly.active, getattr(nightly.schedule, "timezone", None)) == (
        "nightly",
        True,
        "Europe/Berlin",
    )


def test_a_time_zone_that_is_none_stops_only_what_has_a_schedule(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIVET_TIMEZONE", "Berlin")
    done = deploy()
    assert done.failed.keys() == {"lever/train", "nightly/nightly"}
    assert "TRIVET_TIMEZONE" in done.failed["nightly/nightly"]
    assert set(done.deployments) == DEPLOYMENTS - done.failed.keys()


def test_a_schedule_that_was_switched_off_stays_off(client: SyncPrefectClient, folder: Path) -> None:
    found = client.read_deployment_by_name("nightly/nightly")
    client.update_deployment_schedule(found.id, found.schedules[0].id, active=False)
    assert deploy().changed == ()
    text = (folder / "prefect.yaml").read_text()
    (folder / "prefect.yaml").write_text(text.replace('cron: "0 2 * * *"', 'cron: "30 2 * * *"'))

    moved = deploy(folder)

    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (moved.changed, nightly.active) == (("deployment nightly/nightly: schedules",), False)
    assert getattr(nightly.schedule, "cron", None) == "30 2 * * *"
    deploy()


def test_what_was_set_in_the_ui_stays(client: SyncPrefectClient, folder: Path) -> None:
    found = client.read_deployment_by_name("evaluation/evaluate")
    mine = {"config": found.parameters["config"] | {"overwrite": True}}
    client.update_deployment(found.id, DeploymentUpdate(parameters=mine))
    client.update_work_pool("cpu", WorkPoolUpdate(concurrency_limit=9))
    client.update_global_concurrency_limit("judge", GlobalConcurrencyLimitUpdate(limit=3))

    done = deploy()

    assert (done.changed, set(done.kept)) == (
        (),
        {"deployment evaluation/evaluate: parameters", "pool cpu: limit", "limit judge: slots"},
    )
    assert client.read_deployment_by_name("evaluation/evaluate").parameters == mine
    assert client.read_work_pool("cpu").concurrency_limit == 9


def test_an_edit_of_the_folder_reaches_the_server(client: SyncPrefectClient, folder: Path) -> None:
    told = {"documents": "/srv/documents", "index": "/srv/index"}
    edit(folder / "prefect.yaml", parameters={"config": told}, description="Ours")

    done = deploy(folder)

    found = client.read_deployment_by_name("rag/index")
    assert set(done.changed) == {"deployment rag/index: parameters", "deployment rag/index: settings"}
    assert (found.parameters["config"], found.description) == (told, "Ours")
    assert (found.entrypoint, found.pull_steps, found.work_pool_name) == ("flows.rag.build_index", [], "cpu")
    assert len(deploy().changed) == 2  # and back


def test_parameters_that_no_longer_validate_are_named_and_stop_no_other(client: SyncPrefectClient) -> None:
    """As after an upgrade: what was set in the UI once is no field of the flow any more."""
    found = client.read_deployment_by_name("rag/index")
    old = {"config": found.parameters["config"] | {"chunk_size": 800}}
    client.update_deployment(found.id, DeploymentUpdate(parameters=old, enforce_parameter_schema=False))

    done = deploy()

    assert done.failed.keys() == {"rag/index"}
    assert "chunk_size" in done.failed["rag/index"]
    assert "correct them on its page" in done.failed["rag/index"]
    assert set(done.deployments) == DEPLOYMENTS - {"rag/index"}
    assert run_here("deploy").code == 3
    assert client.read_deployment_by_name("rag/index").parameters == old

    client.update_deployment(found.id, DeploymentUpdate(parameters=found.parameters))
    assert deploy().failed == {}
    assert client.read_deployment_by_name("rag/index").enforce_parameter_schema


def test_an_entrypoint_that_does_not_load_is_named_and_stops_no_other(client: SyncPrefectClient, folder: Path) -> None:
    edit(folder / "prefect.yaml", entrypoint="flows.rag.rebuild")
    done = deploy(folder)
    assert ("flows.rag.rebuild" in str(done.failed), len(done.deployments)) == (True, len(DEPLOYMENTS) - 1)


def test_an_automation_is_there_once_even_after_two_deploys_at_once(client: SyncPrefectClient) -> None:
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.create_automation(AutomationCore.model_validate(zombies.model_dump()))
    assert len(client.read_automations_by_name("trivet-zombies")) == 2

    done = deploy()

    assert done.changed == ("automation trivet-zombies: a double was removed",)
    assert len(client.read_automations_by_name("trivet-zombies")) == 1


def test_an_automation_that_was_switched_off_stays_off(client: SyncPrefectClient) -> None:
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.pause_automation(zombies.id)
    assert deploy().changed == ()
    assert not client.read_automations_by_name("trivet-zombies")[0].enabled
    client.resume_automation(zombies.id)


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
    client: SyncPrefectClient, hook: list[dict[str, Any]]
) -> None:
    done, again = deploy(), deploy()
    run = client.create_flow_run(waiting, name='index "a"')
    client.set_flow_run_state(run.id, Running())
    client.set_flow_run_state(run.id, Failed(name="Regressed", message="MATH500 fell by 0.3"))

    until(lambda: bool(hook))

    assert "trivet-notify" in done.automations
    assert "hidden" not in done.model_dump_json()
    assert again.changed == ()
    assert hook[0]["text"].startswith('waiting / index "a": Regressed. MATH500 fell by 0.3')


def started(client: SyncPrefectClient, name: str) -> FlowRun:
    return client.create_flow_run_from_deployment(client.read_deployment_by_name(name).id)


def state_of(client: SyncPrefectClient, run: UUID) -> StateType | None:
    state = client.read_flow_run(run).state
    return state.type if state else None


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS - {"gpu-step/gpu"}))
def test_the_server_takes_a_run_with_the_parameters_of_the_folder(client: SyncPrefectClient, name: str) -> None:
    run = started(client, name)
    assert run.parameters == client.read_deployment_by_name(name).parameters
    client.set_flow_run_state(run.id, Completed(), force=True)


def test_a_run_whose_parameters_are_out_of_bounds_never_starts(client: SyncPrefectClient) -> None:
    found = client.read_deployment_by_name("rag/index")
    wrong = {"config": found.parameters["config"] | {"chunk_chars": 5}}
    with pytest.raises(HTTPStatusError, match="5 is less than the minimum of 100"):
        client.create_flow_run_from_deployment(found.id, parameters=wrong)


@pytest.mark.parametrize("name", ["nightly/nightly", "rag/index"])
def test_of_two_runs_at_once_the_second_is_cancelled(client: SyncPrefectClient, name: str) -> None:
    under_way, second = started(client, name), started(client, name)
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
    """Heartbeats of a minute ago: 15 more seconds of silence make a zombie; a pause or an end is no silence."""
    dead, paused, ended, never_began = (client.create_flow_run(waiting) for _ in range(4))
    for run in (dead, paused, ended):
        client.set_flow_run_state(run.id, Running())
    until(lambda: all(has_told(client, run, "Running") for run in (dead, paused, ended)))
    for run in (dead, paused, ended):
        beat(client, run, datetime.now(UTC) - timedelta(seconds=60))
    until(lambda: [silences(run) for run in (dead, paused, ended)] == [[0], [0], [0]])
    client.set_flow_run_state(paused.id, Paused(timeout_seconds=600))
    client.set_flow_run_state(ended.id, Completed())
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
    """The server looks for silence once in 75 s while nobody beats, and when an automation has changed."""
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


def test_prefects_own_command_takes_the_file(client: SyncPrefectClient) -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file"]
    done = subprocess.run(
        [*command, str(find_deployments_folder() / "prefect.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert deploy().changed == ()
