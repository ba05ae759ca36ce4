"""Work pools, their queues, and the slots that work of all machines shares."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import WorkPool
from prefect.events.schemas.automations import AutomationCore
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


WEBHOOK = "trivet-notify"
"""Block that holds the address of `notify_url`."""
TOLD = {"description", "tags", "trigger", "actions"}
"""Parts that the folder has; whether it is on, the UI says."""


def place_automations(client: SyncPrefectClient, told: Folder, memory: Memory) -> tuple[str, ...]:
    """Every automation of the folder, once; one that calls a webhook only where there is an address. Their names."""
    block = _webhook(told.notify_url, memory) if told.notify_url else None
    named: list[str] = []
    for entry in told.automations:
        if _calls(entry):
            if block is None:
                continue
            entry = entry | {"actions": [_with_block(action, block) for action in _actions(entry)]}
        automation = AutomationCore.model_validate(entry)
        _place(client, automation, memory)
        named.append(automation.name)
    return tuple(named)


def _place(client: SyncPrefectClient, automation: AutomationCore, memory: Memory) -> None:
    name = f"automation {automation.name}"
    found, *doubles = client.read_automations_by_name(automation.name) or [None]
    for double in doubles:
        if double is not None:
            client.delete_automation(double.id)
            memory.changed.append(f"{name}: a double was removed")
    if found is None:
        client.create_automation(automation)
        memory.made(name, rule=_rule(automation))
    elif memory.differs(name, "rule", ours=_rule(automation), theirs=_rule(found)):
        automation.enabled = found.enabled
        client.update_automation(found.id, automation)


def _rule(automation: AutomationCore) -> dict[str, Any]:
    """What the folder says of an automation; its sets are in order, so that equal ones are equal."""
    rule = automation.model_dump(mode="json", include=TOLD)
    rule["trigger"] = {
        name: sorted(value) if isinstance(value, list) else value for name, value in rule["trigger"].items()
    }
    return rule


def _actions(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], entry.get("actions", []))


def _calls(entry: dict[str, Any]) -> bool:
    return any(action.get("type") == "call-webhook" for action in _actions(entry))


def _with_block(action: dict[str, Any], block: UUID) -> dict[str, Any]:
    return {"block_document_id": str(block)} | action if action.get("type") == "call-webhook" else action


def _webhook(url: str, memory: Memory) -> UUID:
    """The block with the address; a secret of the server, for it may hold a key."""
    blocks: Any = Webhook  # its types do not tell that `_sync` keeps it from answering with a coroutine
    try:
        found = blocks.load(WEBHOOK, _sync=True)
    except ValueError:  # there is none
        found = None
    if found is None or found.url.get_secret_value() != url:
        memory.changed.append(f"block webhook/{WEBHOOK}: {'made' if found is None else 'address'}")
        told = {"method": "POST", "url": url, "headers": {"Content-Type": "application/json"}}
        return blocks.model_validate(told).save(WEBHOOK, overwrite=True, _sync=True)
    return found._block_document_id
