"""A Prefect API for one command, when no server is configured: started beside it, and gone when it is gone."""

from __future__ import annotations

import ctypes
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from storage.files import refusal

START_TIMEOUT_S = 90.0
ANSWER_S = 5.0
"""Longest wait of a command for a server that it has not started; runs of workers wait longer, in Prefect's client."""
PR_SET_PDEATHSIG = 1
NEEDED_BYTES = 4 << 20
_started: list[subprocess.Popen[bytes]] = []
"""The servers of this process."""


class ServerDidNotStart(RuntimeError):
    """The Prefect API did not answer; the sentence says where its log is."""


@contextmanager
def prefect_api(home: Path) -> Generator[None]:
    """Have `PREFECT_API_URL` name a server: the user's, or one that lives as long as this process.

    Prefect's own temporary server outlives a killed parent; this one is tied to it by the kernel. Start it before
    prefect is imported: the two then load side by side.
    """
    if os.environ.get("PREFECT_API_URL"):
        yield
        return
    port, log = _free_port(), home / "logs" / "prefect-server.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        server = _start(port, log)
    except OSError as error:
        raise ServerDidNotStart(refusal(log.parent, error)) from error
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    _started.append(server)
    try:
        yield
    finally:
        if server.poll() is None and "prefect" in sys.modules:
            from flows.telling import tell_the_rest

            tell_the_rest()
        _started.remove(server)
        del os.environ["PREFECT_API_URL"]
        server.terminate()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_healthy(home: Path) -> None:
    """Block until the API of `PREFECT_API_URL` answers: ours that starts, or the user's. Raises ServerDidNotStart."""
    if not _started:
        refuse_a_dead_server()
        return
    url = os.environ["PREFECT_API_URL"]
    why, log = silence(url, patience_s=START_TIMEOUT_S), home / "logs" / "prefect-server.log"
    if why is None:
        return
    if shutil.disk_usage(home).free < NEEDED_BYTES:
        raise ServerDidNotStart(f"{home} has no room left for Prefect's own database; free disk space and run again")
    if any(server.poll() is not None for server in _started):
        raise ServerDidNotStart(f"the Prefect API ended as it started; see {log}")
    raise ServerDidNotStart(f"no Prefect API at {url} within {START_TIMEOUT_S:g} s; see {log}")


def refuse_a_dead_server() -> None:
    """Raise ServerDidNotStart where the user names a server that does not answer; goes before what takes long."""
    named = os.environ.get("PREFECT_API_URL")
    if named and not _started and (why := silence(named)):
        raise ServerDidNotStart(no_answer(named, why))


def silence(url: str, *, patience_s: float | None = None) -> str | None:
    """None as soon as the API at `url` answers; why it does not, once the patience is at an end.

    patience_s: ANSWER_S unless told.
    """
    deadline = time.monotonic() + (ANSWER_S if patience_s is None else patience_s)
    while True:
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=5):
                return None
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last: it is no address
            why = str(getattr(error, "reason", error))
        if time.monotonic() > deadline or any(server.poll() is not None for server in _started):
            return why
        time.sleep(0.05)


def no_answer(url: str, why: str) -> str:
    """The sentence on a server of the user's that does not answer."""
    return (
        f"no Prefect server answers at {url}, which PREFECT_API_URL names ({why}); start it (that of this home: "
        "`trivet up`), or unset PREFECT_API_URL"
    )


def _start(port: int, log: Path) -> subprocess.Popen[bytes]:
    # the command and the environment of Prefect's own temporary server (prefect.server.api.server)
    # -P and --app-dir: no module of the current folder is taken for Prefect's
    command = [sys.executable, "-P", "-m", "uvicorn", "--app-dir", sys.prefix]
    command += ["--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    tie = partial(_tie_to, os.getpid())
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=tie,
            start_new_session=True,  # uvicorn takes Ctrl-C for itself, and the flow that ends would wait for it
        )


def _tie_to(parent: int) -> None:
    """In the child: die with the parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died just before: the kernel tells of later deaths only


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
