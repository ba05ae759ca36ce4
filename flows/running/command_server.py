"""A Prefect API for commands where no server is configured: the commands of a home share one, which ends when idle.

command ─► takes the lock ─► joins the server that the address file names, else starts one ─► holds it till it ends
server  ─► idle for `IDLE_S`: no command held it ─► ends, with the lock taken

Both locks are the kernel's (flock): those of a killed command or server are free at once.
`python -m flows.running.command_server SOCKET HOME IDLE_S` serves at SOCKET, an inherited descriptor that listens.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import IO, Any

from pydantic import ValidationError

from flows.running.environment import describe_silence, why_silent
from storage import files
from storage.records import Record
from storage.storage_errors import StoreUnreachable

IDLE_S = 600.0
"""Idle time after which the server ends; 0: with its command."""
START_S = 90.0
"""Longest start of a server on a busy machine, and longest wait for one that is slow."""
END_S = 10.0
"""Longest wait for a server to end before it is killed, and for the last events of a command to be sent."""
LOOK_S = 1.0  # seconds between two checks whether a command still holds the server
URL, AUTH = "PREFECT_API_URL", "PREFECT_API_AUTH_STRING"
SERVER_SETTINGS = ("PREFECT_HOME", "PREFECT_PROFILE", "PREFECT_SERVER_", "PREFECT_API_DATABASE_")
"""Prefixes of variables that configure a server; commands that differ in them do not share one."""
ADDRESS = Path("api", "address.json")
"""File below the home: address and auth string of the server; mode 0600."""
STARTING, HOLDERS = Path("api", "starting"), Path("api", "holders")
"""Locks below the home: to start and end a server, and the one that commands share while they use it."""
LOG = Path("logs", "prefect-server.log")
TABLES = Path(__file__).with_name("prefect_tables.sql")
"""Prefect's empty SQLite database, as its migrations leave it."""


class ServerDidNotStart(RuntimeError):
    """The Prefect API did not answer; the message names its log or its address."""


class Address(Record):
    """Where a server that commands share is, and how it is entered; written to the address file."""

    url: str
    """Address of the API, such as `http://127.0.0.1:40001/api`."""
    auth: str
    """Auth string that the server asks for, `user:password`."""
    pid: int
    started: str
    """Start of the process in ticks since boot, which tells it from a later one with the same pid."""
    home: str
    made_of: str
    """Prefect's version, and a digest of the settings that a server reads."""

    @property
    def is_alive(self) -> bool:
        """True while that process runs."""
        return start_of_process(self.pid) == self.started


_joined: list[Address] = []
"""Shared servers that this process uses now; the last one is that of PREFECT_API_URL."""


@contextmanager
def prefect_api(home: Path) -> Generator[None]:
    """Provide a server for PREFECT_API_URL; it loads while the command imports prefect. Raises ServerDidNotStart."""
    if os.environ.get(URL):
        if not _joined:
            wait_until_healthy(home)
        yield
        return
    try:
        address, holding = join_server(home)
    except OSError as error:
        raise ServerDidNotStart(files.refusal(home, error)) from error
    except StoreUnreachable as error:
        raise ServerDidNotStart(str(error)) from error
    before = os.environ.get(AUTH)
    os.environ[URL], os.environ[AUTH] = address.url, address.auth
    _joined.append(address)
    with holding:
        try:
            yield
        finally:
            if address.is_alive and "prefect" in sys.modules:
                from prefect.events.worker import EventsWorker
                from prefect.logging.handlers import APILogWorker

                for worker in (EventsWorker, APILogWorker):  # the next command may have another server
                    # what is still to be sent is no news; what cannot be sent stays a warning
                    quiet = logging.getLogger(worker.__name__)
                    quiet.addFilter(lambda record: not record.getMessage().startswith("Still processing items"))
                    worker.drain_all(timeout=END_S, at_exit=False)
            _joined.remove(address)
            del os.environ[URL], os.environ[AUTH]
            if before is not None:
                os.environ[AUTH] = before


def is_served(home: Path) -> bool:
    """Return whether a server runs that the commands of this home use, or the user names one."""
    address = _read_address(home)
    return bool(os.environ.get(URL)) or (address is not None and address.is_alive)


def has_server() -> bool:
    """Return whether this process uses a server of its home, as nobody has configured another."""
    return bool(_joined)


def wait_until_healthy(home: Path) -> None:
    """Block until the API of PREFECT_API_URL answers. Raises ServerDidNotStart."""
    url = os.environ.get(URL, "")
    servers, patience_s = [*_joined], START_S if _joined else None
    why = why_silent(url, patience_s, goes_on=lambda: all(server.is_alive for server in servers)) if url else None
    if why is None:
        return
    if not servers:
        message = describe_silence(url, why)
    elif full := files.describe_full_disk(home):
        message = full
    elif not all(server.is_alive for server in servers):
        message = f"the Prefect API ended as it started; see {home / LOG}"
    else:
        log = home / LOG
        message = (
            f"the Prefect API at {url} has not answered for {START_S:g} s; see {log}, and end it by `trivet db stop`"
        )
    raise ServerDidNotStart(message)


def join_server(home: Path) -> tuple[Address, IO[str]]:
    """Return the server of this home, started if need be, and the open lock file that keeps it.

    Raises OSError, StorageError, ServerDidNotStart.
    """
    files.make_folder((home / ADDRESS).parent)
    (home / ADDRESS).parent.chmod(0o700)
    with _hold_lock(home / STARTING):
        address = _read_address(home)
        # one that is slow is used all the same: `wait_until_healthy` waits for it
        if address and (not address.is_alive or address.made_of != _settings_digest()):
            if not _end_server(home, even_in_use=False) and address.is_alive:
                raise ServerDidNotStart(
                    f"a command uses the Prefect API of {home}, which has other PREFECT_ settings; wait for that "
                    "command, or set another TRIVET_HOME"
                )
            address = None
        address = address or start_server(home)
        holding = (home / HOLDERS).open("a")
        fcntl.flock(holding, fcntl.LOCK_SH)
        return address, holding


@contextmanager
def _hold_lock(file: Path, operation: int = fcntl.LOCK_EX) -> Generator[None]:
    """Hold the kernel's lock on a file. Raises BlockingIOError where `operation` does not wait."""
    with file.open("a") as opened:
        fcntl.flock(opened, operation)
        yield


def make_database(prefect_home: Path) -> None:
    """Make Prefect's database where there is none: its migrations take 6 s of CPU for what is read from a file here.

    What the installed Prefect has migrated since, its server does; a Prefect that does not know the file makes its own.
    """
    package, script = find_spec("prefect"), TABLES.read_text("utf-8")
    [revision] = re.findall(r"INTO \"alembic_version\" VALUES\('(\w+)'\)", script)
    migrations = Path(package.origin if package and package.origin else "").parent / "server/database/_migrations"
    if (prefect_home / "prefect.db").exists() or not [*migrations.glob(f"versions/sqlite/*{revision}*")]:
        return
    with files.scratch(prefect_home) as temporary:
        temporary.touch(mode=0o600)
        with closing(sqlite3.connect(temporary)) as connection:
            connection.executescript(script)
        files.settle(temporary, prefect_home / "prefect.db", durable=False)


def start_server(home: Path) -> Address:
    """Start a server, whose requests wait until it is ready; without its address file it ends by itself."""
    make_database(Path(os.environ["PREFECT_HOME"]))
    auth, own = f"trivet:{secrets.token_urlsafe(32)}", os.path.realpath(home)
    files.make_folder((home / LOG).parent)
    environment = {name: value for name, value in os.environ.items() if name != URL}
    # EPHEMERAL: without Prefect's UI and services; FINAL: less memory, as the process makes no second server;
    # without the blocks that Prefect ships, which take 1 s of CPU: no flow of ours uses one
    environment |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    environment.setdefault("PREFECT_SERVER_REGISTER_BLOCKS_ON_START", "0")
    with socket.socket() as listening, (home / LOG).open("ab") as output:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        number = listening.fileno()
        process = subprocess.Popen(
            # -P: no module of the working folder
            [sys.executable, "-P", "-m", "flows.running.command_server", str(number), own, str(IDLE_S)],
            env=environment | {"PREFECT_SERVER_API_AUTH_STRING": auth},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(number,),
            start_new_session=True,  # uvicorn takes Ctrl-C for itself, and the flow that ends would wait for it
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    process.returncode = 0  # it outlives this process: Python would warn of an abandoned child
    started = start_of_process(process.pid) or ""
    address = Address(url=url, auth=auth, pid=process.pid, started=started, home=own, made_of=_settings_digest())
    with files.scratch((home / ADDRESS).parent) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(address.model_dump_json())
        files.settle(temporary, home / ADDRESS, durable=False)
    return address


def end_shared_api(home: Path, *, even_in_use: bool = True) -> bool:
    """End the shared server of this home; return False if none runs, or a command needs it and not `even_in_use`."""
    if not (home / ADDRESS).exists():
        return False
    with _hold_lock(home / STARTING):
        return _end_server(home, even_in_use=even_in_use)


def _read_address(home: Path) -> Address | None:
    """Read the address file; None where there is none, or it is of a copied home or of another version."""
    try:
        address = Address.model_validate_json((home / ADDRESS).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    return address if address.home == os.path.realpath(home) else None


def _end_server(home: Path, *, even_in_use: bool) -> bool:
    """End the server of the address file, by force if need be; return False if none runs, or it is in use and stays."""
    address = _read_address(home)
    try:
        with _hold_lock(home / HOLDERS, fcntl.LOCK_EX | fcntl.LOCK_NB):
            pass  # nobody can come to use it: the lock to start is taken
    except BlockingIOError:
        if not even_in_use:
            return False
    (home / ADDRESS).unlink(missing_ok=True)  # first, so that nobody joins the server that ends
    if address is None or not address.is_alive:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(address.pid, number)
        deadline = time.monotonic() + END_S
        while address.is_alive and time.monotonic() < deadline:
            time.sleep(0.02)
    return True


def start_of_process(pid: int) -> str | None:
    """Return the start of a living process in ticks since boot; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]  # state and starttime, fields 3 and 22 of proc(5)


def _settings_digest() -> str:
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(SERVER_SETTINGS))
    return f"{version('prefect')} {hashlib.sha256(repr(settings).encode()).hexdigest()}"


def serve(descriptor: str, home: str, idle_s: str) -> None:
    """Serve until a signal, until no command has used the server for a while, or the address file names another one."""
    import uvicorn
    from prefect.server.api.server import create_app

    api: Any = create_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await api(scope, receive, send)
        except Exception:
            if scope["type"] == "lifespan":
                traceback.print_exc()  # why it cannot start: the log settings of a command's server suppress it
            raise

    os.chdir("/")  # the folder of the first command may be removed or unmounted meanwhile
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=3))

    def end_when_idle() -> None:
        address, used, no_wait = Path(home, ADDRESS), time.monotonic(), fcntl.LOCK_EX | fcntl.LOCK_NB
        while True:
            time.sleep(LOOK_S)  # first: whoever starts the server writes its address next
            try:
                if json.loads(address.read_bytes())["pid"] != os.getpid():
                    break
                with _hold_lock(Path(home, STARTING), no_wait), _hold_lock(Path(home, HOLDERS), no_wait):
                    if time.monotonic() - used >= float(idle_s):
                        address.unlink()
                        server.should_exit = True
                        time.sleep(60)  # with the locks: the next server starts when this process is gone
            except BlockingIOError:
                used = time.monotonic()
            except (OSError, ValueError):
                break
        server.should_exit = True

    Thread(target=end_when_idle, daemon=True).start()
    server.run(sockets=[socket.socket(fileno=int(descriptor))])
    if not server.started:
        sys.exit(1)


if __name__ == "__main__":
    serve(*sys.argv[1:])
