"""Runs whose process was killed, or whose worker went, are done again by the workers of their pool.

Crashed ─► after PAUSES_S: AwaitingRetry ─► Running ─► … at most `retries` times, then it stays Crashed
Every step is cached by content, so a retry does only what is missing. A run that was never begun is left as it is.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from flows.running.settings import RETRY
from flows.service.api import MOST, Api, ApiFailed

LOOK_S = 5.0
PAUSES_S = (10.0, 60.0)
"""Seconds before the first retry, and before each further one."""
RECENT = timedelta(hours=1)
"""Age of crashes that are healed: older ones have been seen by people."""


async def heal_on(api: Api, *, pool: str, retries: int) -> None:
    """Look after the runs of a pool for as long as the worker runs."""
    while retries:
        try:
            healed = await asyncio.to_thread(heal, api, pool=pool, retries=retries, now=datetime.now(UTC))
        except ApiFailed:  # the server is away: the next look is soon
            healed = []
        for run in healed:
            print(f"{time.strftime('%H:%M:%S')} {run} crashed, and is done again", file=sys.stderr, flush=True)
        await asyncio.sleep(LOOK_S)


def heal(api: Api, *, pool: str, retries: int, now: datetime) -> list[str]:
    """Schedule the retries of the runs of this pool that have crashed; gives their IDs. Raises ApiFailed."""
    wanted = {
        "flow_runs": {
            "state": {"type": {"any_": ["CRASHED"]}},
            "end_time": {"after_": (now - RECENT).isoformat()},
            "parent_task_run_id": {"is_null_": True},  # a part of a run is done again with that
        },
        "work_pools": {"name": {"any_": [pool]}},
        "limit": MOST,
    }
    healed: list[str] = []
    for run in api.post("/flow_runs/filter", wanted):
        crashes = crashes_of(api.get(f"/flow_run_states/?flow_run_id={run['id']}"))
        if not 0 < crashes <= retries or not run["deployment_id"] or _is_taken(api, run["deployment_id"]):
            continue
        why = run["state"]["message"] or "it crashed"
        proposed: dict[str, Any] = {
            "type": "SCHEDULED",
            "name": "AwaitingRetry",
            "message": f"{RETRY} {crashes} of {retries}: {why}",
            "state_details": {"scheduled_time": (now + timedelta(seconds=pause_s(crashes))).isoformat()},
        }
        if api.post(f"/flow_runs/{run['id']}/set_state", {"state": proposed, "force": False})["status"] == "ACCEPT":
            healed.append(run["id"])
    return healed


def crashes_of(states: Iterable[dict[str, Any]]) -> int:
    """Crashes of a run since somebody began it; 0 if the last one came before it ran."""
    crashes, began = 0, False
    for state in sorted(states, key=lambda state: datetime.fromisoformat(state["timestamp"])):
        if state["name"] == "AwaitingRetry" and not (state["message"] or "").startswith(RETRY):
            crashes = 0
        elif state["type"] == "RUNNING":
            began = True
        elif state["type"] == "PENDING":
            began = False
        elif state["type"] == "CRASHED":
            crashes = crashes + 1 if began else crashes
    return crashes if began else 0


def pause_s(crashes: int) -> float:
    """Seconds before the next try."""
    return PAUSES_S[min(crashes, len(PAUSES_S)) - 1]


def _is_taken(api: Api, deployment: str) -> bool:
    """Whether a further run would be cancelled, as others have the places of the deployment."""
    found = api.get(f"/deployments/{deployment}")
    limit, options = found["global_concurrency_limit"], found["concurrency_options"] or {}
    return bool(limit and options.get("collision_strategy") == "CANCEL_NEW" and limit["active_slots"] >= limit["limit"])
