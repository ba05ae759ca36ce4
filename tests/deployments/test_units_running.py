"""The units' own command lines, with their own variables and nothing else: what a worker leaves is done by the next."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from flows.service import supervising
from flows.service.api import Api
from flows.service.place import DEFAULT_PORT, PORT
from flows.service.server_database import EXTENSION
from storage.embedded import Cluster
from tests.command import TRIVET
from tests.deployments.units import unit
from tests.flows.web.served import sign_in
from tests.service.serviced import ROOT, deploy_doze, diary_of, free_port

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.drill, pytest.mark.timeout(300)]

PATIENCE_S = 90.0
AUTH = "operator:secret"


class Machine(NamedTuple):
    """Where units run that think that they are on a machine of their own."""

    home: Path
    port: int
    pages_port: int
    ended: ExitStack

    def start(self, name: str, **file: str) -> subprocess.Popen[bytes]:
        """What systemd starts.

        file: the variables of its EnvironmentFile.
        """
        read = unit(name)
        told = {key: self._here(value) for key, value in read.environment.items()} | file
        arguments = [self._here(word) for word in read.command[1:]]
        process = subprocess.Popen(
            [*PROGRAMS[read.command[0]], *(each for word in arguments for each in read_by_systemd(word, told))],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "OMP_NUM_THREADS": "1", **told},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        self.ended.callback(end, process)
        return process

    @property
    def api(self) -> Api:
        return Api(f"http://127.0.0.1:{self.port}/api", AUTH)

    def _here(self, text: str) -> str:
        here = {"/var/lib/trivet": str(self.home), str(PORT): str(self.port), str(DEFAULT_PORT): str(self.pages_port)}
        return re.sub("|".join(here), lambda found: here[found[0]], text)


PROGRAMS = {"/opt/trivet/bin/python": (sys.executable,), "/opt/trivet/bin/trivet": TRIVET}


def read_by_systemd(word: str, variables: dict[str, str]) -> list[str]:
    """The arguments that a word of a command line is: those of the variable, where it is `$NAME`."""
    return shlex.split(variables.get(word[1:], "")) if word.startswith("$") else [word]


def end(process: subprocess.Popen[bytes]) -> int:
    """As `systemctl stop` does; gives the exit status."""
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=60)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with ExitStack() as ended:
        yield Machine(tmp_path / "lib", free_port(), free_port(), ended)
    assert supervising.of_service(str(tmp_path / "lib")) == []


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The address of a PostgreSQL with an empty database."""
    cluster = Cluster(tmp_path, extension=EXTENSION)
    yield cluster.start().replace("postgresql://", "postgresql+asyncpg://", 1)
    cluster.remove()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)


def test_a_run_of_a_stopped_worker_is_done_by_the_next(database: str, machine: Machine, tmp_path: Path) -> None:
    api, diary = machine.api, tmp_path / "diary"
    machine.start("server", PREFECT_SERVER_DATABASE_CONNECTION_URL=database, PREFECT_SERVER_API_AUTH_STRING=AUTH)
    worker = machine.start("worker-cpu", PREFECT_API_AUTH_STRING=AUTH)
    until(api.ready)
    assert machine.start("deploy", PREFECT_API_AUTH_STRING=AUTH).wait(timeout=PATIENCE_S) == 0
    parameters = {"parameters": {"diary": str(diary), "seconds": 5}}
    run = api.post(f"/deployments/{deploy_doze(api)}/create_flow_run", parameters)["id"]
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
