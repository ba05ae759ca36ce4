"""The Prefect API that commands of a home share: found again, never two, ended when idle or told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.running import command_server
from flows.running.command_server import ADDRESS, Address, end_shared_api
from tests.command import run_apart

USING = """
import os, sys
from pathlib import Path
from flows.running import command_server
from flows.running.command_server import prefect_api, wait_until_healthy
from flows.running.environment import prepare_environment
from flows.running.settings import settings
prepare_environment()
command_server.IDLE_S = float(sys.argv[1])
with prefect_api(settings().home):
    wait_until_healthy(settings().home)
    print(os.environ["PREFECT_API_URL"], flush=True)
    sys.stdin.read()
"""
"""A command that uses the API until its stdin ends."""
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose database is made once, which takes longer than all tests."""
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


def use(home: Path, **how: Any) -> str:
    """The URL that a whole command was given."""
    said, _ = begin(home, **how).communicate(timeout=PATIENCE_S)
    return said.strip()


def pid_of(home: Path) -> int:
    return json.loads((home / ADDRESS).read_bytes())["pid"]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_later_commands_use_the_same_server_until_it_is_ended(home: Path) -> None:
    first = use(home)
    pid = pid_of(home)
    assert (use(home), pid_of(home)) == (first, pid)
    assert (home / ADDRESS).stat().st_mode & 0o777 == 0o600

    held = begin(home)
    assert held.stdout
    assert held.stdout.readline().strip() == first
    held.kill()  # -9: what it held is free, and the server stays
    held.communicate()
    assert (use(home), is_running(pid)) == (first, True)
    assert not end_shared_api(home / "another")

    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))  # on a busy machine it takes its time
    assert use(home) != first
    replaced = pid_of(home)
    assert replaced != pid

    recorded = json.loads((home / ADDRESS).read_bytes())
    (home / ADDRESS).write_text(json.dumps(recorded | {"made_of": "3.7.7 " + recorded["made_of"].split()[1]}))
    use(home)
    assert pid_of(home) != replaced
    assert not is_running(replaced), "the server of another Prefect was ended, since nobody used it"

    last = pid_of(home)
    stopped = run_apart("down", "--json", TRIVET_HOME=str(home))
    assert stopped.json == {"stopped": ["the Prefect API of commands"]}
    assert (is_running(last), (home / ADDRESS).exists()) == (False, False)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_two_commands_at_once_start_one_server(home: Path) -> None:
    both = [begin(home), begin(home)]
    said = {command.communicate(timeout=PATIENCE_S)[0] for command in both}
    assert len(said) == 1


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_a_command_with_other_settings_leaves_a_used_server_alone(home: Path) -> None:
    held = begin(home)
    assert held.stdout
    assert held.stdout.readline()
    pid = pid_of(home)
    refused = begin(home, stderr=subprocess.PIPE, PREFECT_SERVER_API_DEFAULT_LIMIT="50")
    assert "has other PREFECT_ settings; wait for that command" in refused.communicate(timeout=PATIENCE_S)[1]
    assert (pid_of(home), is_running(pid)) == (pid, True)
    held.communicate()


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_a_server_that_is_slow_is_waited_for(home: Path) -> None:
    first = use(home)
    pid = pid_of(home)
    os.kill(pid, signal.SIGSTOP)
    waiting = begin(home)
    time.sleep(7)
    assert waiting.poll() is None
    os.kill(pid, signal.SIGCONT)
    assert (waiting.communicate(timeout=PATIENCE_S)[0].strip(), pid_of(home)) == (first, pid)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_a_server_that_nobody_uses_ends_itself(home: Path) -> None:
    held = begin(home, idle_s=1)
    assert held.stdout
    assert held.stdout.readline()
    pid = pid_of(home)
    time.sleep(4)
    assert is_running(pid), "a command holds it"
    held.communicate()
    until(lambda: not is_running(pid))
    assert not (home / ADDRESS).exists()


def test_a_process_that_has_the_pid_of_a_dead_server_is_left_alone(home: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    (home / ADDRESS).parent.mkdir(exist_ok=True)
    told = {"url": "", "auth": "", "pid": other.pid, "started": "1", "home": str(home), "made_of": ""}
    (home / ADDRESS).write_text(json.dumps(told))
    assert not end_shared_api(home)
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_copied_home_starts_its_own_server_while_that_of_the_original_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = command_server._start_of(os.getpid()) or ""
    running = Address(url="", auth="", pid=os.getpid(), started=started, home=str(tmp_path / "original"), made_of="")
    own = running.model_copy(update={"home": str(tmp_path)})
    (tmp_path / ADDRESS).parent.mkdir()
    (tmp_path / ADDRESS).write_text(running.model_dump_json())
    monkeypatch.setattr(command_server, "_start", lambda _: own)
    address, holding = command_server._join(tmp_path)
    holding.close()
    assert address == own
