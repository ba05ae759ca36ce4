"""An evaluation of the service is cancelled, deleted or killed as it asks: nothing is asked in vain, nothing twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from flows.running.ending import FRESH_S
from tests.drills.evaluating import adder, asked, write_sums
from tests.models.server import Server, serving
from tests.service.serviced import Running, kill, service_home

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]

ITEMS, CONCURRENCY = 160, 4
BEFORE = 40
"""Requests that the server has seen when the run is cancelled."""
PAUSE_S = 0.3
LATEST_S = 3.0
"""Seconds after the cancellation in which requests may still begin: a worker hears of it by then."""


class Service(NamedTuple):
    """A service, the model that its runs ask, and when each request began."""

    running: Running
    server: Server
    began: list[float]

    @property
    def deployment(self) -> str:
        """ID of the deployment that evaluates."""
        return self.running.api.get("/deployments/name/evaluation/evaluate")["id"]

    def parameters(self, folder: Path, *, first: int) -> dict[str, Any]:
        """Of a run that asks the model for the sums from the number `first` on."""
        rates = {"num_concurrent": CONCURRENCY}
        model = {"backend": "openai", "name": "small-vision", "base_url": self.server.base_url, "args": rates}
        data = write_sums(folder / "data", ITEMS, first=first)
        chosen = {"tasks": [{"task": "MATH500"}], "data_dir": str(data), "output_path": str(folder / "out")}
        return {"config": {"model": model, **chosen}}


class Cancelled(NamedTuple):
    """What became of a run that was cancelled."""

    service: Service
    parameters: dict[str, Any]
    asked: int
    """Requests until then."""
    after: list[float]
    """Seconds from the cancellation to each later request."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    began: list[float] = []
    answer = adder(PAUSE_S)

    def timed(body: dict[str, Any]) -> str:
        began.append(time.monotonic())
        return answer(body)

    with serving() as server, service_home() as running:
        server.answer = timed
        running.up("--pools", "cpu")
        yield Service(running, server, began)


@pytest.fixture(scope="module")
def cancelled(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Cancelled:
    running, began = service.running, service.began
    parameters = service.parameters(tmp_path_factory.mktemp("cancelled"), first=0)
    run = running.start(service.deployment, parameters)
    running.until(lambda: len(began) >= BEFORE, "the model is asked")
    at = time.monotonic()
    running.api.post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    running.until(lambda: running.state_of(run) == "Cancelled", "it is cancelled")
    time.sleep(2 * PAUSE_S)
    return Cancelled(service, parameters, len(began), [each - at for each in began if each > at])


def test_no_request_leaves_once_a_worker_has_heard_of_it(cancelled: Cancelled) -> None:
    assert [each for each in cancelled.after if each > LATEST_S] == []


def test_its_hooks_are_looked_for_where_they_are(cancelled: Cancelled) -> None:
    log = cancelled.service.running.place.log_of("cpu").read_text()
    assert "failed to retrieve flow" not in log
    assert "is not a package" not in log


def test_a_new_run_asks_only_what_was_not_answered(cancelled: Cancelled) -> None:
    service = cancelled.service
    again = service.running.start(service.deployment, cancelled.parameters)
    service.running.until(lambda: service.running.state_of(again) == "Completed", "the new run completes")
    assert BEFORE <= cancelled.asked < ITEMS
    assert asked(service.server).total() == ITEMS, "each was asked once"


def test_a_run_that_is_cancelled_before_it_works_ends(service: Service, tmp_path: Path) -> None:
    running = service.running
    run = running.start(service.deployment, service.parameters(tmp_path, first=4 * ITEMS))
    running.until(lambda: running.state_of(run) in ("Pending", "Submitting"), "a worker takes it")
    running.api.post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    running.until(lambda: running.state_of(run) == "Cancelled", "it is cancelled")


def test_a_deleted_run_ends_and_its_worker_goes_on(service: Service, tmp_path: Path) -> None:
    running, before = service.running, len(service.began)
    run = running.start(service.deployment, service.parameters(tmp_path, first=2 * ITEMS))
    running.until(lambda: len(service.began) >= before + BEFORE, "the model is asked")
    user, _, password = str(running.api.auth).partition(":")
    httpx.delete(f"{running.api.url}/flow_runs/{run}", auth=(user, password)).raise_for_status()
    at = time.monotonic() + FRESH_S
    running.until(lambda: all(each.run != run for each in running.processes()), "its process ends")
    assert [each for each in service.began if each > at] == []
    again = running.start(service.deployment, service.parameters(tmp_path, first=2 * ITEMS))
    running.until(lambda: running.state_of(again) == "Completed", "the same worker runs it again")
    assert len(service.began) - before == ITEMS, "each was asked once"


def test_a_suspended_run_that_was_begun_again_asks_nothing_when_it_wakes(service: Service, tmp_path: Path) -> None:
    running, before = service.running, len(service.began)
    run = running.start(service.deployment, service.parameters(tmp_path, first=3 * ITEMS))
    running.until(lambda: len(service.began) >= before + BEFORE, "the model is asked")
    [process] = [each.process for each in running.processes() if each.run == run]
    process.suspend()
    # as the server itself does after two minutes without a heartbeat (test_away_service)
    running.api.post(f"/flow_runs/{run}/set_state", {"state": {"type": "CRASHED", "name": "Crashed"}})
    running.until(lambda: running.api.get(f"/flow_runs/{run}")["run_count"] == 2, "another process begins it")
    process.resume()
    running.until(lambda: running.state_of(run) == "Completed", "it is done")
    assert not process.is_running()
    assert len(service.began) - before <= ITEMS + CONCURRENCY, "no more than what was under way is asked twice"


def test_a_killed_run_is_continued_by_itself_and_says_so(service: Service, tmp_path: Path) -> None:
    running, before = service.running, len(service.began)
    run = running.start(service.deployment, service.parameters(tmp_path, first=ITEMS))
    running.until(lambda: len(service.began) >= before + BEFORE, "the model is asked")
    [pid] = [each.process.pid for each in running.processes() if each.run == run]
    kill(pid)
    running.until(lambda: running.state_of(run) == "Completed", "it is continued")
    assert len(service.began) - before <= ITEMS + CONCURRENCY, "no more than what was under way is asked twice"
    states = running.api.get(f"/flow_run_states/?flow_run_id={run}")
    assert any("Automatic retry 1 of 2" in (state["message"] or "") for state in states)
