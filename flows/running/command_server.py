"""A Prefect API for a command if no server is configured: shared with later commands, or its own.

A shared one ends after `TRIVET_API_LINGER_S` idle seconds; with 0, each command has its own, which ends with it.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from flows.running import shared_api
from flows.running.environment import trust
from flows.running.settings import settings
from flows.running.shared_api import ANSWER_S, START_S, Joined
from storage.files import refusal
from storage.storage_errors import StoreUnreachable

PR_SET_PDEATHSIG = 1
NEEDED_BYTES = 4 << 20
URL, AUTH = "PREFECT_API_URL", "PREFECT_API_AUTH_STRING"
_started: list[Callable[[], bool]] = []
"""For each server that this process has started or joined: whether it still runs."""


class ServerDidNotStart(RuntimeError):
    """The Prefect API did not answer; the message names its log."""


@contextmanager
def prefect_api(home: Path) -> Generator[None]:
    """A server for PREFECT_API_URL; it loads while the command imports prefect. Raises ServerDidNotStart."""
    if os.environ.get(URL):
        yield
        return
    with _opened(home) as runs:
        _started.append(runs)
        try:
            yield
        finally:
            if runs() and "prefect" in sys.modules:
                from flows.running.shown import tell_the_rest

                tell_the_rest()
            _started.remove(runs)


def has_server() -> bool:
    """Whether this process has started or joined a server, as nobody else has configured one."""
    return bool(_started)


def wait_until_healthy(home: Path) -> None:
    """Block until the API of `PREFECT_API_URL` answers. Raises ServerDidNotStart."""
    if not _started:
        refuse_a_dead_server()
        return
    url = os.environ[URL]
    why, log = silence(url, patience_s=START_S), _log(home)
    if why is None:
        return
    if shutil.disk_usage(home).free < NEEDED_BYTES:
        raise ServerDidNotStart(f"{home} has no room left for Prefect's own database; free disk space and run again")
    if not all(runs() for runs in _started):
        raise ServerDidNotStart(f"the Prefect API ended as it started; see {log}")
    raise ServerDidNotStart(f"no Prefect API at {url} within {START_S:g} s; see {log}")


def refuse_a_dead_server() -> None:
    """Raise ServerDidNotStart if the user names a server that does not answer."""
    named = os.environ.get(URL)
    if named and not _started and (why := silence(named)):
        raise ServerDidNotStart(no_answer(named, why))


def silence(url: str, *, patience_s: float | None = None) -> str | None:
    """None as soon as the API at `url` answers; after `patience_s` (ANSWER_S), why it does not."""
    deadline = time.monotonic() + (ANSWER_S if patience_s is None else patience_s)
    context = trust() if url.startswith("https:") else None
    while True:
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=5, context=context):
                return None
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last: it is no address
            why = str(getattr(error, "reason", error))
        if time.monotonic() > deadline or not all(runs() for runs in _started):
            return why
        time.sleep(0.05)


def no_answer(url: str, why: str) -> str:
    """Error message about a server of the user's that does not answer."""
    return (
        f"no Prefect server answers at {url}, which PREFECT_API_URL names ({why}); start it (that of this home: "
        "`trivet up`), or unset PREFECT_API_URL"
    )


def _opened(home: Path) -> AbstractContextManager[Callable[[], bool]]:
    """A shared server, else one of this command's own; gives a function that says whether it still runs."""
    linger_s = settings().api_linger_s
    try:
        if linger_s and (joined := shared_api.join(home, linger_s=linger_s, log=_log(home))):
            return _shared(joined)
        tie = partial(_tie_to, os.getpid())
        return _tied(*shared_api.start(_log(home), before=tie))
    except (OSError, StoreUnreachable) as error:
        raise ServerDidNotStart(refusal(home, error) if isinstance(error, OSError) else str(error)) from error


@contextmanager
def _shared(joined: Joined) -> Generator[Callable[[], bool]]:
    with joined.holding, _named(joined.address.url, joined.address.auth):
        yield lambda: joined.address.is_alive


@contextmanager
def _tied(server: subprocess.Popen[bytes], url: str) -> Generator[Callable[[], bool]]:
    """A server of this command's own, which the kernel ends with it; it needs no auth string."""
    try:
        with _named(url, None):
            yield lambda: server.poll() is None
    finally:
        server.terminate()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def _named(url: str, auth: str | None) -> Generator[None]:
    """Set the variables of Prefect and its children to this server."""
    before = os.environ.get(AUTH)
    os.environ[URL] = url
    if auth:
        os.environ[AUTH] = auth
    try:
        yield
    finally:
        del os.environ[URL]
        if auth:
            os.environ.pop(AUTH, None)
        if before is not None:
            os.environ[AUTH] = before


def _log(home: Path) -> Path:
    return home / "logs" / "prefect-server.log"


def _tie_to(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died just before: the kernel tells of later deaths only
