"""Figures of the service for Prometheus: `/api/metrics` of its server, under its user and password."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from flows.running.settings import settings
from storage.embedded import Cluster
from storage.storage_errors import DatabaseUnavailable
from storage.totals import Totals

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

EVERY_S = 15.0
"""Seconds between two looks; a scrape gets what the last one found, and waits for nothing."""
ALIVE_S = 90.0
"""Seconds since the last sign of life of a worker that counts as online."""
NIGHT, GOOD = "nightly", "Completed"
"""Flow of the nights, and the state of one without failures and open incidents."""

log = logging.getLogger(__name__)
Source = Callable[[], Sequence[Metric]]


class Figures(Collector):
    """What the sources found last; one that fails has no figures, and `trivet_source_up` says so."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self._sources = sources
        self._found: Sequence[Metric] = ()

    def collect(self) -> Iterable[Metric]:
        return self._found

    def look(self) -> None:
        """Ask all sources."""
        up = GaugeMetricFamily("trivet_source_up", "Whether the figures of a source could be read.", labels=["source"])
        found: list[Metric] = [up]
        for name, source in self._sources.items():
            try:
                found += source()
            except Exception as error:  # noqa: BLE001 drivers raise errors of their own, and a monitor has to go on
                log.debug("no figures of %s: %s", name, error)
                up.add_metric([name], 0)
            else:
                up.add_metric([name], 1)
        self._found = found

    def go_on(self) -> None:
        """Look for ever, in a thread that ends with the process."""
        pause = threading.Event()

        def looking() -> None:
            while True:
                self.look()
                pause.wait(EVERY_S)

        threading.Thread(target=looking, daemon=True, name="figures").start()


def figures_of_server(database: str) -> Figures:
    """Of the server whose database this is, of the home and its store, and of the tables. Starts no database."""
    read, home = settings(), settings().home
    totals = Totals(partial(_running_database, read.database_address, home))
    folders = {"home": home} | ({} if "://" in (read.store or "") else {"store": Path(read.store or home / "store")})
    return Figures(
        {
            "server": lambda: asyncio.run(_of_server(database)),
            "database": lambda: [*_of_calls(totals), *_of_runs(totals)],
            "disk": lambda: list(_of_disk(folders)),
        }
    )


def _running_database(address: str | None, home: Path) -> str:
    """The address of the tables. Raises DatabaseUnavailable where the home's own PostgreSQL does not run."""
    if address:
        return address
    cluster = Cluster(home)
    if cluster.status().pid is None:
        raise DatabaseUnavailable("the embedded database does not run; the next command that needs it starts it")
    return cluster.start()


async def _of_server(url: str) -> list[Metric]:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url)
    try:
        async with engine.connect() as connection:
            return [
                await _flow_runs(connection),
                await _task_runs(connection),
                await _gpu_seconds(connection),
                await _waiting(connection),
                await _workers(connection),
                await _last_good_night(connection),
            ]
    finally:
        await engine.dispose()


async def _flow_runs(connection: AsyncConnection) -> Metric:
    from prefect.server.database.orm_models import Flow, FlowRun
    from sqlalchemy import func, select

    runs = GaugeMetricFamily("trivet_flow_runs", "Runs that the server keeps, by state.", labels=["flow", "state"])
    query = select(Flow.name, FlowRun.state_name, func.count()).join(Flow, Flow.id == FlowRun.flow_id)
    for flow, state, count in await connection.execute(query.group_by(Flow.name, FlowRun.state_name)):
        runs.add_metric([flow, state or ""], count)
    return runs


async def _task_runs(connection: AsyncConnection) -> Metric:
    """By step and state; those from the cache are Cached."""
    from prefect.server.database.orm_models import TaskRun
    from sqlalchemy import func, select

    runs = GaugeMetricFamily(
        "trivet_steps",
        "Steps of the runs that the server keeps; state Cached: nothing was done.",
        labels=["step", "state"],
    )
    counts: dict[tuple[str, str], int] = {}
    query = select(TaskRun.task_key, TaskRun.state_name, func.count()).group_by(TaskRun.task_key, TaskRun.state_name)
    for key, state, count in await connection.execute(query):
        step = key.rpartition("-")[0].rpartition(".")[2] or key  # `tasks.rag.steps.parse-1f0c…`
        counts[step, state or ""] = counts.get((step, state or ""), 0) + count
    for labels, count in counts.items():
        runs.add_metric(labels, count)
    return runs


async def _gpu_seconds(connection: AsyncConnection) -> Metric:
    from prefect.server.database.orm_models import TaskRun
    from sqlalchemy import Text, cast, select

    query = select(TaskRun.total_run_time).where(cast(TaskRun.tags, Text).like('%"gpu"%'))
    seconds = sum(took.total_seconds() for (took,) in await connection.execute(query))
    return GaugeMetricFamily("trivet_gpu_seconds", "Time of the GPU steps of these runs.", value=seconds)


async def _waiting(connection: AsyncConnection) -> Metric:
    from prefect.server.database.orm_models import FlowRun, WorkPool, WorkQueue
    from sqlalchemy import func, select

    age = GaugeMetricFamily(
        "trivet_queue_age_seconds", "How long the oldest run that is due has waited for its pool.", labels=["pool"]
    )
    now = datetime.now(UTC)
    due = (FlowRun.work_queue_id == WorkQueue.id) & (FlowRun.state_type == "SCHEDULED")
    due &= FlowRun.next_scheduled_start_time <= now
    query = select(
        WorkPool.name, func.min(FlowRun.next_scheduled_start_time, type_=FlowRun.next_scheduled_start_time.type)
    )
    query = query.join(WorkQueue, WorkQueue.work_pool_id == WorkPool.id).outerjoin(FlowRun, due)
    for pool, oldest in await connection.execute(query.group_by(WorkPool.name)):
        age.add_metric([pool], (now - oldest).total_seconds() if oldest else 0)
    return age


async def _workers(connection: AsyncConnection) -> Metric:
    from prefect.server.database.orm_models import Worker, WorkPool
    from sqlalchemy import select

    online = GaugeMetricFamily("trivet_workers_online", "Workers that gave a sign of life of late.", labels=["pool"])
    query = select(WorkPool.name, Worker.last_heartbeat_time).outerjoin(Worker, Worker.work_pool_id == WorkPool.id)
    now, counts = datetime.now(UTC), dict[str, int]()
    for pool, seen in await connection.execute(query):
        alive = bool(seen) and (now - seen).total_seconds() < ALIVE_S
        counts[pool] = counts.get(pool, 0) + alive
    for pool, count in counts.items():
        online.add_metric([pool], count)
    return online


async def _last_good_night(connection: AsyncConnection) -> Metric:
    from prefect.server.database.orm_models import Flow, FlowRun
    from sqlalchemy import func, select

    ended = func.max(FlowRun.end_time, type_=FlowRun.end_time.type)
    query = select(ended).join(Flow, Flow.id == FlowRun.flow_id)
    query = query.where((Flow.name == NIGHT) & (FlowRun.state_name == GOOD))
    last = (await connection.execute(query)).scalar()
    return GaugeMetricFamily(
        "trivet_last_good_night_timestamp_seconds",
        "End of the last night without failures and open incidents; 0: none.",
        value=last.timestamp() if last else 0,
    )


def _of_calls(totals: Totals) -> Iterator[Metric]:
    labels = ["backend", "model"]
    calls = CounterMetricFamily("trivet_model_calls", "Calls whose answers are stored.", labels=labels)
    seconds = CounterMetricFamily("trivet_model_seconds", "Time for these answers.", labels=labels)
    tokens = CounterMetricFamily("trivet_model_tokens", "Tokens of these calls.", labels=[*labels, "of"])
    for one in totals.calls():
        calls.add_metric(one[:2], one.calls)
        seconds.add_metric(one[:2], one.latency_s)
        tokens.add_metric([*one[:2], "prompt"], one.prompt_tokens)
        tokens.add_metric([*one[:2], "completion"], one.completion_tokens)
    failures = CounterMetricFamily("trivet_model_failures", "Requests that failed.", labels=["model", "error"])
    for labels, count in totals.failures().items():
        failures.add_metric(labels, count)
    yield from (calls, seconds, tokens, failures)


def _of_runs(totals: Totals) -> Iterator[Metric]:
    cost = CounterMetricFamily("trivet_cost", "What runs spent, in the currency of the prices.", labels=["kind"])
    for kind, spent in totals.costs().items():
        cost.add_metric([kind], spent)
    incidents = GaugeMetricFamily("trivet_open_incidents", "Figures of nights that got worse.", labels=["suite"])
    for suite, count in totals.open_incidents().items():
        incidents.add_metric([suite], count)
    yield from (cost, incidents)


def _of_disk(folders: dict[str, Path]) -> Iterator[Metric]:
    free = GaugeMetricFamily("trivet_disk_free_bytes", "Free on the disk of a folder.", labels=["folder"])
    size = GaugeMetricFamily("trivet_disk_size_bytes", "Size of that disk.", labels=["folder"])
    for name, folder in folders.items():
        if folder.exists():
            use = shutil.disk_usage(folder)
            free.add_metric([name], use.free)
            size.add_metric([name], use.total)
    yield from (free, size)
