"""The units' own command lines, with their own variables and nothing else: what a worker leaves is done by the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from flows.service import supervising
from flows.service.server_database import EXTENSION
from storage.embedded import Cluster
from tests.command import until
from tests.deployments.units import AUTH, Machine, end
from tests.flows.web.served import sign_in
from tests.service.serviced import deploy, diary_of, free_port, run_dozing

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.drill, pytest.mark.timeout(300)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with ExitStack() as ended:
        yield Machine(tmp_path / "lib", free_port(), free_port(), ended)
    assert supervising.find_processes(str(tmp_path / "lib")) == []


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The address of a PostgreSQL with an empty database."""
    cluster = Cluster(tmp_path, extension=EXTENSION)
    yield cluster.start().replace("postgresql://", "postgresql+asyncpg://", 1)
    cluster.remove()


def test_a_run_of_a_stopped_worker_is_done_by_the_next(database: str, machine: Machine, tmp_path: Path) -> None:
    api, diary = machine.api, tmp_path / "diary"
    machine.start("server", PREFECT_SERVER_DATABASE_CONNECTION_URL=database, PREFECT_SERVER_API_AUTH_STRING=AUTH)
    worker = machine.start("worker-cpu", PREFECT_API_AUTH_STRING=AUTH)
    until(api.is_ready)
    assert machine.start("deploy", PREFECT_API_AUTH_STRING=AUTH).wait(timeout=90) == 0
    run = run_dozing(api, deploy(api), diary, seconds=5)
    until(lambda: diary_of(diary))

    assert end(worker) == 0
    left = api.get(f"/flow_runs/{run}")["state"]
    assert (left["name"], left["message"]) == ("AwaitingRetry", "its worker was stopped")
    machine.start("worker-cpu", PREFECT_API_AUTH_STRING=AUTH)
    until(lambda: api.get(f"/flow_runs/{run}")["state"]["name"] == "Completed")

    assert [line.split()[0] for line in diary_of(diary)] == ["began", "began", "done"]


def test_the_pages_answer_on_their_own_port_to_who_signs_in_with_the_auth_string_of_the_service(
    machine: Machine, tmp_path: Path
) -> None:
    documents = tmp_path / "notices"
    documents.mkdir()
    shown = f"--index notices={tmp_path / 'out'} --documents notices={documents}"
    # no address of a server, for which they would wait
    machine.start("pages", PREFECT_API_URL="", PREFECT_SERVER_API_AUTH_STRING=AUTH, TRIVET_PAGES=shown)
    with httpx.Client(base_url=f"http://127.0.0.1:{machine.pages_port}", follow_redirects=True) as browser:
        until(lambda: answers(browser))
        sign_in(browser, AUTH)
        assert str(documents) in browser.get("/ui/documents").text


def answers(browser: httpx.Client) -> bool:
    try:
        return browser.get("/ui/sign-in").is_success
    except httpx.TransportError:
        return False
