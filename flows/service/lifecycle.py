"""`trivet up`, `down`, `status`: what runs is what was asked for, healthy and deployed; repeating it changes nothing.

asked ─► end what differs ─► database ─► supervisor ─► server answers ─► deploy ─► workers answer ─► Up
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psutil

from flows.running.command_server import end_shared_api
from flows.service import supervising
from flows.service.api import (
    Api,
    ApiAway,
    ApiFailed,
    Database,
    DidNotStart,
    Service,
    auth_of,
    hand_back,
    listen,
    service_of,
)
from flows.service.deploy import DeployFailed, deploy
from flows.service.place import (
    LOOPBACK,
    Place,
    ServiceSettings,
    UpOptions,
    differences,
    read_last_settings,
    settle_settings,
)
from flows.service.run_worker import worker_name
from flows.service.served_collections import require_own_folders
from flows.service.server_database import choose_database, cluster_of
from flows.service.supervising import Part, environment_of, find_processes, programs_of, supervisor_in
from storage.records import Record

HEALTHY_S = 180.0
"""Longest wait until a part is healthy."""
LOOK_S = 0.1
MOST_LOG_LINES = 5
"""Last lines shown from the log of a part that did not start."""
DEAD = ("backoff", "failed", "fatal", "exited")
ORDER_S = 180.0
"""Longest wait for the supervisor to end all programs one after the other; it kills those that do not."""
GRACE_S = 15.0
"""Longest wait for a program whose supervisor was killed."""
WORKING = "flows.service.run_worker"
LEAST_BYTES = 64 << 20
"""Free space that the service needs: a few of the 16 MB files of PostgreSQL's log."""


class Up(Service):
    """The service that `trivet up` has started or found, and what has changed."""

    pages_url: str | None
    """Address of the pages; None where the server, and with it the pages, are elsewhere."""
    state: str
    """Outcome of `trivet up`: `started`, `restarted` or `unchanged`."""
    changed: tuple[str, ...] = ()
    """The differences, in words, for which the service was restarted."""
    deployments: tuple[str, ...] = ()
    failed: str | None = None
    """Why nothing was deployed, and what to do."""


class Pool(Record):
    """A work pool that has a worker here."""

    name: str
    worker_online: bool
    running: int
    waiting: int
    """Runs whose time has come and that do not run yet."""


class Status(Record):
    """The state of the service with its parts and pools, as `trivet status` shows it."""

    state: Literal["down", "healthy", "unhealthy"]
    problems: tuple[str, ...]
    """A sentence for each problem, with the remedy."""
    api_url: str | None
    ui_url: str | None
    pages_url: str | None
    database: Database | None
    parts: tuple[Part, ...]
    pools: tuple[Pool, ...]
    memory_bytes: int
    """Resident, of all processes but PostgreSQL, with their runs; memory that they share counts once for each."""


def up(place: Place, options: UpOptions, environment: Mapping[str, str], *, say: Callable[[str], None]) -> Up:
    """Start the service, wait until it is healthy, and return it. Raises ServiceError, StorageError, as deploy does."""
    place.prepare()
    with place.lock():
        before = read_last_settings(place)
        if options.workers_only:
            auth = environment.get("PREFECT_API_AUTH_STRING")
        elif before and not before.server and (own := auth_of(place.home)):
            auth = own
        else:
            auth = f"trivet:{secrets.token_urlsafe(32)}"
        settings = settle_settings(options, before, environment, secret=auth or "")
        if settings.server:
            Api(settings.api_url, auth).post("/work_pools/filter", {"limit": 1})
        require_own_folders(settings.collections)

        changed: list[str] = []
        running = service_of(place.home) if supervising.read_parts(place) is not None else None
        if running:
            changed = differences(before, settings) if before else ["programs of another version"]
            for each in changed:
                say(f"changed, so it starts again: {each}")
            if not changed:
                supervising.restart_waiting(place)
                return _finish_start(place, running, settings, auth, since=None)
            if before and before.port != settings.port and not settings.server:
                listen(LOOPBACK, settings.port).close()  # before anything is stopped for it

        end(place)
        end_shared_api(place.home, even_in_use=False)  # its memory is better spent on the service
        try:
            since, database = datetime.now(UTC), None
            if not settings.server:
                listen(LOOPBACK, settings.port).close()
                database = choose_database(place, environment)
                say(f"Prefect's database: {database.kind}, because {database.why}")
            service = Service(
                api_url=settings.api_url,
                ui_url=settings.ui_url,
                auth_file=str(place.auth),
                database=database,
                pools=settings.pools,
                folder=settings.folder,
            )
            place.keep(place.auth, auth or "")
            place.keep(place.asked, settings.model_dump_json())
            place.keep(place.address, service.model_dump_json())
            umask = os.umask(0o077)  # can be read only by setting it
            os.umask(umask)
            programs = programs_of(settings, database, umask=umask)
            variables = environment_of(place, settings, database, auth, environment)
            supervising.start(place, programs, variables, folder=settings.folder)
            say(f"started: {', '.join(program.name for program in programs)}")
            result = _finish_start(place, service, settings, auth, since=since)
            return result.model_copy(update={"state": "restarted" if running else "started", "changed": tuple(changed)})
        except BaseException:
            end(place)
            raise


def _finish_start(
    place: Place, service: Service, settings: ServiceSettings, auth: str | None, *, since: datetime | None
) -> Up:
    """Wait for the server, deploy, wait for the workers; its state is `unchanged`. Raises DidNotStart, ApiFailed.

    since: when the programs were started; None: earlier, so that a part which has died may be starting again.
    """

    def wait_for(part: str, is_healthy: Callable[[], bool]) -> None:
        """Wait until a part is healthy. Raises DidNotStart, with the end of its log, for one that fails or is late."""
        deadline = time.monotonic() + HEALTHY_S
        while not is_healthy():
            parts = supervising.read_parts(place)
            if parts is None:
                raise DidNotStart(f"the supervisor has ended; see {place.log_of('supervisor')}")
            states = {each.name: each.state for each in parts if since or each.pid is None}
            if since and states.get(part) in DEAD:
                raise DidNotStart(f"{part} ends as soon as it has started: {explain_failure(place, part)}")
            if states.get(part) == "failed":  # and died again, as it was woken
                raise DidNotStart(f"{part} has failed: {explain_failure(place, part)}")
            if time.monotonic() > deadline:
                raise DidNotStart(f"{part} is not healthy within {HEALTHY_S:g} s: {explain_failure(place, part)}")
            time.sleep(LOOK_S)

    api = Api(service.api_url, auth)
    os.environ["PREFECT_API_URL"] = service.api_url
    if auth:
        os.environ["PREFECT_API_AUTH_STRING"] = auth
    wait_for("server", api.is_ready)
    deployments, failed = (), None
    if not settings.server:
        try:
            deployments = deploy(api, even_unchanged=False).deployments
        except DeployFailed as error:
            failed = str(error)
        wait_for("pages", lambda: _ask_pages(place, settings, supervising.read_parts(place)) is not None)
    for pool in service.pools:
        wait_for(pool, partial(_is_online, place, api, pool, since=since))
    url = settings.pages_url(place)
    return Up(**dict(service), pages_url=url, state="unchanged", deployments=deployments, failed=failed)


def _ask_pages(place: Place, settings: ServiceSettings, parts: Iterable[Part] | None) -> bool | None:
    """Return whether the indexes of the pages can be used; None if the pages do not answer."""
    running_s = next((part.running_s for part in parts or () if part.name == "pages"), None)
    url = settings.pages_url(place)
    # before they listen, another home's pages may have the port that they had last time
    if running_s is None or url is None or place.pages_port.stat().st_mtime < time.time() - running_s - 1:
        return None
    try:
        Api(url, None).send("GET", "/health", tries=1)
    except ApiFailed as error:
        return None if isinstance(error, ApiAway) else False
    return True


def _is_online(place: Place, api: Api, pool: str, *, since: datetime | None = None) -> bool:
    """Return whether our worker of this pool has given a sign of life lately, and not before `since`."""
    try:
        workers = api.post(f"/work_pools/{pool}/workers/filter", {})
    except ApiFailed as error:
        if isinstance(error, ApiAway) or error.status == 404:  # 404: the pool is not deployed yet
            return False
        raise
    ours = (each for each in workers if each["name"] == worker_name(pool, place) and each["status"] == "ONLINE")
    return any(since is None or datetime.fromisoformat(each["last_heartbeat_time"]) >= since for each in ours)


def explain_failure(place: Place, part: str, *, most_lines: int = MOST_LOG_LINES) -> str:
    """Return why a part is not healthy: a full disk, or the end of its log, if it has written any since the start."""
    if full := full_disks(place, store=None):
        return "; ".join(full)
    log = place.log_of(part)
    is_new = log.exists() and log.stat().st_mtime >= place.address.stat().st_mtime  # else of an earlier start
    lines = log.read_text(errors="replace").strip().splitlines()[-most_lines:] if is_new else ["nothing is written yet"]
    return f"{' / '.join(lines)}; the whole is in {log}"


def full_disks(place: Place, *, store: Path | None) -> list[str]:
    """Return what to do about each full disk of the home; `store`: folder of the artifacts, if on this machine."""
    database = cluster_of(place).status().folder
    folders = [each for each in (place.home, database, store) if each and each.exists()]
    disks = {folder.stat().st_dev: folder for folder in reversed(folders)}  # of several on one disk, the first is named
    free = {folder: shutil.disk_usage(folder).free for folder in disks.values()}
    return [
        f"the disk of {folder} is full ({free_bytes / 1e6:.0f} MB left, {LEAST_BYTES / 1e6:.0f} MB are needed): free "
        "disk space (see `trivet gc`); the service goes on by itself, a failed run with `prefect flow-run retry RUN`"
        for folder, free_bytes in free.items()
        if free_bytes < LEAST_BYTES
    ]


def end(place: Place) -> list[str]:
    """End all processes of the service, and hand back its runs; return what was running. Raises DatabaseUnavailable."""
    ended: list[str] = []
    if supervisor := supervisor_in(find_processes(place.mark)):
        supervising.end([supervisor], grace_s=ORDER_S)
        ended.append("the service")
    if orphans := find_processes(place.mark):
        # workers first, which hand back their runs while the server lives; then runs without a worker; then the rest
        supervising.end([each for each in orphans if WORKING in each.command], grace_s=GRACE_S)
        runs = [each for each in find_processes(place.mark) if each.run]
        supervising.kill(each.process for each in runs)
        if service := service_of(place.home):
            with suppress(ApiFailed):  # the server is dead too: the next worker hands back its predecessor's runs
                api = Api(service.api_url, auth_of(place.home))
                hand_back(api, {each.run for each in runs if each.run}, why="the service was stopped")
        supervising.end(find_processes(place.mark), grace_s=GRACE_S)
        ended.append(f"{len(orphans)} processes without a supervisor")
    if cluster_of(place).stop():
        ended.append("Prefect's PostgreSQL without its keeper")
    place.address.unlink(missing_ok=True)
    return ended


def status(place: Place, *, store: Path | None) -> Status:
    """Return the state of everything; start nothing. `store`: folder of the artifacts, if on this machine."""
    service, settings = service_of(place.home), read_last_settings(place)
    processes = find_processes(place.mark)
    parts = supervising.read_parts(place) if processes else None
    url = settings.pages_url(place) if service and settings else None
    answers: dict[str, bool] = {}
    if service and settings and (healthy := _ask_pages(place, settings, parts)) is not None:
        answers["pages"] = healthy
    if service and parts and Api(service.api_url, auth_of(place.home)).is_ready():
        answers |= {"server": True, "database": True}
    if parts:  # what answers runs, however often it died before
        parts = [part.model_copy(update={"state": "running"}) if part.name in answers else part for part in parts]
    pools, problems = _examine(place, service, parts, answers) if service else ([], [])
    if processes and parts is None:
        problems.append("no supervisor watches over what runs; run `trivet up` again")
    if processes or service:
        problems = [*full_disks(place, store=store), *problems]  # first: it may be why parts are ill
    memory = 0
    for each in processes:
        with suppress(psutil.Error):
            memory += each.process.memory_info().rss
    return Status(
        state="down" if not service and not processes else "unhealthy" if problems else "healthy",
        problems=tuple(problems),
        api_url=service.api_url if service else None,
        ui_url=service.ui_url if service else None,
        pages_url=url,
        database=service.database if service else None,
        parts=tuple(parts or ()),
        pools=tuple(pools),
        memory_bytes=memory,
    )


def _examine(
    place: Place, service: Service, parts: Sequence[Part] | None, answers: Mapping[str, bool]
) -> tuple[list[Pool], list[str]]:
    """Return the pools (none unless the server answers) and the problems. answers: part that answers → is it well."""
    if parts is None:
        return [], ["it was started, and does not run; run `trivet up` again"]
    problems: list[str] = []
    for part in parts:
        silent = part.name in ("server", "pages") and part.name not in answers
        wrong = "it does not answer" if silent else "" if answers.get(part.name, True) else "an index cannot be used"
        if part.state != "running" or wrong:
            why = wrong if part.state == "running" else part.state
            problems.append(f"{part.name}: {why}; {explain_failure(place, part.name, most_lines=1)}")
    if "server" not in answers:
        return [], problems or [f"the server at {service.api_url} does not answer; see that it runs"]
    api = Api(service.api_url, auth_of(place.home))

    def count(pool: str, state: str, **chosen: Any) -> int:
        runs = {"state": {"type": {"any_": [state]}}, **chosen}
        return api.post("/flow_runs/count", {"flow_runs": runs, "work_pools": {"name": {"any_": [pool]}}})

    pools: list[Pool] = []
    due = {"before_": datetime.now(UTC).isoformat()}
    try:
        for name in service.pools:
            waiting = count(name, "PENDING") + count(name, "SCHEDULED", next_scheduled_start_time=due)
            online, running = _is_online(place, api, name), count(name, "RUNNING")
            pools.append(Pool(name=name, worker_online=online, running=running, waiting=waiting))
            if not online:
                problems.append(f"no worker for the pool {name} answers; see {place.log_of(name)}")
    except ApiFailed as error:
        return [], [*problems, str(error)]
    return pools, problems
