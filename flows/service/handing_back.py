"""Flow runs whose process is gone are handed back to the server, which has them run again: not lost, not done twice.

Prefect's own way (`prefect flow-run execute`) does the same for a run in a container; a process worker that is
stopped leaves its runs in the state Running.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

from flows.service.api import Api

UNDER_WAY = ("RUNNING", "PENDING", "CANCELLING")
WORKER_LABEL = "prefect.worker.name"
MOST = 200
"""What the server tells at once."""


def hand_back(api: Api, runs: Iterable[str], *, why: str) -> list[str]:
    """Have those that count as under way run again (or be cancelled, where that was asked); gives their ids.

    runs: ids of flow runs that no process works for. Raises ApiFailed, ApiAway.
    """
    return [run for run in sorted(runs) if _hand_back(api, run, why)]


def _hand_back(api: Api, run: str, why: str) -> bool:
    state = (api.get(f"/flow_runs/{run}")["state"] or {}).get("type")
    if state not in UNDER_WAY:
        return False
    proposed: dict[str, Any] = {"type": "CANCELLED", "name": "Cancelled", "message": why}
    if state != "CANCELLING":
        details = {"scheduled_time": datetime.now(UTC).isoformat()}
        proposed = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": why, "state_details": details}
    said = api.post(f"/flow_runs/{run}/set_state", {"state": proposed, "force": False})
    return said["status"] == "ACCEPT"


def abandoned(api: Api, *, pool: str, worker: str, alive: Collection[str]) -> list[str]:
    """Runs that this worker took, that count as under way, and that no living process works for.

    alive: ids of the runs that have one. Raises ApiFailed, ApiAway.
    """
    wanted = {
        "flow_runs": {"state": {"type": {"any_": list(UNDER_WAY)}}},
        "work_pools": {"name": {"any_": [pool]}},
        "limit": MOST,
    }
    taken = (run for run in api.post("/flow_runs/filter", wanted) if (run["labels"] or {}).get(WORKER_LABEL) == worker)
    return [run["id"] for run in taken if run["id"] not in alive]
