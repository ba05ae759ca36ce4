"""Work pools, their queues, and the slots that work of all machines shares."""

from __future__ import annotations

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import WorkPool
from prefect.exceptions import ObjectNotFound
from pydantic import JsonValue

from flows.service.deploying.deployed_before import Memory
from flows.service.deploying.deployments_folder import Folder

PROCESS = "process"
"""The type of our pools: a worker of them starts a process for each run."""


def place_pools(client: SyncPrefectClient, told: Folder, memory: Memory) -> None:
    """Every pool of the folder, with its template, its limit and those of its queues."""
    for name, template in told.pools.items():
        limits = told.limits.get(name)
        limit = limits.concurrency_limit if limits else None
        try:
            _update(client, client.read_work_pool(name), template, limit, memory)
        except ObjectNotFound:
            client.create_work_pool(
                WorkPoolCreate(name=name, type=PROCESS, base_job_template=template, concurrency_limit=limit)
            )
            memory.made(f"pool {name}", template=template, limit=limit)
        for queue, most in (limits.queues if limits else {}).items():
            _place_queue(client, name, queue, most, memory)


def _update(
    client: SyncPrefectClient, pool: WorkPool, template: dict[str, JsonValue], limit: int | None, memory: Memory
) -> None:
    name = f"pool {pool.name}"
    if pool.type != PROCESS:  # somebody runs it elsewhere: a template of ours would not fit
        memory.kept.append(f"{name}: of type {pool.type}")
    elif memory.differs(name, "template", ours=template, theirs=pool.base_job_template):
        client.update_work_pool(pool.name, WorkPoolUpdate(base_job_template=template))
    if memory.differs(name, "limit", ours=limit, theirs=pool.concurrency_limit):
        client.update_work_pool(pool.name, WorkPoolUpdate(concurrency_limit=limit))


def _place_queue(client: SyncPrefectClient, pool: str, queue: str, most: int, memory: Memory) -> None:
    name, change = f"queue {pool}/{queue}", {"concurrency_limit": most}
    where = {"work_pool_name": pool}
    found = client.request("POST", "/work_pools/{work_pool_name}/queues/filter", path_params=where, json={}).json()
    theirs = {one["name"]: one["concurrency_limit"] for one in found}
    if queue not in theirs:
        client.request("POST", "/work_pools/{work_pool_name}/queues", path_params=where, json={"name": queue} | change)
        memory.made(name, limit=most)
    elif memory.differs(name, "limit", ours=most, theirs=theirs[queue]):
        client.request(
            "PATCH",
            "/work_pools/{work_pool_name}/queues/{name}",
            path_params=where | {"name": queue},
            json=change,
        )


def place_slots(client: SyncPrefectClient, told: Folder, memory: Memory) -> None:
    """The global concurrency limits of the folder."""
    for slot, most in told.slots.items():
        name = f"limit {slot}"
        try:
            found = client.read_global_concurrency_limit_by_name(slot)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=slot, limit=most))
            memory.made(name, slots=most)
            continue
        if memory.differs(name, "slots", ours=most, theirs=found.limit):
            client.update_global_concurrency_limit(slot, GlobalConcurrencyLimitUpdate(limit=most))
