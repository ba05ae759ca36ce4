"""State of the service: its parts, its pools, and the memory and the disk that it uses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from flows.service import processes, supervising
from flows.service.api import Api, ApiFailed, auth_of
from flows.service.asked_service import remembered
from flows.service.place import Place
from flows.service.server_database import Database, cluster_of
from flows.service.service_start import Service, full_disks, is_online, service_of
from flows.service.supervising import Part
from storage.embedded import Cluster
from storage.records import Record

BLOCK_BYTES = 512
"""Unit of `st_blocks` on all file systems."""


class Pool(Record):
    """A work pool that has a worker here."""

    name: str
    worker_online: bool
    running: int
    waiting: int
    """Runs whose time has come and that do not run yet."""


class Status(Record):
    """What `trivet status` shows."""

    state: Literal["down", "healthy", "unhealthy"]
    problems: tuple[str, ...]
    """What is wrong, with the remedy."""
    api_url: str | None
    ui_url: str | None
    pages_url: str | None
    database: Database | None
    parts: tuple[Part, ...]
    pools: tuple[Pool, ...]
    memory_bytes: int
    """Resident, of all processes but PostgreSQL, with their runs; memory that they share counts once for each."""
    disk_bytes: dict[str, int]
    """Bytes of each part of the home."""


def status(place: Place, *, store: Path | None) -> Status:
    """The state of everything; starts nothing. `store`: folder of the artifacts, if on this machine."""
    service, asked = service_of(place), remembered(place)
    found = processes.of_service(place.mark)
    parts = supervising.parts(place) if found else None
    pools, problems = _look(place, service, parts) if service else ([], [])
    if found and parts is None:
        problems.append("no supervisor watches over what runs; run `trivet up` again")
    if found or service:
        problems = [*full_disks(place, store=store), *problems]  # first: it may be why parts are ill
    memory = 0
    for each in found:
        with suppress(psutil.Error):
            memory += each.process.memory_info().rss
    state = "down" if not service and not found else "unhealthy" if problems else "healthy"
    return Status(
        state=state,
        problems=tuple(problems),
        api_url=service.api_url if service else None,
        ui_url=service.ui_url if service else None,
        pages_url=asked.pages_url(place) if service and asked else None,
        database=service.database if service else None,
        parts=tuple(parts or ()),
        pools=tuple(pools),
        memory_bytes=memory,
        disk_bytes=disk_use(place, store=store),
    )


def _look(place: Place, service: Service, parts: Sequence[Part] | None) -> tuple[list[Pool], list[str]]:
    if parts is None:
        return [], ["it was started, and does not run; run `trivet up` again"]
    ill = [part for part in parts if part.state != "running"]
    problems = [f"{part.name}: {part.state}; see {place.log_of(part.name)}" for part in ill]
    api = Api(service.api_url, auth_of(place.home))
    if not api.ready():
        return [], [*problems, f"the server at {service.api_url} does not answer; see {place.log_of('server')}"]
    try:
        pools = [_pool(place, api, name) for name in service.pools]
    except ApiFailed as error:
        return [], [*problems, str(error)]
    silent = [pool.name for pool in pools if not pool.worker_online]
    return pools, problems + [f"no worker for the pool {name} answers; see {place.log_of(name)}" for name in silent]


def _pool(place: Place, api: Api, name: str) -> Pool:
    def count(state: str, **chosen: Any) -> int:
        runs = {"state": {"type": {"any_": [state]}}, **chosen}
        return api.post("/flow_runs/count", {"flow_runs": runs, "work_pools": {"name": {"any_": [name]}}})

    due = {"before_": datetime.now(UTC).isoformat()}
    return Pool(
        name=name,
        worker_online=is_online(place, api, name),
        running=count("RUNNING"),
        waiting=count("PENDING") + count("SCHEDULED", next_scheduled_start_time=due),
    )


def disk_use(place: Place, *, store: Path | None) -> dict[str, int]:
    """Bytes of each part, as `du` counts them; `store`: folder of the artifacts, if on this machine."""
    parts: dict[str, set[Path | None]] = {
        "artifacts": {store},
        "results": {place.home / "results"},
        "database": {Cluster(place.home).status().folder},
        "prefect": {place.database, cluster_of(place).status().folder, place.home / "prefect"},
        "cache": {place.home / "cache"},
        "logs": {place.logs},
    }
    return {name: _size(folders) for name, folders in parts.items()}


def _size(parts: set[Path | None]) -> int:
    apart = [each for each in parts if each and not any(other in each.parents for other in parts)]
    return sum(map(_size_of, apart))


def _size_of(folder: Path) -> int:
    total = 0
    for path, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with suppress(FileNotFoundError):  # it went while we looked
                total += os.lstat(os.path.join(path, name)).st_blocks * BLOCK_BYTES  # noqa: PTH118 faster
    return total
