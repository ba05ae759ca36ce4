"""The programs of the service, and supervisord, which keeps them running.

A program that dies is restarted without limit, after a delay that grows by a second each time it dies young.
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
from typing import Any, NamedTuple, cast

from flows.running.environment import QUIET
from flows.service.api import DidNotStart
from flows.service.asked_service import Asked
from flows.service.place import Place
from flows.service.processes import MARK, Found
from flows.service.server_database import VARIABLES, Database
from storage.records import Record

START_S = 15.0
"""Longest wait until the supervisor answers."""
YOUNG_S = 10
"""Seconds that a program has to run; below that, each restart waits longer."""
FOR_EVER = 1_000_000_000
MODULE = "supervisor.supervisord"
GPU_DEPLOYMENT = "gpu-step/gpu"
HEARTBEAT_S = 30
"""Seconds between two signs of life of a run; an automation calls it dead when two have not come."""
RETRIES = "7"
"""Retries of a request to the server, after 2, 4, 8 … seconds: runs survive two minutes without it."""
QUERY_S = 2
"""Seconds between two polls of a worker for runs."""
VACUUM = "events,flow_runs"
"""What Prefect's server removes of its own when it is older than ninety days."""
LEASES = "prefect.server.concurrency.lease_storage.filesystem"
"""Keeps leases of slots in PREFECT_HOME; from memory, a restart would lose them and end their runs."""
DROPPED = (*VARIABLES, "PREFECT_API_AUTH_STRING", "PREFECT_LOGGING_SERVER_LEVEL", "PREFECT_UI_ENABLED", "OLDPWD", "PWD")
"""Variables that are not passed on: they name another server, or belong to an earlier start."""


class Part(Record):
    """State of a program."""

    name: str
    state: str
    """`running`, or the state in supervisord: `starting`, `backoff` (it died, and will be restarted), `stopped` …"""
    pid: int | None = None
    running_s: int | None = None


def start(place: Place, programs: Iterable[Program], environment: Mapping[str, str], *, folder: str) -> None:
    """Start the supervisor and its programs in `folder`, detached from this terminal. Raises DidNotStart."""
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
    """Text of supervisord.conf; paths below the home are relative, since they may contain signs that expand."""
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
    """State of all programs; None if no supervisor answers."""
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
    """Restart at once the programs that wait for it."""
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


class Program(NamedTuple):
    """A program that is kept running."""

    name: str
    command: tuple[str, ...]
    order: int
    """Smaller ones start first and stop last."""
    stop_s: int
    """Seconds after SIGTERM until it is killed."""
    umask: int = 0o077
    environment: Mapping[str, str] = {}
    """Differences from the shared environment; values without quotes."""


def programs_of(asked: Asked, database: Database | None, *, umask: int) -> list[Program]:
    """The programs of a service. `umask`: of the user, whose files the runs write."""
    python = (sys.executable, "-P")
    programs: list[Program] = []
    if database and database.kept:
        keeping = (*python, "-m", "flows.service.server_database")
        programs.append(Program("database", keeping, order=10, stop_s=70))
    if not asked.server:
        answering = (*python, "-m", "flows.service.run_server", str(asked.port))
        programs.append(Program("server", answering, order=20, stop_s=20))
        showing = (*python, "-m", "flows.service.page_server")
        programs.append(Program("pages", showing, order=40, stop_s=20, umask=umask))
    for pool in asked.pools:
        working = (*python, "-m", "flows.service.run_worker", pool)
        inline = {"TRIVET_GPU_DEPLOYMENT": ""} if pool == "gpu" else {}
        programs.append(Program(pool, working, order=30, stop_s=45, umask=umask, environment=inline))
    return programs


def environment_of(
    place: Place, asked: Asked, database: Database | None, auth: str | None, base: Mapping[str, str]
) -> dict[str, str]:
    """Environment of every program, from that of the user; secrets are in no file and no command line."""
    environment = {name: value for name, value in base.items() if name not in DROPPED}
    for name, value in QUIET.items():
        environment.setdefault(name, value)
    environment.setdefault("PREFECT_CLIENT_MAX_RETRIES", RETRIES)
    environment |= {
        MARK: place.mark,
        "TRIVET_HOME": str(place.home),
        "PREFECT_API_URL": asked.api_url,
        "PREFECT_WORKER_QUERY_SECONDS": str(QUERY_S),
        "PREFECT_WORKER_HEARTBEAT_SECONDS": str(HEARTBEAT_S),
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
        "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    }
    environment["PREFECT_HOME"] = environment.get("PREFECT_HOME") or str(place.home / "prefect")
    if "gpu" in asked.pools:
        environment.setdefault("TRIVET_GPU_DEPLOYMENT", GPU_DEPLOYMENT)
    if auth:
        environment["PREFECT_API_AUTH_STRING"] = auth
    if not asked.server and database and auth:
        environment |= {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.url,
            "PREFECT_SERVER_API_AUTH_STRING": auth,
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{asked.ui_url},http://localhost:{asked.port}",
            "PREFECT_SERVER_UI_ENABLED": "true",
            "PREFECT_SERVER_UI_API_URL": asked.api_url,
            "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
            "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
            "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": VACUUM,
        }
    return environment
