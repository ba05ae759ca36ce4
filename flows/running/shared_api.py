"""The Prefect API that the commands of one home share: joined, started, ended. At most one runs.

lock ─► address file ─► alive, same home, same Prefect? join : start flows.running.api_daemon and write the file
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from importlib.metadata import distribution, version
from pathlib import Path
from typing import IO, NamedTuple

from pydantic import ValidationError

from flows.running.api_daemon import ADDRESS, HOLDERS, LOCK, InUse, nobody_uses_it
from storage import files
from storage.records import Record

START_S = 90.0
"""Longest start of a server on a busy machine."""
ANSWER_S = 5.0
END_S = 10.0
"""Longest wait for a server that was told to end; it is killed then."""
MODULE = "flows.running.api_daemon"
DATABASE = "prefect.db"
"""Below PREFECT_HOME: the runs of commands without a server."""
DATABASE_SETTINGS = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
SERVER_SETTINGS = ("PREFECT_HOME", "PREFECT_PROFILE", "PREFECT_SERVER_", "PREFECT_API_DATABASE_")
"""Beginnings of the variables that decide what a server does; commands that differ in them do not share it."""
_left: list[subprocess.Popen[bytes]] = []
"""Servers that outlive this process; kept, since Python warns of a forgotten child."""


class Address(Record):
    """A server that commands share, and how it lets them in."""

    url: str
    """`http://127.0.0.1:40001/api`."""
    auth: str
    """`user:password`."""
    pid: int
    started: str
    """Start of that process in ticks since boot; a later process of the same pid has another."""
    home: str
    made_of: str
    """Prefect's version, and a digest of the settings that a server reads."""

    @property
    def is_alive(self) -> bool:
        """Whether that very process runs."""
        return _start_of(self.pid) == self.started

    def answers(self) -> bool:
        """Whether it lets us in within ANSWER_S, and is the Prefect that it was started as."""
        token = b64encode(self.auth.encode()).decode()
        asked = urllib.request.Request(f"{self.url}/admin/version", headers={"Authorization": f"Basic {token}"})
        with suppress(OSError, http.client.HTTPException), urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:
            return answer.read().decode().strip('"') == version("prefect")
        return False


class Joined(NamedTuple):
    """A server, and the lock that keeps it from ending while this is open."""

    address: Address
    holding: IO[str]


def join(home: Path, *, linger_s: float, log: Path) -> Joined | None:
    """The server of this home, started where none runs; None while other commands use one that does not fit.

    Raises OSError, StoreUnreachable.
    """
    folder = (home / ADDRESS).parent
    files.make_folder(folder)
    folder.chmod(0o700)
    with files.alone(home, LOCK, wait=lambda: time.sleep(0.02)):
        found = _recorded(home)
        if found and not _is_usable(found, home):
            if found.is_alive and _is_held(home):  # one that is only slow, too, is not taken from a command
                return None
            _end(home, found)
            found = None
        holding = (home / HOLDERS).open("a")
        fcntl.flock(holding, fcntl.LOCK_SH)
        return Joined(found or _started(home, linger_s, log), holding)


def end_shared_api(home: Path, *, even_in_use: bool = True) -> bool:
    """End the server that the commands of this home share; False when none runs, or a command uses it and may."""
    if not (home / ADDRESS).exists():
        return False
    if even_in_use:
        with files.alone(home, LOCK, wait=lambda: time.sleep(0.02)):
            return _end(home, _recorded(home))
    with suppress(InUse), nobody_uses_it(home):
        return _end(home, _recorded(home))
    return False


class Process(NamedTuple):
    """A server process, and its URL; requests wait there until it is ready."""

    process: subprocess.Popen[bytes]
    url: str


def start(
    log: Path,
    *,
    arguments: tuple[str, ...] = (),
    variables: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Process:
    """Start a server. Raises OSError.

    arguments: of the daemon, behind its socket. before: called in the new process.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= _server_settings() | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
    environment |= {"PREFECT__SERVER_FINAL": "1", **(variables or {})}
    with socket.socket() as listening, log.open("ab") as output:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(listening.fileno()), *arguments],  # -P: no module of here
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(listening.fileno(),),
            preexec_fn=before,
            start_new_session=True,  # uvicorn takes Ctrl-C for itself, and the flow that ends would wait for it
        )
        return Process(process, f"http://127.0.0.1:{listening.getsockname()[1]}/api")


def database_name(prefect_home: Path) -> str:
    """`prefect.db`; `prefect-3.7.db` for a Prefect 3.7 that does not know the tables of the first."""
    revision = _revision_of(prefect_home / DATABASE)
    if revision is None or _knows(revision):
        return DATABASE
    major, minor, *_ = version("prefect").split(".")
    return f"prefect-{major}.{minor}.db"


def _is_usable(found: Address, home: Path) -> bool:
    """Whether a command of this home and this Prefect can use that server; a starting one is trusted to get well."""
    if not found.is_alive or found.home != os.path.realpath(home) or found.made_of != _made_of():
        return False
    starts = time.time() - (home / ADDRESS).stat().st_mtime < START_S
    return starts or found.answers()


def _started(home: Path, linger_s: float, log: Path) -> Address:
    auth = f"trivet:{secrets.token_urlsafe(32)}"
    arguments = (os.path.realpath(home), str(linger_s))
    process, url = start(log, arguments=arguments, variables={"PREFECT_SERVER_API_AUTH_STRING": auth})
    _left.append(process)
    address = Address(
        url=url,
        auth=auth,
        pid=process.pid,
        started=_start_of(process.pid) or "",
        home=os.path.realpath(home),
        made_of=_made_of(),
    )
    try:
        _keep(home / ADDRESS, address)
    except BaseException:
        process.kill()
        raise
    return address


def _keep(path: Path, address: Address) -> None:
    with files.scratch(path.parent) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(address.model_dump_json())
        files.settle(temporary, path, durable=False)


def _recorded(home: Path) -> Address | None:
    try:
        return Address.model_validate_json((home / ADDRESS).read_bytes())
    except (FileNotFoundError, ValidationError):  # the latter: of another version; its server ends when it is idle
        return None


def _is_held(home: Path) -> bool:
    with (home / HOLDERS).open("a") as holders:
        try:
            fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _end(home: Path, found: Address | None) -> bool:
    """End a server in order, or by force; the file goes first, so that nobody joins it."""
    (home / ADDRESS).unlink(missing_ok=True)
    if found is None or not found.is_alive or found.home != os.path.realpath(home):  # the last: of a copied home
        return False
    for number, patience_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
        with suppress(ProcessLookupError):
            os.kill(found.pid, number)
        deadline = time.monotonic() + patience_s
        while found.is_alive and time.monotonic() < deadline:
            time.sleep(0.02)
    return True


def _start_of(pid: int) -> str | None:
    """When a living process started, in ticks since boot; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]


def _made_of() -> str:
    plain = repr(sorted(_server_settings().items()))
    return f"{version('prefect')} {hashlib.sha256(plain.encode()).hexdigest()}"


def _server_settings() -> dict[str, str]:
    """What decides how a server of this process's commands behaves."""
    given = {name: value for name, value in os.environ.items() if name.startswith(SERVER_SETTINGS)}
    if any(map(given.get, DATABASE_SETTINGS)):
        return given
    folder = Path(os.environ["PREFECT_HOME"])
    return given | {DATABASE_SETTINGS[0]: f"sqlite+aiosqlite:///{folder.absolute() / database_name(folder)}"}


def _revision_of(database: Path) -> str | None:
    """The version of the tables of a Prefect SQLite; None where it has none, or cannot be read."""
    if not database.exists():
        return None
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened,
    ):
        row = opened.execute("SELECT version_num FROM alembic_version").fetchone()
        return row[0] if row else None
    return None


def _knows(revision: str) -> bool:
    """Whether the installed Prefect has the migration of that name."""
    folder = Path(str(distribution("prefect").locate_file("prefect/server/database/_migrations/versions/sqlite")))
    return any(folder.glob(f"*_{revision}_*.py"))
