"""`trivet deploy` against a server: all of it once, and again what the folder says."""

from __future__ import annotations

from pathlib import Path

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate, WorkPoolUpdate

from flows.service.api import Api
from flows.service.deploy import Deployed, DeployFailed, deploy
from tests.command import run_here

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

DEPLOYMENTS = {
    *("rag/index", "rag-watch/watch", "rag-answer/answer", "evaluation/evaluate", "lever/train", "nightly/nightly"),
    "gpu-step/gpu",
}


def test_a_first_deploy_makes_everything(first: Deployed, client: SyncPrefectClient) -> None:
    assert (set(first.deployments), first.unchanged) == (DEPLOYMENTS, False)
    pools = {pool.name: (pool.type, pool.concurrency_limit) for pool in client.read_work_pools()}
    assert pools == {"cpu": ("process", 4), "gpu": ("process", 1)}
    limits = {limit.name: limit.limit for limit in client.read_global_concurrency_limits(limit=10, offset=0)}
    assert {name: limits[name] for name in ("gpu", "judge", "database")} == {"gpu": 1, "judge": 16, "database": 8}
    assert [one.name for one in client.read_automations()] == ["trivet-zombies"]


def test_a_schedule_is_in_the_time_zone_of_the_environment(client: SyncPrefectClient) -> None:
    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (nightly.active, getattr(nightly.schedule, "timezone", None)) == (True, "Europe/Berlin")


def test_an_unchanged_folder_is_deployed_again_only_when_asked(
    client: SyncPrefectClient, server: Api, folder: Path
) -> None:
    before = client.read_deployment_by_name("rag/index")
    assert deploy(server, folder, even_unchanged=False).unchanged
    assert client.read_deployment_by_name("rag/index").updated == before.updated

    (folder / "prefect.yaml").write_text(
        (folder / "prefect.yaml").read_text().replace("index: build/demo/index", "index: /srv/index", 1)
    )
    assert not deploy(server, folder, even_unchanged=False).unchanged
    assert client.read_deployment_by_name("rag/index").parameters["config"]["index"] == "/srv/index"


def test_pools_limits_and_switched_off_automations_stay_as_they_were_set(client: SyncPrefectClient) -> None:
    client.update_work_pool("cpu", WorkPoolUpdate(concurrency_limit=9))
    client.update_global_concurrency_limit("judge", GlobalConcurrencyLimitUpdate(limit=3))
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.pause_automation(zombies.id)

    done = run_here("deploy", "--json")

    assert (done.code, set(done.json["deployments"])) == (0, DEPLOYMENTS), done.stderr
    assert client.read_work_pool("cpu").concurrency_limit == 9
    assert client.read_global_concurrency_limit_by_name("judge").limit == 3
    [zombies] = client.read_automations_by_name("trivet-zombies")
    assert not zombies.enabled
    client.resume_automation(zombies.id)


def test_a_folder_that_cannot_be_deployed_is_named_with_what_prefect_says(server: Api, folder: Path) -> None:
    (folder / "prefect.yaml").write_text(
        (folder / "prefect.yaml").read_text().replace("rag.build_index", "rag.nothing")
    )
    with pytest.raises(DeployFailed, match=r"prefect\.yaml cannot be deployed"):
        deploy(server, folder)


def test_a_time_zone_that_is_none_is_named(server: Api, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIVET_TIMEZONE", "Berlin")
    with pytest.raises(DeployFailed, match="Berlin"):
        deploy(server, folder)
