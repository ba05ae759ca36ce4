"""`trivet rerun`: which run is meant, what is refused, and what a worker then finds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from flows.running.command_server import prefect_api, wait_until_healthy
from flows.running.configuring import configure_steps
from flows.running.settings import settings
from tests.command import run_apart, run_here

configure_steps()

from prefect import flow, task  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient, get_client  # noqa: E402
from prefect.client.schemas.actions import WorkPoolCreate  # noqa: E402
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions, FlowRun, State  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Failed, Pending, Running  # noqa: E402

pytestmark = pytest.mark.engine

POOL = "pool-of-reruns"
NOBODY = "http://127.0.0.1:9/api"
"""The port of `discard`, where nobody listens."""

Make = Callable[..., FlowRun]


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[SyncPrefectClient]:
    with prefect_api(settings().home):
        wait_until_healthy(settings().home)
        with (
            temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}),
            get_client(sync_client=True) as opened,
        ):
            opened.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
            yield opened


@pytest.fixture(scope="module")
def deployment(client: SyncPrefectClient) -> Callable[[str], UUID]:
    """The id of a deployment of a flow of this name; no worker asks for its runs."""

    def deployment_of(name: str) -> UUID:
        return client.create_deployment(
            client.create_flow_from_name(name),
            name="of-reruns",
            work_pool_name=POOL,
            parameter_openapi_schema={"type": "object", "properties": {}},
        )

    return deployment_of


@pytest.fixture
def make(client: SyncPrefectClient, deployment: Callable[[str], UUID]) -> Make:
    """A run that has come to a state without having run."""

    def make(state: State[Any], *, name: str | None = None, flow: str = "rag", parent: UUID | None = None) -> FlowRun:
        run = client.create_flow_run_from_deployment(deployment(flow), name=name, parent_task_run_id=parent)
        client.set_flow_run_state(run.id, state, force=True)
        return client.read_flow_run(run.id)

    return make


def state_of(client: SyncPrefectClient, run: FlowRun) -> str | None:
    state = client.read_flow_run(run.id).state
    return state.name if state else None


@pytest.mark.parametrize("state", [Failed, Crashed, Cancelled, Completed], ids=lambda one: one.__name__)
def test_a_run_that_has_ended_waits_for_a_worker_again(
    client: SyncPrefectClient, make: Make, state: Callable[..., State[Any]]
) -> None:
    run = make(state(message="a figure is not described"))
    told = run_here("rerun", run.id, "--json").json
    assert (told["id"], told["deployment"], told["ended"]) == (str(run.id), "rag/of-reruns", False)
    assert state_of(client, run) == told["state"] == "AwaitingRetry"
    assert told["url"].endswith(f"/v2/runs/flow-run/{run.id}")


def test_a_run_is_meant_by_its_name_or_the_beginning_of_its_id(client: SyncPrefectClient, make: Make) -> None:
    named, other = make(Failed(), name=f"index {uuid4()}"), make(Failed())
    assert run_here("rerun", named.name, "--json").json["id"] == str(named.id)
    assert run_here("rerun", str(other.id)[:-2], "--json").json["id"] == str(other.id)
    assert {state_of(client, run) for run in (named, other)} == {"AwaitingRetry"}


def test_a_name_of_several_runs_is_refused_with_their_ids(client: SyncPrefectClient, make: Make) -> None:
    name = f"evaluate {uuid4()}"
    twins = [make(Failed(), name=name), make(Completed(), name=name)]
    done = run_here("rerun", name)
    assert (done.code, done.stdout) == (2, "")
    assert "means 2 runs, the newest first: " in done.stderr
    assert all(
        f"{name} ({twin.id}, {state})" in done.stderr
        for twin, state in zip(twins, ("Failed", "Completed"), strict=True)
    )
    assert [state_of(client, run) for run in twins] == ["Failed", "Completed"]


def test_a_run_that_nobody_knows_is_refused() -> None:
    for wanted in (uuid4(), "noble-heron", "0"):
        done = run_here("rerun", wanted)
        assert (done.code, f"there is no run '{wanted}'" in done.stderr) == (2, True)


def test_a_run_under_way_is_left_alone(client: SyncPrefectClient, make: Make) -> None:
    run = make(Running())
    done = run_here("rerun", run.id)
    assert (done.code, "has not ended; wait for it, or cancel it first" in done.stderr) == (2, True)
    assert state_of(client, run) == "Running"


@pytest.mark.parametrize("state", [Running(), Pending(), AwaitingRetry()], ids=lambda state: state.name)
def test_a_run_is_left_as_it_ended_while_another_has_the_place_of_its_deployment(
    client: SyncPrefectClient, state: State[Any]
) -> None:
    one_at_a_time = client.create_deployment(
        client.create_flow_from_name("nightly"),
        name="one-at-a-time",
        work_pool_name=POOL,
        parameter_openapi_schema={"type": "object", "properties": {}},
        concurrency_limit=1,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
    )
    good, other = (client.create_flow_run_from_deployment(one_at_a_time) for _ in range(2))
    client.set_flow_run_state(good.id, Completed(), force=True)
    client.set_flow_run_state(other.id, state, force=True)

    done = run_here("rerun", good.id)
    assert (done.code, done.stdout) == (2, "")
    assert f"its deployment has no place beside {other.name} ({other.id}, {state.name})" in done.stderr
    assert f"wait for that or cancel it, then: trivet rerun {good.id}" in done.stderr
    assert state_of(client, good) == "Completed"

    client.set_flow_run_state(other.id, Completed(), force=True)
    assert run_here("rerun", good.id, "--json").json["state"] == "AwaitingRetry"
    client.set_flow_run_state(good.id, Completed(), force=True)


def test_a_run_without_a_deployment_is_to_be_started_as_before(client: SyncPrefectClient) -> None:
    @flow(name="rag")
    def by_hand() -> None:
        """Never runs."""

    run = client.create_flow_run(by_hand, state=Failed())
    done = run_here("rerun", run.id)
    assert (done.code, "run its command again" in done.stderr) == (2, True)
    assert state_of(client, run) == "Failed"


@pytest.mark.parametrize("flow", ["gpu-step", "evaluation"])
def test_of_a_part_of_a_run_the_whole_is_named(client: SyncPrefectClient, make: Make, flow: str) -> None:
    @task
    def embed() -> None:
        """Never runs."""

    parent = make(Failed(), name="index of a parent")
    waiting = client.create_task_run(embed, flow_run_id=parent.id, dynamic_key="0")
    child = make(Failed(), flow=flow, parent=waiting.id)
    done = run_here("rerun", child.id)
    assert done.code == 2
    assert "is a part of index of a parent, which a rerun of the part alone would not resume" in done.stderr
    assert f"trivet rerun {parent.id}" in done.stderr
    assert state_of(client, child) == "Failed"


def test_who_would_wait_for_nobody_is_told(make: Make) -> None:
    done = run_here("rerun", make(Failed()).id)
    assert (done.code, done.stderr) == (0, f"no worker of the pool {POOL} is alive; `trivet up` starts one\n")


@pytest.mark.parametrize(
    ("state", "code"),
    [(Completed(), 0), (Completed(name="CompletedWithFailures", message="2 failed"), 3), (Failed(message="no GPU"), 1)],
    ids=["completed", "with failures", "failed"],
)
def test_waiting_tells_how_it_ended(client: SyncPrefectClient, make: Make, state: State[Any], code: int) -> None:
    run = make(Failed())

    def work() -> None:
        while state_of(client, run) != "AwaitingRetry":
            time.sleep(0.05)
        client.set_flow_run_state(run.id, state, force=True)

    with ThreadPoolExecutor(1) as worker:
        worker.submit(work)
        done = run_here("rerun", run.id, "--wait", "--json")
    assert (done.code, done.json["state"], done.json["message"]) == (code, state.name, state.message)


def test_without_a_server_it_says_how_to_get_one(tmp_path: Path) -> None:
    missing = run_apart("rerun", "x", PREFECT_API_URL="", TRIVET_HOME=str(tmp_path))
    silent = run_apart("rerun", "x", PREFECT_API_URL=NOBODY)
    assert (missing.code, "start one with `trivet up`" in missing.stderr) == (1, True)
    assert (silent.code, f"no Prefect server answers at {NOBODY}" in silent.stderr) == (1, True)
