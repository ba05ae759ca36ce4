"""supervisord, which keeps the programs running: its file, its start, what it says of them.

A program that dies is started again for ever, after a wait that grows by a second each time it dies young.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shlex
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterable, Mapping
from typing import Any, cast

from flows.service import processes
from flows.service.place import Place
from flows.service.processes import Found
from flows.service.programs import Program
from flows.service.service_errors import DidNotStart
from storage.records import Record

START_S = 15.0
"""Longest wait until the supervisor answers."""
YOUNG_S = 10
"""A program that ends before it has run for so many seconds is started again later each time."""
FOR_EVER = 1_000_000_000
MODULE = "supervisor.supervisord"


class Part(Record):
    """A program and how it is."""

    name: str
    state: str
    """`running`, or the supervisor's other words: `starting`, `backoff` (it died, and will be started), `stopped` …"""
    pid: int | None = None
    running_s: int | None = None


def start(place: Place, programs: Iterable[Program], environment: Mapping[str, str], *, folder: str) -> None:
    """Start the supervisor and its programs, apart from this terminal. Raises DidNotStart.

    folder: where they start.
    """
    place.keep(place.config, config_of(place, programs))
    said = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, "-c", place.config],  # -P: no module of that folder is taken for ours
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        umask=0o077,
    )
    if said.returncode:
        raise DidNotStart(f"the supervisor does not start: {(said.stderr or said.stdout).strip()}")
    deadline = time.monotonic() + START_S
    while parts(place) is None:
        if time.monotonic() > deadline:
            raise DidNotStart(f"the supervisor does not answer; see {place.log_of('supervisor')}")
        time.sleep(0.05)


def config_of(place: Place, programs: Iterable[Program]) -> str:
    """The text of its file. Paths below the home are relative to it: they may hold signs that it would read."""
    control = "%(here)s/control" if place.control.parent == place.folder else str(place.control)
    lines = [
        *("[supervisord]", "logfile=%(here)s/../logs/supervisor.log", "logfile_maxbytes=5MB", "logfile_backups=1"),
        *("pidfile=%(here)s/supervisord.pid", "umask=077"),
        *(["user=root"] if os.geteuid() == 0 else []),
        *("[unix_http_server]", f"file={control}", "chmod=0700"),
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for program in programs:
        lines += _section(program)
    return "\n".join(lines) + "\n"


def _section(program: Program) -> list[str]:
    different = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
    return [
        f"[program:{program.name}]",
        f"command={shlex.join(program.command).replace('%', '%%')}",
        f"environment={different}",
        f"priority={program.order}",
        *("autorestart=true", f"startsecs={YOUNG_S}", f"startretries={FOR_EVER}"),
        *("stopsignal=TERM", f"stopwaitsecs={program.stop_s}", "stopasgroup=true", "killasgroup=true"),
        f"umask={program.umask:03o}",
        *("redirect_stderr=true", f"stdout_logfile=%(here)s/../logs/{program.name}.log"),
        *("stdout_logfile_maxbytes=10MB", "stdout_logfile_backups=3"),
    ]


def parts(place: Place) -> list[Part] | None:
    """The programs as the supervisor sees them; None where no supervisor answers."""
    try:
        with client(place) as ask:
            told = cast("list[dict[str, Any]]", ask.supervisor.getAllProcessInfo())
    except (OSError, http.client.HTTPException, xmlrpc.client.Error):
        return None
    return [_part(each) for each in told]


def client(place: Place) -> contextlib.closing[Any]:
    """The supervisor's own interface: `client.supervisor.stopProcess("server")`."""
    from supervisor.xmlrpc import SupervisorTransport

    transport: Any = SupervisorTransport(None, None, f"unix://{place.control}")
    proxy: Any = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
    proxy.close = transport.close
    return contextlib.closing(proxy)


def wake(place: Place) -> None:
    """Start at once what waits to be started again."""
    for part in parts(place) or []:
        if part.state == "backoff":
            with client(place) as ask:
                ask.supervisor.stopProcess(part.name)  # or it counts as started
                ask.supervisor.startProcess(part.name, False)


def _part(told: dict[str, Any]) -> Part:
    # younger than YOUNG_S it is STARTING for the supervisor, and running for everybody else
    alive = told["pid"] > 0 and told["statename"] in ("STARTING", "RUNNING")
    return Part(
        name=told["name"],
        state="running" if alive else told["statename"].lower(),
        pid=told["pid"] or None,
        running_s=told["now"] - told["start"] if alive else None,
    )


def supervisor_in(found: Iterable[Found]) -> Found | None:
    """The supervisor among the processes of a service."""
    return next((each for each in found if MODULE in each.command), None)


def supervisor_of(place: Place) -> Found | None:
    """The running supervisor of this place."""
    return supervisor_in(processes.of_service(place.mark))
