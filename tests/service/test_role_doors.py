"""Roles at a real server: who may read, start and work does that, and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from flows.service.api import Api, ApiFailed
from tests.service.conftest import Started
from tests.service.serviced import Running, deploy_doze

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]

RUN = "0f3a1c1e-0000-4000-8000-000000000000"


def api_of(running: Running, role: str) -> Api:
    return Api(running.api.url, (running.place.folder / f"auth-{role}").read_text().strip())


def refusal(api: Api, path: str, body: dict[str, Any]) -> str:
    with pytest.raises(ApiFailed) as refused:
        api.post(path, body)
    assert refused.value.status == 403
    return str(refused.value)


def test_a_viewer_reads_and_starts_nothing(service: Started) -> None:
    running, viewer = service.running, api_of(service.running, "viewer")
    doze = deploy_doze(running.api)
    assert doze in [each["id"] for each in viewer.post("/deployments/filter", {})]
    assert viewer.get(f"/deployments/{doze}")["name"] == "test"
    said = refusal(viewer, f"/deployments/{doze}/create_flow_run", {"parameters": {}})
    assert "the role viewer reads" in said


def test_an_operator_starts_and_retries_and_deploys_nothing(service: Started, tmp_path: Path) -> None:
    running, operator = service.running, api_of(service.running, "operator")
    doze, diary = deploy_doze(running.api), tmp_path / "made" / "diary"
    told = {"parameters": {"diary": str(diary), "seconds": 0}}
    run = operator.post(f"/deployments/{doze}/create_flow_run", told)["id"]
    running.until(lambda: running.state_of(run) == "Failed", "there is no folder")
    diary.parent.mkdir()
    again = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": False}
    assert operator.post(f"/flow_runs/{run}/set_state", again)["status"] == "ACCEPT"
    running.until(lambda: running.state_of(run) == "Completed", "it is retried")
    refusal(operator, "/deployments/", {"name": "mine", "flow_id": RUN})
    refusal(operator, "/block_documents/filter", {"include_secrets": True})


def test_a_key_that_is_removed_opens_nothing_and_a_new_one_does(service: Started) -> None:
    running, before = service.running, api_of(service.running, "viewer")
    (running.place.folder / "auth-viewer").write_text("viewer:another")
    with pytest.raises(ApiFailed, match="401"):
        before.post("/flows/filter", {})
    assert api_of(running, "viewer").post("/flows/filter", {}) is not None
    assert (running.place.folder / "auth-worker").stat().st_mode & 0o777 == 0o600


def test_only_who_may_listens(service: Started) -> None:
    url = service.running.api.url.replace("http", "ws")
    heard = {
        (role, path): asyncio.run(opened(f"{url}{path}", api_of(service.running, role).auth or ""))
        for role in ("viewer", "worker")
        for path in ("/events/in", "/events/out")
    }
    assert [key for key, said in heard.items() if not said] == [("viewer", "/events/in")]


async def opened(url: str, auth: str) -> bool:
    """Whether a WebSocket says that an auth string is right."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed
    from websockets.typing import Subprotocol

    async with connect(url, subprotocols=[Subprotocol("prefect")]) as socket:
        await socket.send(json.dumps({"type": "auth", "token": auth}))
        try:
            return json.loads(await socket.recv())["type"] == "auth_success"
        except ConnectionClosed:
            return False
