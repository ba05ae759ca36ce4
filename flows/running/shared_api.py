"""The Prefect API that the commands of one home share: at most one runs; commands join, start and end it.

`python -m flows.running.shared_api SOCKET [HOME LINGER_S]` serves at SOCKET, an inherited descriptor that listens; with
HOME, until it has been idle for LINGER_S seconds or its address file no longer names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.metadata import distribution, version
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple

from pydantic import ValidationError

from storage import files
from storage.records import Record

START_S = 90.0
"""Longest start of a server on a busy machine."""
ANSWER_S = 5.0
END_S = 10.0
"""Longest wait for a server to end before it is killed."""
MODULE = "flows.running.shared_api"
DATABASE = "prefect.db"
"""Below PREFECT_HOME: the runs of commands without a server."""
DATABASE_SETTINGS = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
SERVER_SETTINGS = ("PREFECT_HOME", "PREFECT_PROFILE", "PREFECT_SERVER_", "PREFECT_API_DATABASE_")
"""Prefixes of variables that configure a server; commands that differ in them do not share one."""
_left: list[subprocess.Popen[bytes]] = []
"""Servers that outlive this process; referenced here, since Python warns of an abandoned child."""
ADDRESS = Path("api", "address.json")
"""File below the home: address and auth string of the server; mode 0600."""
HOLDERS = Path("api", "holders")
"""File below the home on which commands hold a shared lock while they need the server; the kernel releases that of a
killed command."""
LOCK = "prefect-api"
"""Name of the lock for starting and ending a server."""
LOOK_S = 1.0
LAST_REQUESTS_S = 3


class Address(Record):
    """A shared server, and its auth string."""

    url: str
    """`http://127.0.0.1:40001/api`."""
    auth: str
    """`user:password`."""
    pid: int
    started: str
    """Start of the process in ticks since boot, which tells it from a later one with the same pid."""
    home: str
    made_of: str
    """Prefect's version, and a digest of the settings that a server reads."""

    @property
    def is_alive(self) -> bool:
        """Whether that process still runs."""
        return _start_of(self.pid) == self.started

    def answers(self) -> bool:
        """Whether it answers within ANSWER_S, and is of this version of Prefect."""
        token = b64encode(self.auth.encode()).decode()
        asked = urllib.request.Request(f"{self.url}/admin/version", headers={"Authorization": f"Basic {token}"})
        with suppress(OSError, http.client.HTTPException), urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:
            return answer.read().decode().strip('"') == version("prefect")
        return False


class Joined(NamedTuple):
    """A server, and the open lock that keeps it from ending."""

    address: Address
    holding: IO[str]


def join(home: Path, *, linger_s: float, log: Path) -> Joined | None:
    """The server of this home, started if need be; None if one in use does not suit. Raises OSError, StorageError."""
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
    """End the shared server of this home; False if none runs, or a command uses it and `even_in_use` is False."""
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
    """Start a server; `arguments` follow its socket, `before` runs in the new process. Raises OSError."""
    files.make_folder(log.parent)
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
    database = (prefect_home / DATABASE).absolute()
    row = None
    if database.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
            row = opened.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None or _knows(row[0]):
        return DATABASE
    major, minor, *_ = version("prefect").split(".")
    return f"prefect-{major}.{minor}.db"


def _knows(revision: str) -> bool:
    folder = Path(str(distribution("prefect").locate_file("prefect/server/database/_migrations/versions/sqlite")))
    return any(folder.glob(f"*_{revision}_*.py"))


def _is_usable(found: Address, home: Path) -> bool:
    """Whether a command of this home and this Prefect can use that server; one that is starting counts as usable."""
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
        with files.scratch((home / ADDRESS).parent) as temporary:
            temporary.touch(mode=0o600)
            temporary.write_text(address.model_dump_json())
            files.settle(temporary, home / ADDRESS, durable=False)
    except BaseException:
        process.kill()
        raise
    return address


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
    """End a server, by force if need be; its file goes first, so that nobody joins it."""
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
    """Start of a living process in ticks since boot; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]


def _made_of() -> str:
    plain = repr(sorted(_server_settings().items()))
    return f"{version('prefect')} {hashlib.sha256(plain.encode()).hexdigest()}"


def _server_settings() -> dict[str, str]:
    """Variables that configure a server started by this process."""
    given = {name: value for name, value in os.environ.items() if name.startswith(SERVER_SETTINGS)}
    if any(map(given.get, DATABASE_SETTINGS)):
        return given
    folder = Path(os.environ["PREFECT_HOME"])
    return given | {DATABASE_SETTINGS[0]: f"sqlite+aiosqlite:///{folder.absolute() / database_name(folder)}"}


class InUse(Exception):
    """A command uses the server, or is about to."""


class Watched:
    """An ASGI application that knows when it was last used, and prints why it could not start."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._open = 0
        self._used = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request or connection ended; 0 while one is open."""
        return 0.0 if self._open else time.monotonic() - self._used

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve; the lifespan, which is open as long as the server runs, is no use of it."""
        if scope["type"] == "lifespan":
            try:
                await self._app(scope, receive, send)
            except Exception:
                traceback.print_exc()  # the log settings of a command's server suppress it
                raise
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._used = time.monotonic()


@contextmanager
def nobody_uses_it(home: Path) -> Generator[None]:
    """Keep commands from starting or using a server while the block runs. Raises InUse where one does already."""
    with files.alone(home, LOCK, wait=_refuse), (home / HOLDERS).open("a") as holders:
        try:
            fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse from None
        yield


def _refuse() -> None:
    raise InUse


def main(descriptor: str, home: str | None = None, linger_s: str = "0") -> None:
    """Serve until a signal, or until idle."""
    import uvicorn
    from prefect.server.api.server import create_app

    os.chdir("/")  # the folder of the first command may be removed or unmounted meanwhile
    app = Watched(create_app())
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=LAST_REQUESTS_S)
    server = uvicorn.Server(config)
    if home is not None:
        Thread(target=_end_when_idle, args=(server, app, Path(home), float(linger_s)), daemon=True).start()
    server.run(sockets=[socket.socket(fileno=int(descriptor))])
    if not server.started:
        sys.exit(1)


def _end_when_idle(server: Any, app: Watched, home: Path, linger_s: float) -> None:
    time.sleep(LOOK_S)  # whoever starts the server writes its address next
    while _is_named(home):
        if app.idle_s >= linger_s:
            with suppress(InUse, OSError), nobody_uses_it(home):
                (home / ADDRESS).unlink(missing_ok=True)
                server.should_exit = True
                time.sleep(60)  # the locks are held until the process is gone: the next server starts after this one
        time.sleep(LOOK_S)
    server.should_exit = True


def _is_named(home: Path) -> bool:
    try:
        return json.loads((home / ADDRESS).read_bytes())["pid"] == os.getpid()
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
