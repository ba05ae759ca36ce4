"""`trivet deploy` against a server: all of it once, and never over what was set in the UI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    DeploymentUpdate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolUpdate,
)
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.schemas.automations import AutomationCore

from flows.service.deploying import Deployed, deploy, find_deployments_folder
from tests.command import run_here

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

DEPLOYMENTS = {
    *(
        "rag/index",
        "rag-watch/watch",
        "rag-answer/answer",
        "evaluation/evaluate",
        "lever/train",
        "nightly/nightly",
        "gpu-step/gpu",
    ),
}


def edit(file: Path, **change: Any) -> None:
    """Change the deployment `index` of a prefect.yaml."""
    written = yaml.safe_load(file.read_text())
    written["deployments"][0] |= change
    file.write_text(yaml.safe_dump(written))


def test_a_first_deploy_makes_everything(first: Deployed) -> None:
    assert set(first.deployments) == DEPLOYMENTS
    assert (first.pools, first.limits, first.automations) == (
        ("cpu", "gpu"),
        ("gpu", "judge", "database"),
        ("trivet-zombies",),
    )
    assert (first.kept, first.failed) == ((), {})
    assert [line for line in first.changed if not line.endswith("made")] == ["queue gpu/default: limit"]


def test_a_second_deploy_changes_nothing(client: SyncPrefectClient) -> None:
    before = client.read_deployment_by_name("nightly/nightly")

    again = deploy()

    assert (again.changed, again.kept, again.failed) == ((), (), {})
    assert client.read_deployment_by_name("nightly/nightly") == before


def test_the_command_says_that_nothing_changed(client: SyncPrefectClient) -> None:
    told = run_here("deploy", "--json")
    said = run_here("deploy")

    assert (told.code, told.json["changed"], set(told.json["deployments"])) == (0, [], DEPLOYMENTS)
    assert (said.code, said.stdout.splitlines()[0]) == (0, "unchanged")


def test_a_schedule_is_in_the_time_zone_of_the_environment(client: SyncPrefectClient) -> None:
    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (nightly.slug, nightly.active, getattr(nightly.schedule, "timezone", None)) == (
        "nightly",
        True,
        "Europe/Berlin",
    )


def zone_of(client: SyncPrefectClient) -> str | None:
    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    return getattr(nightly.schedule, "timezone", None)


def test_a_machine_that_names_no_time_zone_leaves_the_one_that_is_there(
    client: SyncPrefectClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "prefect.yaml").read_text()
    (folder / "prefect.yaml").write_text(text.replace('cron: "0 2 * * *"', 'cron: "30 2 * * *"'))
    monkeypatch.delenv("TRIVET_TIMEZONE")

    same, edited = deploy(), deploy(folder)

    assert (same.changed, same.kept, same.failed) == ((), (), {})
    assert (edited.changed, edited.kept) == (("deployment nightly/nightly: schedules",), ())
    assert zone_of(client) == "Europe/Berlin"

    monkeypatch.setenv("TRIVET_TIMEZONE", "Asia/Seoul")
    assert len(deploy().changed) == 2
    assert zone_of(client) == "Asia/Seoul"
    monkeypatch.undo()
    deploy()


def test_a_time_zone_of_the_ui_stays_whether_a_machine_names_one_or_not(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = client.read_deployment_by_name("nightly/nightly")
    [nightly] = found.schedules
    mine = CronSchedule(cron="0 2 * * *", timezone="America/New_York")
    client.update_deployment_schedule(found.id, nightly.id, schedule=mine)

    named = deploy()
    monkeypatch.delenv("TRIVET_TIMEZONE")
    unnamed = deploy()
    monkeypatch.setenv("TRIVET_TIMEZONE", "Asia/Seoul")
    another = deploy()

    kept = ("deployment nightly/nightly: schedules",)
    assert (named.kept, unnamed.kept, another.kept) == (kept, (), kept)
    assert zone_of(client) == "America/New_York"

    client.update_deployment_schedule(found.id, nightly.id, schedule=nightly.schedule)
    monkeypatch.undo()
    deploy()


def test_a_time_zone_that_is_none_stops_only_what_has_a_schedule(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIVET_TIMEZONE", "Berlin")
    done = deploy()
    assert done.failed.keys() == {"lever/train", "nightly/nightly"}
    assert "TRIVET_TIMEZONE" in done.failed["nightly/nightly"]
    assert set(done.deployments) == DEPLOYMENTS - done.failed.keys()


def test_a_schedule_that_was_switched_off_stays_off(client: SyncPrefectClient, folder: Path) -> None:
    found = client.read_deployment_by_name("nightly/nightly")
    client.update_deployment_schedule(found.id, found.schedules[0].id, active=False)
    assert deploy().changed == ()
    text = (folder / "prefect.yaml").read_text()
    (folder / "prefect.yaml").write_text(text.replace('cron: "0 2 * * *"', 'cron: "30 2 * * *"'))

    moved = deploy(folder)

    [nightly] = client.read_deployment_by_name("nightly/nightly").schedules
    assert (moved.changed, nightly.active) == (("deployment nightly/nightly: schedules",), False)
    assert getattr(nightly.schedule, "cron", None) == "30 2 * * *"
    deploy()


def test_what_was_set_in_the_ui_stays(client: SyncPrefectClient, folder: Path) -> None:
    found = client.read_deployment_by_name("evaluation/evaluate")
    mine = {"config": found.parameters["config"] | {"overwrite": True}}
    client.update_deployment(found.id, DeploymentUpdate(parameters=mine))
    client.update_work_pool("cpu", WorkPoolUpdate(concurrency_limit=9))
    client.update_global_concurrency_limit("judge", GlobalConcurrencyLimitUpdate(limit=3))

    done = deploy()

    assert (done.changed, set(done.kept)) == (
        (),
        {"deployment evaluation/evaluate: parameters", "pool cpu: limit", "limit judge: slots"},
    )
    assert client.read_deployment_by_name("evaluation/evaluate").parameters == mine
    assert client.read_work_pool("cpu").concurrency_limit == 9


def test_an_edit_of_the_folder_reaches_the_server(client: SyncPrefectClient, folder: Path) -> None:
    told = {"documents": "/srv/documents", "index": "/srv/index"}
    edit(folder / "prefect.yaml", parameters={"config": told}, description="Ours")

    done = deploy(folder)

    found = client.read_deployment_by_name("rag/index")
    assert set(done.changed) == {"deployment rag/index: parameters", "deployment rag/index: settings"}
    assert (found.parameters["config"], found.description) == (told, "Ours")
    assert (found.entrypoint, found.pull_steps, found.work_pool_name) == ("flows.rag.build_index", [], "cpu")
    assert len(deploy().changed) == 2  # and back


def test_parameters_that_no_longer_validate_are_named_and_stop_no_other(client: SyncPrefectClient) -> None:
    """As after an upgrade: what was set in the UI once is no field of the flow any more."""
    found = client.read_deployment_by_name("rag/index")
    old = {"config": found.parameters["config"] | {"chunk_size": 800}}
    client.update_deployment(found.id, DeploymentUpdate(parameters=old, enforce_parameter_schema=False))

    done = deploy()

    assert done.failed.keys() == {"rag/index"}
    assert "chunk_size" in done.failed["rag/index"]
    assert "correct them on its page" in done.failed["rag/index"]
    assert set(done.deployments) == DEPLOYMENTS - {"rag/index"}
    assert run_here("deploy").code == 3
    assert client.read_deployment_by_name("rag/index").parameters == old

    client.update_deployment(found.id, DeploymentUpdate(parameters=found.parameters))
    assert deploy().failed == {}
    assert client.read_deployment_by_name("rag/index").enforce_parameter_schema


def test_an_entrypoint_that_does_not_load_is_named_and_stops_no_other(client: SyncPrefectClient, folder: Path) -> None:
    edit(folder / "prefect.yaml", entrypoint="flows.rag.rebuild")
    done = deploy(folder)
    assert ("flows.rag.rebuild" in str(done.failed), len(done.deployments)) == (True, len(DEPLOYMENTS) - 1)


def test_an_automation_is_there_once_even_after_two_deploys_at_once(client: SyncPrefectClient) -> None:
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.create_automation(AutomationCore.model_validate(zombies.model_dump()))
    assert len(client.read_automations_by_name("trivet-zombies")) == 2

    done = deploy()

    assert done.changed == ("automation trivet-zombies: a double was removed",)
    assert len(client.read_automations_by_name("trivet-zombies")) == 1


def test_an_automation_that_was_switched_off_stays_off(client: SyncPrefectClient) -> None:
    [zombies] = client.read_automations_by_name("trivet-zombies")
    client.pause_automation(zombies.id)
    assert deploy().changed == ()
    assert not client.read_automations_by_name("trivet-zombies")[0].enabled
    client.resume_automation(zombies.id)


def test_prefects_own_command_takes_the_file(client: SyncPrefectClient) -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file"]
    done = subprocess.run(
        [*command, str(find_deployments_folder() / "prefect.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert deploy().changed == ()
