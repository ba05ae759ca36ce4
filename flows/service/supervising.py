"""The programs of the service, supervisord, which keeps them running, and all their processes.

A program that dies is restarted without limit, after a delay that grows by a second each time it dies young; one that
has died young three times in a row counts as failed, unless it answers. Processes
are found by the mark in their environment; psutil compares the start time before it sends a signal, since a pid may be
reused.
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

import psutil

from flows.running.environment import QUIET
from flows.service.api import Database, DidNotStart
from flows.service.place import Place, ServiceSettings
from flows.service.server_database import VARIABLES
from storage.records import Record

START_S = 15.0
"""Longest wait until the supervisor answers."""
DEATHS = 3
"""Deaths in a row after which a program counts as failed."""
KILLED_S = 10.0
"""Longest wait until a killed process is gone."""
MODULE = "supervisor.supervisord"
MARK = "TRIVET_SERVICE"
"""Variable that names the home of every process of a service."""
RUN = "PREFECT__FLOW_RUN_ID"
WORKER = "PREFECT__WORKER_NAME"
GPU_DEPLOYMENT = "gpu-step/gpu"
LEASES = "prefect.server.concurrency.lease_storage.filesystem"
"""Keeps leases of slots in PREFECT_HOME; from memory, a restart would lose them and end their runs."""
DROPPED = (*VARIABLES, "PREFECT_API_AUTH_STRING", "PREFECT_LOGGING_SERVER_LEVEL", "PREFECT_UI_ENABLED", "OLDPWD", "PWD")
"""Variables that are not passed on: they name another server, or belong to an earlier start."""
SUPERVISOR = """\
[supervisord]
logfile=%(here)s/../logs/supervisor.log
logfile_maxbytes=5MB
logfile_backups=1
pidfile=%(here)s/supervisord.pid
umask=077
{user}[unix_http_server]
file={control}
chmod=0700
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
PROGRAM = """\
[program:{name}]
command={command}
environment={environment}
priority={order}
autorestart=true
startsecs=120
startretries=1000000000
stopsignal=TERM
stopwaitsecs={stop_s}
stopasgroup=true
killasgroup=true
umask={umask:03o}
redirect_stderr=true
stdout_logfile=%(here)s/../logs/{name}.log
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=3
"""


class Part(Record):
    """State of a program that the supervisor keeps running."""

    name: str
    state: str
    """`running`, or the state in supervisord: `starting`, `backoff` (it died, and will be restarted), `stopped` …;
    `failed`: it has died three times in a row."""
    pid: int | None = None
    running_s: int | None = None


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


def programs_of(settings: ServiceSettings, database: Database | None, *, umask: int) -> list[Program]:
    """List the programs of a service. `umask`: of the user, whose files the runs write."""
    module = (sys.executable, "-P", "-m")  # -P: no module of the working folder is taken for ours
    programs: list[Program] = []
    if database and database.kept:
        programs.append(Program("database", (*module, "flows.service.server_database"), order=10, stop_s=70))
    if not settings.server:
        answering = (*module, "flows.service.run_server", str(settings.port))
        programs.append(Program("server", answering, order=20, stop_s=20))
        programs.append(Program("pages", (*module, "flows.service.page_server"), order=40, stop_s=20, umask=umask))
    for pool in settings.pools:
        working = (*module, "flows.service.run_worker", pool)
        inline = {"TRIVET_GPU_DEPLOYMENT": ""} if pool == "gpu" else {}
        programs.append(Program(pool, working, order=30, stop_s=45, umask=umask, environment=inline))
    return programs


def environment_of(
    place: Place, settings: ServiceSettings, database: Database | None, auth: str | None, base: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of every program, from that of the user; secrets are in no file and no command line."""
    environment = {name: value for name, value in base.items() if name not in DROPPED}
    for name, value in QUIET.items():
        environment.setdefault(name, value)
    # retries of a request to the server, after 2, 4, 8 … seconds: runs survive two minutes without it
    environment.setdefault("PREFECT_CLIENT_MAX_RETRIES", "7")
    environment.setdefault("PREFECT_WORKER_QUERY_SECONDS", "4")  # each look costs the server 20 ms of CPU
    environment |= {
        MARK: place.mark,
        "TRIVET_HOME": str(place.home),
        "PREFECT_API_URL": settings.api_url,
        "PREFECT_WORKER_HEARTBEAT_SECONDS": "30",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # an automation calls a run dead when four have not come
        "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule",  # a run that is told to end goes on later
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    }
    environment["PREFECT_HOME"] = environment.get("PREFECT_HOME") or str(place.home / "prefect")
    if "gpu" in settings.pools:
        environment.setdefault("TRIVET_GPU_DEPLOYMENT", GPU_DEPLOYMENT)
    if auth:
        environment["PREFECT_API_AUTH_STRING"] = auth
    if not settings.server and database and auth:
        environment |= {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.url,
            "PREFECT_SERVER_API_AUTH_STRING": auth,
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{settings.ui_url},http://localhost:{settings.port}",
            "PREFECT_SERVER_UI_ENABLED": "true",
            "PREFECT_SERVER_UI_API_URL": settings.api_url,
            "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
            "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
            # loops that Prefect's server runs each five to twenty seconds; together they took a fifth of its rest
            "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT15S",
            "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_LOOP_SECONDS": "30",
            "PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS": "30",
            "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "30",
            "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "30",
            "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "30",
            "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS": "30",
            "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_LOOP_SECONDS": "30",
            # what Prefect's server removes of its own when it is older than ninety days
            "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        }
    return environment


def start(place: Place, programs: Iterable[Program], environment: Mapping[str, str], *, folder: str) -> None:
    """Start the supervisor and its programs in `folder`, detached from this terminal. Raises DidNotStart."""
    place.keep(place.config, config_of(place, programs))
    process = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, "-c", place.config],
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        umask=0o077,
    )
    if process.returncode:
        raise DidNotStart(f"the supervisor does not start: {(process.stderr or process.stdout).strip()}")
    deadline = time.monotonic() + START_S
    while read_parts(place) is None:
        if time.monotonic() > deadline:
            raise DidNotStart(f"the supervisor does not answer; see {place.log_of('supervisor')}")
        time.sleep(0.05)


def config_of(place: Place, programs: Iterable[Program]) -> str:
    """Return the text of supervisord.conf; paths below the home are relative, since signs in them might expand."""
    control = "%(here)s/control" if place.control.parent == place.folder else str(place.control)
    user = "user=root\n" if os.geteuid() == 0 else ""
    sections = [SUPERVISOR.format(user=user, control=control)]
    for program in programs:
        command = shlex.join(program.command).replace("%", "%%")  # supervisord expands %(name)s
        different = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
        sections.append(PROGRAM.format(**program._asdict() | {"command": command, "environment": different}))
    return "".join(sections)


def client(place: Place) -> contextlib.closing[Any]:
    """Return the supervisor's own interface: `client.supervisor.stopProcess("server")`."""
    from supervisor.xmlrpc import SupervisorTransport

    transport: Any = SupervisorTransport(None, None, f"unix://{place.control}")
    proxy: Any = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)  # an address it must have
    proxy.close = transport.close
    return contextlib.closing(proxy)


def read_parts(place: Place) -> list[Part] | None:
    """Return the state of all programs; None if no supervisor answers."""
    try:
        with client(place) as ask:
            infos = cast("list[dict[str, Any]]", ask.supervisor.getAllProcessInfo())
    except (OSError, http.client.HTTPException, xmlrpc.client.Error):
        return None
    log = place.log_of("supervisor")
    history = (log.read_text(errors="replace") if log.exists() else "").rpartition("supervisord started with pid")[2]
    states: list[Part] = []
    for info in infos:
        # a young one is STARTING for the supervisor, and running for everybody else
        alive = info["pid"] > 0 and info["statename"] in ("STARTING", "RUNNING")
        state = "running" if alive else info["statename"].lower()
        since_long_life = history.rpartition(f"success: {info['name']} entered RUNNING")[2]
        if since_long_life.count(f"exited: {info['name']} (") >= DEATHS:
            state = "failed"
        since = info["now"] - info["start"] if alive else None
        states.append(Part(name=info["name"], state=state, pid=info["pid"] or None, running_s=since))
    return states


def restart_waiting(place: Place) -> None:
    """Restart at once the programs that died and wait for their delay to pass."""
    for part in read_parts(place) or []:
        if part.state in ("backoff", "failed") and part.pid is None:
            with client(place) as ask:
                ask.supervisor.stopProcess(part.name)  # or it counts as started
                ask.supervisor.startProcess(part.name, False)


class ServiceProcess(NamedTuple):
    """A living process of the service."""

    process: psutil.Process
    command: str
    run: str | None
    """ID of its flow run."""
    worker: str | None
    """Name of the worker that it is, or that started it."""


def find_processes(mark: str) -> list[ServiceProcess]:
    """Find the living processes of the service with this mark; this one and those of other accounts are left out."""
    living: list[ServiceProcess] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            variables = process.environ()
            if variables.get(MARK) == mark and process != psutil.Process() and not is_gone(process):
                command = " ".join(process.cmdline())
                living.append(ServiceProcess(process, command, variables.get(RUN), variables.get(WORKER)))
    return living


def supervisor_in(processes: Iterable[ServiceProcess]) -> ServiceProcess | None:
    """Find the supervisor among the processes of a service; None if it is not there."""
    return next((each for each in processes if MODULE in each.command), None)


def is_gone(process: psutil.Process) -> bool:
    """Return whether a process has ended; a zombie counts as ended, though its parent may never collect it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(processes: Iterable[ServiceProcess], *, grace_s: float) -> None:
    """Ask processes to end, and kill those that have not within the grace."""
    terminated = [each.process for each in processes]
    for process in terminated:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    kill(_wait(terminated, grace_s))


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill processes, and wait until they are gone, at most KILLED_S."""
    killed = list(processes)
    for process in killed:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _wait(killed, KILLED_S)


def _wait(processes: list[psutil.Process], patience_s: float) -> list[psutil.Process]:
    """Wait for processes to end; return those that live after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while (alive := [each for each in processes if not is_gone(each)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive
