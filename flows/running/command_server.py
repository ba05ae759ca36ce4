"""A Prefect API for commands where no server is configured: the commands of a home share one, which ends when idle.

command ─► holds the server ─► joins the one that the address file names, else starts one ─► lets go as it ends
server  ─► idle for `IDLE_S`: no command held it ─► ends, and whoever begins meanwhile waits for that

The locks are the kernel's (flock): those of a killed command or server are free at once.
`python -m flows.running.command_server SOCKET FOLDER IDLE_S` serves at SOCKET, an inherited descriptor that listens.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from flows.running.environment import describe_silence, why_silent
from storage import files
from storage.records import Record
from storage.storage_errors import StoreUnreachable

if TYPE_CHECKING:
    from fastapi import FastAPI

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
ADDRESS, STARTING, HOLDERS = "address.json", "starting", "holders"
"""Files of a server's folder: where it is (mode 0600), and the locks to start and to use it."""
MARK = 12
"""Digits of the two digests in the name of that folder: of the home, and of Prefect's version and settings."""
LOG = Path("logs", "prefect-server.log")


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

    @property
    def is_alive(self) -> bool:
        """Whether the process that wrote this address still runs, and not another one with its ID."""
        return start_of_process(self.pid) == self.started


_joined: list[Address] = []
"""Shared servers that this process uses now; the last one is that of PREFECT_API_URL."""


@contextmanager
def prefect_api(home: Path) -> Generator[None]:
    """Set PREFECT_API_URL to the home's server, which may still load, or await the user's. Raises ServerDidNotStart."""
    if os.environ.get(URL):
        if not _joined:
            wait_until_healthy(home)
        yield
        return
    try:
        address, holding = join_server(home)
    except (OSError, StoreUnreachable) as error:
        raise ServerDidNotStart(files.refusal(home, error) if isinstance(error, OSError) else str(error)) from error
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


def has_server() -> bool:
    """Return whether this process uses a server of its home, as nobody has configured another."""
    return bool(_joined)


def wait_until_healthy(home: Path) -> None:
    """Block until the API of PREFECT_API_URL answers, if it is set. Raises ServerDidNotStart if it does not in time."""
    url, own = os.environ.get(URL), _joined[-1] if _joined else None
    why = url and why_silent(url, START_S if own else None, goes_on=lambda: not own or own.is_alive)
    if not (url and why):
        return
    if own is None:
        raise ServerDidNotStart(describe_silence(url, why))
    state = f"has not answered for {START_S:g} s; `trivet down` ends it" if own.is_alive else "ended as it started"
    raise ServerDidNotStart(files.describe_full_disk(home) or f"the Prefect API at {url} {state}; see {home / LOG}")


def join_server(home: Path) -> tuple[Address, IO[str]]:
    """Return this home's server, started if need be, and the lock file that keeps it. Raises OSError, StorageError."""
    folder = folder_of(home)
    files.make_folder(folder)
    folder.parent.chmod(0o700)
    holding = (folder / HOLDERS).open("a")
    fcntl.flock(holding, fcntl.LOCK_SH)  # first: while a server ends, this waits until it is gone
    with _hold_lock(folder / STARTING):
        address = _read_address(folder)
        # one that is slow is used all the same: `wait_until_healthy` waits for it
        return (address if address and address.is_alive else start_server(home, folder)), holding


def folder_of(home: Path) -> Path:
    """Return the folder of the server for the settings of this process; a copy of the home has another one."""
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(SERVER_SETTINGS))
    names = (os.path.realpath(home), f"{version('prefect')} {settings!r}")
    return home / "api" / "-".join(hashlib.sha256(os.fsencode(name)).hexdigest()[:MARK] for name in names)


@contextmanager
def _hold_lock(file: Path, operation: int = fcntl.LOCK_EX) -> Generator[None]:
    """Hold the kernel's lock on a file. Raises BlockingIOError where `operation` does not wait."""
    with file.open("a") as opened:
        fcntl.flock(opened, operation)
        yield


def start_server(home: Path, folder: Path) -> Address:
    """Start a server, and return at once: requests wait until it is ready. Without its address file it ends."""
    sys.stderr.write(f"starting a Prefect server for {home}, which the next commands find running\n")
    auth = f"trivet:{secrets.token_urlsafe(32)}"
    files.make_folder((home / LOG).parent)
    environment = {name: value for name, value in os.environ.items() if name != URL}
    # EPHEMERAL: without Prefect's UI and services; FINAL: less memory, as the process makes no second server;
    # without the blocks that Prefect ships, which take 1 s of CPU: no flow of ours uses one
    environment |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    environment |= {"PREFECT_SERVER_API_AUTH_STRING": auth, "PREFECT_LOGGING_SERVER_LEVEL": "ERROR"}
    environment.setdefault("PREFECT_SERVER_REGISTER_BLOCKS_ON_START", "0")
    with socket.socket() as listening, (home / LOG).open("ab") as output:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        number = listening.fileno()
        process = subprocess.Popen(
            # -P: no module of the working folder
            [sys.executable, "-P", "-m", "flows.running.command_server", str(number), folder, str(IDLE_S)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(number,),
            start_new_session=True,  # uvicorn takes Ctrl-C for itself, and the flow that ends would wait for it
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    process.returncode = 0  # it outlives this process: Python would warn of an abandoned child
    address = Address(url=url, auth=auth, pid=process.pid, started=start_of_process(process.pid) or "")
    files.write(folder / ADDRESS, address.model_dump_json().encode())
    (folder / ADDRESS).chmod(0o600)
    return address


def end_shared_api(home: Path, *, even_in_use: bool = True) -> bool:
    """End this home's servers, by force if need be; return whether one ran. even_in_use: else those in use stay."""
    ended = False
    for file in (home / "api").glob(f"{folder_of(home).name[:MARK]}-*/{ADDRESS}"):
        with _hold_lock(file.with_name(STARTING)):
            try:
                with _hold_lock(file.with_name(HOLDERS), fcntl.LOCK_EX | fcntl.LOCK_NB):
                    pass  # whoever comes to use it now waits for the lock to start one
            except BlockingIOError:
                if not even_in_use:
                    continue
            address = _read_address(file.parent)
            file.unlink(missing_ok=True)  # first, so that nobody joins the server that ends
            if address is None or not address.is_alive:
                continue
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.kill(address.pid, number)
                deadline = time.monotonic() + END_S
                while address.is_alive and time.monotonic() < deadline:
                    time.sleep(0.02)
            ended = True
    return ended


def _read_address(folder: Path) -> Address | None:
    """Read the address file; None where there is none, or it is damaged."""
    try:
        return Address.model_validate_json((folder / ADDRESS).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def start_of_process(pid: int) -> str | None:
    """Return the start of a living process in ticks since boot; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]  # state and starttime, fields 3 and 22 of proc(5)


def create_server_app() -> FastAPI:
    """Return Prefect's application, whose transactions wait for each other also where its database is SQLite.

    Prefect reads before it writes. Where another request writes in between, SQLite refuses the write at once, and the
    client tries again only after 2, 4, 8, … s; a transaction that takes the lock as it begins waits some milliseconds.
    """
    from prefect.server.api.server import create_app
    from prefect.server.database.configurations import AioSqliteConfiguration

    patched: Any = AioSqliteConfiguration
    begin = patched.begin_transaction  # Prefect has no setting for it
    patched.begin_transaction = lambda own, session, **_: begin(own, session, with_for_update=True)
    return create_app()


def serve(descriptor: str, folder: str, idle_s: str) -> None:
    """Serve until a signal, until no command has used the server for a while, or the address file names another one."""
    import uvicorn

    os.chdir("/")  # the folder of the first command may be removed or unmounted meanwhile
    config = uvicorn.Config(create_server_app(), log_level="error", lifespan="on", timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)

    def end_when_idle() -> None:
        """Have the server exit after `idle_s` seconds without a command, or when the address file is another's."""
        own, used = Path(folder), time.monotonic()
        while True:
            time.sleep(LOOK_S)  # first: whoever starts the server writes its address next
            try:
                address = _read_address(own)
                if address is None or address.pid != os.getpid():
                    break
                with _hold_lock(own / HOLDERS, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    if time.monotonic() - used >= float(idle_s):
                        (own / ADDRESS).unlink()
                        server.should_exit = True
                        time.sleep(60)  # with the lock: the next server starts when this process is gone
            except BlockingIOError:
                used = time.monotonic()
            except OSError:
                break
        server.should_exit = True

    Thread(target=end_when_idle, daemon=True).start()
    server.run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    serve(*sys.argv[1:])
