"""The process of a command's Prefect API, which `command_server` starts.

Command: `python -m flows.running.api_daemon SOCKET [HOME LINGER_S]`; SOCKET is an inherited descriptor that listens.
With HOME it serves one command after another, and ends once nobody has used it for LINGER_S seconds, or once its
address file no longer names it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from storage import files

ADDRESS = Path("api", "address.json")
"""Below the home: where the server is, and how it lets commands in; file mode 0600."""
HOLDERS = Path("api", "holders")
"""Below the home: commands hold a shared lock on it as long as they need the server; the kernel frees that of a killed
one."""
LOCK = "prefect-api"
"""Name of the lock below the home that whoever starts or ends a server holds."""
LOOK_S = 1.0
LAST_REQUESTS_S = 3


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
            await self._live(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._used = time.monotonic()

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception:
            traceback.print_exc()  # the log settings of a command's server keep silent about it
            raise


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
    """Serve until the process is told to end, or has been idle."""
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
    """Whether the address file is this server's; the home may have been removed, or another server started."""
    try:
        return json.loads((home / ADDRESS).read_bytes())["pid"] == os.getpid()
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
