"""Who has only another account of the machine, or only the server's password, gets nothing that is not theirs."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from flows.service.api import ApiFailed
from tests.service.conftest import Started
from tests.service.serviced import Running, deploy_doze, diary_of
from tests.storage.looking import as_root, read_by_another

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]

SECRET = "sk-4f0c2b9a7d"


def crashed(running: Running, run: str) -> str:
    """The message of a run that a worker does not start."""
    running.until(lambda: running.state_of(run) == "Crashed", "the worker refuses it")
    return running.api.get(f"/flow_runs/{run}")["state"]["message"]


def shell(made: Path) -> str:
    return f"touch {made}"


def test_the_server_refuses_a_command_among_job_variables(service: Started, tmp_path: Path) -> None:
    doze = deploy_doze(service.running.api)
    for variables in ({"command": shell(tmp_path / "made")}, {"env": {"PYTHONPATH": str(tmp_path)}}):
        with pytest.raises(ApiFailed, match="Additional properties are not allowed"):
            service.running.api.post(
                f"/deployments/{doze}/create_flow_run", {"parameters": {}, "job_variables": variables}
            )


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ({"command": "COMMAND"}, "name a command"),
        ({"env": {"PYTHONSTARTUP": "x"}}, "set PYTHONSTARTUP"),
        ({"working_dir": "/tmp"}, "the folder /tmp"),
    ],
    ids=["command", "env", "folder"],
)
def test_a_worker_refuses_what_a_changed_pool_asks_for(
    service: Started, tmp_path: Path, attack: dict[str, Any], reason: str
) -> None:
    running, made, diary = service.running, tmp_path / "made", tmp_path / "diary"
    attack = {name: shell(made) if value == "COMMAND" else value for name, value in attack.items()}
    pool = running.api.get("/work_pools/cpu")["base_job_template"]
    template = {**pool, "job_configuration": pool["job_configuration"] | attack}
    patch(running, "/work_pools/cpu", {"base_job_template": template})
    try:
        running.until(lambda: running.api.get("/work_pools/cpu")["base_job_template"] == template, "it is changed")
        run = running.run(deploy_doze(running.api), diary, seconds=0)
        assert reason in crashed(running, run)
    finally:
        patch(running, "/work_pools/cpu", {"base_job_template": pool})
    assert not made.exists()
    assert diary_of(diary) == []


@pytest.mark.parametrize("way", ["pull", "path"])
def test_a_worker_refuses_a_deployment_that_brings_code(service: Started, tmp_path: Path, way: str) -> None:
    running, made, script = service.running, tmp_path / "made", tmp_path / "brought.py"
    script.write_text(f"from pathlib import Path\nPath({str(made)!r}).touch()\n")
    brings: dict[str, Any] = {"entrypoint": f"{script}:flow", "pull_steps": []}
    if way == "pull":
        step = {"prefect.deployments.steps.run_shell_script": {"script": shell(made)}}
        brings = {"entrypoint": "tests.service.dozing.doze", "pull_steps": [step]}
    flow = running.api.post("/flows/", {"name": "doze"})["id"]
    asked = {"name": f"brings-{way}", "flow_id": flow, "work_pool_name": "cpu", **brings}
    run = running.run(running.api.post("/deployments/", asked)["id"], tmp_path / "diary", seconds=0)
    said = crashed(running, run)
    assert ("fetches code" if way == "pull" else "name an installed flow") in said
    assert not made.exists()


def test_an_api_key_among_parameters_is_refused_with_the_remedy(service: Started, tmp_path: Path) -> None:
    model = {"backend": "openai", "name": "m", "args": {"api_key": SECRET}}
    config = {"model": model, "tasks": [{"task": "MATH500"}], "output_path": str(tmp_path)}
    deployment = service.running.api.get("/deployments/name/evaluation/evaluate")["id"]
    with pytest.raises(ApiFailed) as refused:
        service.running.start(deployment, {"config": config})
    assert "api_key_env" in str(refused.value)
    assert SECRET not in str(refused.value)


def patch(running: Running, path: str, body: dict[str, Any]) -> None:
    import httpx

    assert running.api.auth
    user, _, password = running.api.auth.partition(":")
    httpx.patch(running.api.url + path, json=body, auth=(user, password), trust_env=False).raise_for_status()


@as_root
def test_another_account_reads_nothing_of_a_home_that_has_worked(service: Started, tmp_path: Path) -> None:
    running = service.running
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "one.md").write_text("# One\n\nA page.\n")
    run = running.run(deploy_doze(running.api), tmp_path / "diary", seconds=0)
    running.until(lambda: running.state_of(run) == "Completed", "a worker has worked")
    assert running.trivet("rag", "index", str(documents), "--index", str(tmp_path / "index")).code == 0
    assert read_by_another(running.place.home) == []
    umask = os.umask(0o077)
    os.umask(umask)
    opened = stat.S_IMODE((tmp_path / "index").stat().st_mode)
    assert opened == 0o777 & ~umask, "what was asked for is as open as the user's umask says"
