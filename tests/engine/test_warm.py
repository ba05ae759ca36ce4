"""Runs that are done in the process of another: cancelled, crashed or handed back, they say so as if it were theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flows.running.configuring import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402
from prefect.client.schemas.objects import FlowRun, State  # noqa: E402
from prefect.states import AwaitingRetry, Cancelling, Completed, Crashed, Pending, Running  # noqa: E402

from flows.running import warm  # noqa: E402
from tasks import call_thread  # noqa: E402

pytestmark = pytest.mark.engine

asleep, awake = threading.Event(), threading.Event()


@flow(name="sleeper")
def sleeper() -> None:
    """Sleeps until the test lets it."""
    asleep.set()
    awake.wait(60)


@flow(name="broken")
def broken() -> None:
    """Fails."""
    raise ValueError("no such weights")


Make = Callable[[State[Any]], FlowRun]


@pytest.fixture
def make(client: SyncPrefectClient) -> Make:
    def made(state: State[Any]) -> FlowRun:
        run = client.create_flow_run(sleeper)
        client.set_flow_run_state(run.id, state, force=True)
        return client.read_flow_run(run.id)

    return made


def hosted(client: SyncPrefectClient, run: FlowRun, host: FlowRun) -> FlowRun:
    client.update_flow_run_labels(run.id, {warm.HOST: str(host.id)})
    return client.read_flow_run(run.id)


def test_a_run_whose_host_crashed_has_crashed(client: SyncPrefectClient, make: Make) -> None:
    run = hosted(client, make(Running()), make(Crashed(message="killed by signal 9")))
    state = warm.settle(client, run).state
    assert state
    assert state.is_crashed()
    assert "killed by signal 9" in str(state.message)


def test_a_run_that_was_just_taken_by_a_host_that_crashed_has_crashed(client: SyncPrefectClient, make: Make) -> None:
    run = make(Pending(message=f"{warm.TAKEN}{make(Crashed()).id}"))
    state = warm.settle(client, run).state
    assert state
    assert state.is_crashed()


def test_a_run_whose_host_waits_to_be_done_again_waits_too(client: SyncPrefectClient, make: Make) -> None:
    host = make(AwaitingRetry())
    run = hosted(client, make(Running()), host)
    state = warm.settle(client, run).state
    assert state
    assert state.is_scheduled()

    client.set_flow_run_state(run.id, Running(), force=True)  # by a process of its own
    client.set_flow_run_state(host.id, Crashed(), force=True)
    state = warm.settle(client, client.read_flow_run(run.id)).state
    assert state
    assert state.is_running()


@pytest.mark.parametrize("host", [Running(), Completed()])
def test_what_a_host_has_done_stands(client: SyncPrefectClient, make: Make, host: State[Any]) -> None:
    run = hosted(client, make(Completed()), make(host))
    assert warm.settle(client, run).state == run.state


def test_a_run_without_a_host_is_left_alone(client: SyncPrefectClient, make: Make) -> None:
    run = make(Running())
    assert warm.settle(client, run).state == run.state


def test_a_run_is_taken_once(client: SyncPrefectClient, make: Make) -> None:
    run, hosts = make(AwaitingRetry()), [make(Running()), make(Running())]
    assert [warm._taken(client, run, host=host.id) for host in hosts] == [True, False]
    assert client.read_flow_run(run.id).labels[warm.HOST] == str(hosts[0].id)


def test_a_run_that_is_cancelled_ends_its_process(client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_thread, "_stopped", threading.Event())  # for good, but for this process of tests
    run = client.create_flow_run(sleeper)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(warm._done, client, sleeper, run)
        assert asleep.wait(60)
        client.set_flow_run_state(run.id, Cancelling(), force=True)
        try:
            assert done.result(60) is False
            state = client.read_flow_run(run.id).state  # while it sleeps: its process would have ended by now
        finally:
            awake.set()
    assert state
    assert state.is_cancelled()


def test_a_run_that_fails_ends_its_process(client: SyncPrefectClient) -> None:
    run = client.create_flow_run(broken)
    assert warm._done(client, broken, run) is False
    state = client.read_flow_run(run.id).state
    assert state
    assert "no such weights" in str(state.message)
