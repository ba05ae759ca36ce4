"""The Prefect API that commands of a home share: found again, never two, ended when idle or told to.

`python -m tests.flows.test_command_server` writes the file of Prefect's tables.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from flows.running import command_server
from flows.running.command_server import (
    ADDRESS,
    TABLES,
    Address,
    end_shared_api,
    join_server,
    make_database,
    start_of_process,
)
from tests.command import run_apart

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


def pid_of(home: Path) -> int:
    return json.loads((home / ADDRESS).read_bytes())["pid"]


def is_running(pid: int) -> bool:
    return start_of_process(pid) is not None


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_commands_share_one_server_until_it_is_ended(home: Path) -> None:
    both = [begin(home), begin(home)]
    first, second = map(end, both)
    assert first == second, "two at once start one"
    pid = pid_of(home)
    assert (home / ADDRESS).stat().st_mode & 0o777 == 0o600

    using = held(home)
    refused = begin(home, stderr=subprocess.PIPE, PREFECT_SERVER_API_DEFAULT_LIMIT="50")
    assert "has other PREFECT_ settings; wait for that command" in refused.communicate(timeout=PATIENCE_S)[1]
    using.kill()  # -9: what it held is free, and the server stays
    using.communicate()

    os.kill(pid, signal.SIGSTOP)
    waiting = begin(home)
    time.sleep(2)
    assert waiting.poll() is None, "one that is slow is waited for"
    os.kill(pid, signal.SIGCONT)
    assert (end(waiting), pid_of(home)) == (first, pid)

    stopped = run_apart("db", "stop", "--json", TRIVET_HOME=str(home))
    assert stopped.json == {"stopped": False, "prefect_api": True}
    assert (is_running(pid), (home / ADDRESS).exists()) == (False, False)


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_a_server_that_died_or_is_of_another_version_is_replaced_and_an_idle_one_ends_itself(home: Path) -> None:
    end(begin(home))
    dead = pid_of(home)
    os.kill(dead, signal.SIGKILL)
    until(lambda: not is_running(dead))  # on a busy machine it takes its time
    end(begin(home))
    former = pid_of(home)
    assert former != dead

    recorded = json.loads((home / ADDRESS).read_bytes())
    (home / ADDRESS).write_text(json.dumps(recorded | {"made_of": "3.7.7 " + recorded["made_of"].split()[1]}))
    using = held(home, idle_s=IDLE_S)
    last = pid_of(home)
    assert last != former
    assert not is_running(former), "the server of another Prefect was ended, since nobody used it"

    time.sleep(3 * IDLE_S)
    assert is_running(last), "a command holds it"
    end(using)
    until(lambda: not is_running(last))
    assert not (home / ADDRESS).exists()


def migrated_tables(home: Path) -> str:
    """What the migrations of the installed Prefect make."""
    migrate = "import asyncio; from prefect.server.database import provide_database_interface as db"
    environment = os.environ | {"PREFECT_HOME": str(home)}
    subprocess.run([sys.executable, "-c", f"{migrate}; asyncio.run(db().create_db())"], env=environment, check=True)
    with closing(sqlite3.connect(home / "prefect.db")) as connection:
        return "\n".join([*connection.iterdump(), ""])


@pytest.mark.engine
def test_a_new_home_gets_the_tables_that_the_migrations_of_prefect_make(tmp_path: Path) -> None:
    comments, tables = re.split("^(?=BEGIN)", TABLES.read_text("utf-8"), flags=re.MULTILINE)
    assert f"Prefect {version('prefect')} " in comments
    # the migrations write the constraints of a table in any order
    assert sorted(re.split(r",?\s*\n", tables)) == sorted(re.split(r",?\s*\n", migrated_tables(tmp_path)))
    make_database(tmp_path / "made")
    with closing(sqlite3.connect(tmp_path / "made" / "prefect.db")) as connection:
        assert "\n".join([*connection.iterdump(), ""]) == tables


def recorded(home: Path, process: int, *, started: str, of: Path) -> Address:
    """A server in the address file of `home`."""
    address = Address(url="", auth="", pid=process, started=started, home=str(of), made_of="")
    (home / ADDRESS).parent.mkdir(exist_ok=True)
    (home / ADDRESS).write_text(address.model_dump_json())
    return address


def test_a_process_that_has_the_pid_of_a_dead_server_is_left_alone(home: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    recorded(home, other.pid, started="1", of=home)
    assert not end_shared_api(home)
    assert not end_shared_api(home / "another")
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_copied_home_starts_its_own_server_while_that_of_the_original_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = recorded(tmp_path, os.getpid(), started=start_of_process(os.getpid()) or "", of=tmp_path / "original")
    own = running.model_copy(update={"home": str(tmp_path)})
    monkeypatch.setattr(command_server, "start_server", lambda _: own)
    address, holding = join_server(tmp_path)
    holding.close()
    assert address == own


if __name__ == "__main__":
    about = re.sub(r"Prefect [\d.]+", f"Prefect {version('prefect')}", TABLES.read_text("utf-8").partition("BEGIN")[0])
    with TemporaryDirectory() as folder:
        TABLES.write_text(about + migrated_tables(Path(folder)), "utf-8")
