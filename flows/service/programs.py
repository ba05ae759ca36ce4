"""What runs: the programs of the service, their order, and the environment that they share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from flows.running.environment import QUIET
from flows.service.asked_service import Asked
from flows.service.place import Place
from flows.service.processes import MARK
from flows.service.server_database import VARIABLES, Database

GPU_DEPLOYMENT = "gpu-step/gpu"
HEARTBEAT_S = 30
"""Seconds between two signs of life of a run; an automation calls it dead when two have not come."""
RETRIES = "7"
"""Retries of a request to the server, after 2, 4, 8 … seconds: runs survive two minutes without it."""
QUERY_S = 2
"""Seconds between two questions of a worker for runs."""
LEASES = "prefect.server.concurrency.lease_storage.filesystem"
"""Where the server keeps who holds slots: in PREFECT_HOME. In its memory, a restart would end every run that has one,
and leave the slots taken."""


class Program(NamedTuple):
    """One that is kept running."""

    name: str
    command: tuple[str, ...]
    order: int
    """Smaller ones start first and stop last."""
    stop_s: int
    """Patience before it is killed."""
    umask: int = 0o077
    environment: Mapping[str, str] = {}
    """What differs from the shared one; plain words only."""


def programs_of(asked: Asked, database: Database | None, *, umask: int) -> list[Program]:
    """The programs of a service.

    umask: of the user, whose files the runs write.
    """
    python = (sys.executable, "-P")
    programs: list[Program] = []
    if database and database.kept:
        keeping = (*python, "-m", "flows.service.run_database")
        programs.append(Program("database", keeping, order=10, stop_s=70))
    if not asked.server:
        answering = (*python, "-m", "flows.service.run_server", str(asked.port))
        programs.append(Program("server", answering, order=20, stop_s=20))
    for pool in asked.pools:
        working = (*python, "-m", "flows.service.run_worker", pool)
        inline = {"TRIVET_GPU_DEPLOYMENT": ""} if pool == "gpu" else {}
        programs.append(Program(pool, working, order=30, stop_s=45, umask=umask, environment=inline))
    return programs


def environment_of(
    place: Place, asked: Asked, database: Database | None, auth: str | None, base: Mapping[str, str]
) -> dict[str, str]:
    """What every program finds in its environment; secrets are here, and in no file and no command line.

    base: the environment of the user, whose secrets and settings the runs need.
    """
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
    environment.setdefault("PREFECT_HOME", str(place.home / "prefect"))
    if asked.gpu:
        environment.setdefault("TRIVET_GPU_DEPLOYMENT", GPU_DEPLOYMENT)
    if auth:
        environment["PREFECT_API_AUTH_STRING"] = auth
    if not asked.server and database and auth:
        environment |= _of_server(asked, database, auth)
    return environment


DROPPED = (*VARIABLES, "PREFECT_API_AUTH_STRING", "PREFECT_LOGGING_SERVER_LEVEL", "PREFECT_UI_ENABLED", "OLDPWD", "PWD")
"""Variables not passed on: they would name another server, or belong to an earlier start."""


def _of_server(asked: Asked, database: Database, auth: str) -> dict[str, str]:
    return {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.url,
        "PREFECT_SERVER_API_AUTH_STRING": auth,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{asked.ui_url},http://localhost:{asked.port}",
        "PREFECT_SERVER_UI_ENABLED": "true",
        "PREFECT_SERVER_UI_API_URL": asked.api_url,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
    }
