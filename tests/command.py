"""The `trivet` command as a user runs it: in this process, or in one of its own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

TRIVET = (sys.executable, "-c", "from tests.command import be_quick; be_quick(); from flows.cli import main; main()")
TABLES = Path(__file__).parents[1] / "build" / f"prefect-{version('prefect')}.db"
"""Prefect's tables, which it makes in five seconds of CPU: once a checkout, not in each home of a test."""
MAKE = """from asyncio import run
from prefect.server.database import provide_database_interface
run(provide_database_interface().create_db())"""
OWN_TABLES = "TEST_MAKES_TABLES"  # a variable of commands whose server makes its tables itself


def be_quick() -> None:
    """Give servers of commands tables, and seconds after a command: an end in a write locks SQLite for a minute."""
    from flows.running import command_server
    from storage.files import make_folder

    start = command_server.start_server

    def start_server(home: Path, folder: Path) -> command_server.Address:
        place = Path(os.environ["PREFECT_HOME"], "prefect.db")
        if OWN_TABLES not in os.environ and not place.exists():
            make_tables()
            make_folder(place.parent)
            shutil.copyfile(TABLES, place)
        return start(home, folder)

    command_server.start_server, command_server.IDLE_S = start_server, 5


def make_tables() -> None:
    """Make the file of TABLES, unless somebody has."""
    if TABLES.exists():
        return
    TABLES.parent.mkdir(exist_ok=True)
    making = TABLES.with_suffix(".making")
    with TABLES.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not TABLES.exists():
            url = f"sqlite+aiosqlite:///{making}"
            environment = os.environ | {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url}
            subprocess.run([sys.executable, "-P", "-c", MAKE], env=environment, check=True)
            making.rename(TABLES)


def until(holds: Callable[[], object], *, within_s: float = 120.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


class Done(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        [line] = self.stdout.splitlines()
        return json.loads(line)


def run_here(*arguments: object) -> Done:
    """Run in this process, which spares the imports."""
    from typer.testing import CliRunner

    from flows.cli import app

    done = CliRunner().invoke(app, [*map(str, arguments)])
    return Done(done.exit_code, done.stdout, done.stderr)


def run_apart(*arguments: object, before: Callable[[], None] | None = None, **environment: str) -> Done:
    """Run in a process of its own; `before` runs there first."""
    command = [*TRIVET, *map(str, arguments)]
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=240,
        check=False,
        preexec_fn=before,
    )
    return Done(done.returncode, done.stdout, done.stderr)
