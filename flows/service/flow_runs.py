"""Flow runs as the Prefect server of a home has them: what is under way, what waits, what failed, what has ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from flows.running.environment import AUTHORITY
from flows.service.api import UNDER_WAY, Api, ApiAway, ApiFailed, address_of, auth_of

MOST_ENDED = 50
RECENT = timedelta(days=7)
"""How far back ended runs are shown."""
AHEAD = timedelta(days=1)
"""How far ahead runs that wait for their time are listed."""
LOST = ("FAILED", "CRASHED")
ENDED = (*LOST, "COMPLETED", "CANCELLED")
NOT_FOUND = 404
RETRIED = "Retried on Trivet's page of runs"


class Progress(NamedTuple):
    """How far a part of a run is."""

    what: str
    per_cent: float


class FlowRun(NamedTuple):
    """A run of the server."""

    id: str
    name: str
    flow: str
    deployment: str | None
    """`rag/index`; None: it was not started from a deployment."""
    pool: str | None
    type: str
    """`RUNNING`, `FAILED` …"""
    state: str
    """`Running`, `AwaitingRetry`, `Regressed` …"""
    message: str
    begun: datetime | None
    ended: datetime | None
    due: datetime | None
    seconds: float
    attempts: int
    is_part: bool
    """Another run waits for it."""
    progress: tuple[Progress, ...] = ()

    @property
    def is_lost(self) -> bool:
        """It failed, crashed, or ended otherwise than well."""
        return self.type in LOST

    @property
    def has_ended(self) -> bool:
        return self.type in ENDED

    @property
    def can_retry(self) -> bool:
        """It has ended, and a worker can do it again by itself."""
        return self.type in ENDED and self.deployment is not None and not self.is_part


class Deployment(NamedTuple):
    """What the server has of a deployment."""

    id: str
    parameters: Mapping[str, Any]


class FlowRuns(NamedTuple):
    """The runs that no other run waits for."""

    under_way: list[FlowRun]
    waiting: list[FlowRun]
    lost: list[FlowRun]
    ended: list[FlowRun]


class Server(NamedTuple):
    """A Prefect server, and its pages."""

    api: Api
    ui: str
    """`http://127.0.0.1:4200`."""

    def page(self, run: str) -> str:
        """The page of a run in Prefect's own UI."""
        return f"{self.ui}/v2/runs/flow-run/{run}"

    def form(self, deployment: str) -> str:
        """The form there that starts a deployment."""
        return f"{self.ui}/v2/deployments/deployment/{deployment}/run"


def server_of(home: Path) -> Server:
    """The server that PREFECT_API_URL names, or that of `trivet up`. Raises ApiAway where there is none.

    PREFECT_UI_URL names its pages where browsers reach them at another address.
    """
    if named := os.environ.get("PREFECT_API_URL"):
        api = Api(named, os.environ.get("PREFECT_API_AUTH_STRING"), os.environ.get(AUTHORITY))
        return Server(api, (os.environ.get("PREFECT_UI_URL") or named.removesuffix("/api")).rstrip("/"))
    address = address_of(home)
    if address is None:
        raise ApiAway("no Prefect server: start one with `trivet up`, or set PREFECT_API_URL")
    return Server(Api(address.api_url, auth_of(home), address.authority), address.ui_url.rstrip("/"))


def look(api: Api, *, now: datetime, since: datetime) -> FlowRuns:
    """What there is to see; ended runs are those since `since`. Raises ApiFailed, ApiAway."""
    after = {"end_time": {"after_": since.isoformat()}}
    due = {"next_scheduled_start_time": {"before_": (now + AHEAD).isoformat()}}
    asked: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        (UNDER_WAY, {}, "START_TIME_DESC"),
        (("SCHEDULED",), due, "NEXT_SCHEDULED_START_TIME_ASC"),
        (LOST, after, "END_TIME_DESC"),
        (("COMPLETED", "CANCELLED"), after, "END_TIME_DESC"),
    ]
    found = [_filtered(api, types, more, sort) for types, more, sort in asked]
    told = iter(_told(api, [run for runs in found for run in runs], progress_of=[run["id"] for run in found[0]]))
    return FlowRuns(*([next(told) for _ in runs] for runs in found))


def one(api: Api, run: str) -> FlowRun | None:
    """The run of an ID; None where there is none. Raises ApiFailed, ApiAway."""
    try:
        found = api.get(f"/flow_runs/{UUID(run)}")
    except ValueError:
        return None
    except ApiFailed as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return _told(api, [found], progress_of=[found["id"]] if found["state_type"] in UNDER_WAY else [])[0]


def retry(server: Server, run: str) -> None:
    """Have a worker do a run again, as Retry in Prefect's UI. Raises CannotRerun, ServerAway."""
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_SSL_CERT_FILE,
        PREFECT_API_URL,
        temporary_settings,
    )

    from flows.running.reruns import rerun

    api = server.api
    named = {PREFECT_API_AUTH_STRING: api.auth, PREFECT_API_SSL_CERT_FILE: api.authority}
    with temporary_settings({PREFECT_API_URL: api.url, **{name: value for name, value in named.items() if value}}):
        rerun(run, said=RETRIED)


def is_served(api: Api, pool: str) -> bool:
    """Whether a worker of the pool is alive. Raises ApiFailed, ApiAway."""
    return any(one["status"] == "ONLINE" for one in api.post(f"/work_pools/{pool}/workers/filter", {}))


def deployment(api: Api, name: str) -> Deployment | None:
    """The deployment `flow/name`; None where there is no such. Raises ApiFailed, ApiAway."""
    try:
        found = api.get(f"/deployments/name/{name}")
    except ApiFailed as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return Deployment(found["id"], found["parameters"])


def _filtered(api: Api, types: Iterable[str], more: Mapping[str, Any], sort: str) -> list[dict[str, Any]]:
    chosen = {"state": {"type": {"any_": list(types)}}, "parent_task_run_id": {"is_null_": True}, **more}
    return api.post("/flow_runs/filter", {"flow_runs": chosen, "sort": sort, "limit": MOST_ENDED})


def _told(api: Api, runs: list[dict[str, Any]], *, progress_of: list[str]) -> list[FlowRun]:
    flows = _names(api, "flows", {run["flow_id"] for run in runs})
    deployments = _names(api, "deployments", {run["deployment_id"] for run in runs if run["deployment_id"]})
    progress = _progress(api, progress_of)
    return [_run(run, flows, deployments, progress) for run in runs]


def _names(api: Api, what: str, ids: set[str]) -> dict[str, str]:
    if not ids:
        return {}
    return {one["id"]: one["name"] for one in api.post(f"/{what}/filter", {what: {"id": {"any_": sorted(ids)}}})}


def _progress(api: Api, runs: list[str]) -> dict[str, list[Progress]]:
    if not runs:
        return {}
    wanted = {"artifacts": {"flow_run_id": {"any_": runs}, "type": {"any_": ["progress"]}}}
    found: dict[str, list[Progress]] = {}
    for bar in api.post("/artifacts/filter", wanted):
        what = bar["description"] or bar["key"] or ""
        found.setdefault(bar["flow_run_id"], []).append(Progress(what, float(bar["data"])))
    return found


def _run(
    run: dict[str, Any],
    flows: Mapping[str, str],
    deployments: Mapping[str, str],
    progress: Mapping[str, list[Progress]],
) -> FlowRun:
    state, flow = run["state"] or {}, flows.get(run["flow_id"], "")
    deployed = deployments.get(run["deployment_id"])
    return FlowRun(
        id=run["id"],
        name=run["name"],
        flow=flow,
        deployment=f"{flow}/{deployed}" if deployed else None,
        pool=run["work_pool_name"],
        type=state.get("type", ""),
        state=state.get("name", ""),
        message=state.get("message") or "",
        begun=_time(run["start_time"]),
        ended=_time(run["end_time"]),
        due=_time(run["next_scheduled_start_time"]),
        seconds=run["total_run_time"] or 0.0,
        attempts=run["run_count"],
        is_part=run["parent_task_run_id"] is not None,
        progress=tuple(progress.get(run["id"], ())),
    )


def _time(said: str | None) -> datetime | None:
    return datetime.fromisoformat(said) if said else None
