"""The Prefect API that commands of a home share: found again, never two, ended when idle or told to."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer

import httpx
import pytest

from flows.running.command_server import ADDRESS, Address, end_shared_api, folder_of, start_of_process
from tests.command import run_apart, until

USING = """
import os, sys
from pathlib import Path
from flows.running import command_server, environment
from flows.running.command_server import prefect_api, wait_until_healthy
from flows.running.settings import settings
environment.prepare_environment()
environment.ANSWER_S, command_server.LOOK_S, command_server.IDLE_S = 0.1, 0.2, float(sys.argv[1])
with prefect_api(settings().home):
    wait_until_healthy(settings().home)
    print(os.environ["PREFECT_API_URL"], flush=True)
    sys.stdin.read()
"""
"""A command that uses the API until its stdin ends."""
PATIENCE_S = 120.0
IDLE_S = 1.0


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose database is made once, which takes longer than all else."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def home(used_home: Path) -> Iterator[Path]:
    yield used_home
    end_shared_api(used_home)


def begin(home: Path, *, idle_s: float = 600, stderr: int | None = None, **environment: str) -> subprocess.Popen[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
    return subprocess.Popen(
        [sys.executable, "-c", USING, str(idle_s)],
        env=ours | {"TRIVET_HOME": str(home)} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def end(command: subprocess.Popen[str]) -> str:
    """The URL that a command was given, after it has ended."""
    return command.communicate(timeout=PATIENCE_S)[0].strip()


def held(home: Path, *, idle_s: float = 600) -> subprocess.Popen[str]:
    """A command that has the API, and goes on using it."""
    command = begin(home, idle_s=idle_s)
    assert command.stdout
    assert command.stdout.readline().startswith("http://127.0.0.1:")
    return command


def address_files(home: Path) -> list[Path]:
    return [*(home / "api").glob(f"*/{ADDRESS}")]


def pid_of(home: Path) -> int:
    [file] = address_files(home)
    return json.loads(file.read_bytes())["pid"]


def is_running(pid: int) -> bool:
    return start_of_process(pid) is not None


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_commands_share_one_server_until_it_is_ended(home: Path) -> None:
    both = [begin(home), begin(home)]
    first, second = map(end, both)
    assert first == second, "two at once start one"
    pid = pid_of(home)
    [file] = address_files(home)
    assert (file.stat().st_mode & 0o777, file.parent.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    using = held(home)
    using.kill()  # -9: what it held is free, and the server stays
    using.communicate()

    os.kill(pid, signal.SIGSTOP)
    waiting = begin(home)
    time.sleep(2)
    assert waiting.poll() is None, "one that is slow is waited for"
    os.kill(pid, signal.SIGCONT)
    assert (end(waiting), pid_of(home)) == (first, pid)

    stopped = run_apart("down", "--json", TRIVET_HOME=str(home))
    assert stopped.json == {"stopped": ["the Prefect API of commands"]}
    assert (is_running(pid), address_files(home)) == (False, [])


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_a_server_that_died_is_replaced_and_an_idle_one_ends_itself(home: Path) -> None:
    end(begin(home))
    dead = pid_of(home)
    os.kill(dead, signal.SIGKILL)
    until(lambda: not is_running(dead))  # on a busy machine it takes its time
    using = held(home, idle_s=IDLE_S)
    last = pid_of(home)
    assert last != dead

    time.sleep(3 * IDLE_S)
    assert is_running(last), "a command holds it"
    end(using)
    until(lambda: not is_running(last))
    assert not address_files(home)


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_a_run_is_created_while_another_request_writes(home: Path) -> None:
    using = held(home)
    [file] = address_files(home)
    address = Address.model_validate_json(file.read_bytes())
    user, _, password = address.auth.partition(":")
    with (
        httpx.Client(base_url=address.url, auth=(user, password), timeout=PATIENCE_S) as client,
        closing(
            sqlite3.connect(home / "prefect" / "prefect.db", isolation_level=None, check_same_thread=False)
        ) as other,
    ):
        flow = client.post("/flows/", json={"name": "waits"}).json()["id"]
        other.execute("BEGIN IMMEDIATE")  # as a request that writes
        Timer(1, other.rollback).start()
        answer = client.post("/flow_runs/", json={"flow_id": flow})
    end(using)
    assert answer.status_code == 201, "not 503, after which a client waits for 2, 4, 8, … s"


def test_a_process_that_has_the_pid_of_a_dead_server_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    file = folder_of(tmp_path) / ADDRESS
    file.parent.mkdir(parents=True)
    file.write_text(Address(url="", auth="", pid=other.pid, started="1").model_dump_json())
    assert not end_shared_api(tmp_path)
    assert not end_shared_api(tmp_path / "another")
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_copied_home_and_commands_with_other_settings_have_a_server_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {folder_of(tmp_path), folder_of(tmp_path / "copy")}
    monkeypatch.setenv("PREFECT_SERVER_API_DEFAULT_LIMIT", "50")
    assert len(folders | {folder_of(tmp_path)}) == 3
