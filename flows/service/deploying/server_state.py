"""Work pools, queues, limits and automations on the server, and the memory of what was deployed last."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate, WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import WorkPool
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from pydantic import JsonValue

from flows.service.alerts import WEBHOOK
from flows.service.deploying.deployments_folder import Folder
from tasks.keys import content_key

PROCESS = "process"
"""Type of our pools: their worker starts a process for each run."""
RULE = {"description", "tags", "trigger", "actions"}
"""Fields of an automation that the folder decides; whether it is enabled, the UI decides."""
VARIABLE = "trivet_deployed"
"""Prefect variable of digests by name; without it, the folder prevails everywhere."""
DIGITS = 12
"""Digits kept of a digest: a Prefect variable holds 5,000 characters."""


class Memory:
    """Digests of what was deployed last, to tell an edit of the folder from one in the UI; and what has changed."""

    def __init__(self, deployed: dict[str, str]) -> None:
        self.deployed = dict(deployed)
        self.changed: list[str] = []
        self.kept: list[str] = []

    def made(self, name: str, **parts: Any) -> None:
        """Note something that was created, with its parts as the folder has them."""
        self.changed.append(f"{name}: made")
        for part, ours in parts.items():
            self.deployed[f"{name} {part}"] = _digest(ours)

    def differs(self, name: str, part: str, *, ours: Any, theirs: Any) -> bool:
        """Whether `part` is to be written: only the folder was edited since the last deploy, not the server."""
        key = f"{name} {part}"
        last, now = self.deployed.get(key), _digest(ours)
        if now == _digest(theirs):
            self.deployed[key] = now
            return False
        if last is not None and last != _digest(theirs):  # somebody set it in the UI
            self.kept.append(f"{name}: {part}")
            return False
        self.deployed[key] = now
        self.changed.append(f"{name}: {part}")
        return True


def _digest(value: Any) -> str:
    return content_key("deployed", 1, {"value": value})[:DIGITS]


@contextmanager
def recalled(client: SyncPrefectClient) -> Generator[Memory]:
    """The memory, read from the server, and written back at the end."""
    found = client.read_variable_by_name(VARIABLE)
    before: Any = found.value if found and isinstance(found.value, dict) else {}
    memory = Memory(before)
    yield memory
    deployed: Any = memory.deployed
    if found is None:
        client.create_variable(VariableCreate(name=VARIABLE, value=deployed, tags=["trivet"]))
    elif deployed != before:
        client.update_variable(VariableUpdate(name=VARIABLE, value=deployed))


def place_pools(client: SyncPrefectClient, told: Folder, memory: Memory) -> None:
    """Create or update every pool of the folder, with its template, its limit and those of its queues."""
    for name, template in told.pools.items():
        limits = told.limits.pools.get(name)
        limit = limits.concurrency_limit if limits else None
        try:
            _update_pool(client, client.read_work_pool(name), template, limit, memory)
        except ObjectNotFound:
            pool = WorkPoolCreate(name=name, type=PROCESS, base_job_template=template, concurrency_limit=limit)
            client.create_work_pool(pool)
            memory.made(f"pool {name}", template=template, limit=limit)
        for queue, most in (limits.queues if limits else {}).items():
            _place_queue(client, name, queue, most, memory)


def _update_pool(
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
    name = f"queue {pool}/{queue}"
    try:
        found = client.read_work_queue_by_name(queue, work_pool_name=pool)
    except ObjectNotFound:
        client.create_work_queue(queue, concurrency_limit=most, work_pool_name=pool)
        memory.made(name, limit=most)
        return
    if memory.differs(name, "limit", ours=most, theirs=found.concurrency_limit):
        client.update_work_queue(found.id, concurrency_limit=most)


def place_slots(client: SyncPrefectClient, told: Folder, memory: Memory) -> None:
    """Create or update the global concurrency limits of the folder."""
    for slot, most in told.limits.slots.items():
        name = f"limit {slot}"
        try:
            found = client.read_global_concurrency_limit_by_name(slot)
        except ObjectNotFound:
            memory.made(name, slots=most)
        else:
            if not memory.differs(name, "slots", ours=most, theirs=found.limit):
                continue
        client.upsert_global_concurrency_limit_by_name(slot, most)


def place_automations(client: SyncPrefectClient, told: Folder, memory: Memory) -> tuple[str, ...]:
    """Create or update every automation; one with a webhook needs its address. Gives their names."""
    block = _webhook(told.notify_url, memory) if told.notify_url else None
    named: list[str] = []
    for entry in told.automations:
        actions: Any = entry.get("actions", [])
        if calls := [action for action in actions if action.get("type") == "call-webhook"]:
            if block is None:
                continue
            filled = [{"block_document_id": str(block)} | one if one in calls else one for one in actions]
            entry = entry | {"actions": filled}
        automation = AutomationCore.model_validate(entry)
        _place_automation(client, automation, memory)
        named.append(automation.name)
    return tuple(named)


def _place_automation(client: SyncPrefectClient, automation: AutomationCore, memory: Memory) -> None:
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
    """Fields that the folder decides; lists of the trigger are sets, and sorted here."""
    rule = automation.model_dump(mode="json", include=RULE)
    trigger = rule["trigger"].items()
    return rule | {"trigger": {name: sorted(value) if isinstance(value, list) else value for name, value in trigger}}


def _webhook(url: str, memory: Memory) -> UUID:
    """The block with the address, which Prefect keeps as a secret: it may hold a key."""
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
