"""What a worker refuses to execute, and why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.responses import DeploymentResponse

from flows.service.run_limits import why_not

INSTALLED: dict[str, Any] = {
    "name": "index",
    "entrypoint": "flows.rag.build_index",
    "pull_steps": [],
    "storage_document_id": None,
}
SHELL = [{"prefect.deployments.steps.run_shell_script": {"script": "id"}}]


def reason(
    *, command: str | None = None, environment: dict[str, Any] | None = None, folder: Path | None = None, **changed: Any
) -> str | None:
    deployment = DeploymentResponse.model_construct(**INSTALLED | changed)
    return why_not(deployment, command=command, environment=environment or {}, folder=folder)


@pytest.mark.parametrize("folder", [None, Path()], ids=["a folder of its own", "that of the worker"])
def test_an_installed_flow_is_executed(folder: Path | None) -> None:
    assert reason(folder=folder, environment={"TRIVET_LLM": "none"}) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"command": "sh -c id"}, r"name a command \(sh -c id\)"),
        ({"environment": {"LD_PRELOAD": "/tmp/x.so", "TRIVET_LLM": "none"}}, "set LD_PRELOAD; only .*TRIVET_LLM"),
        ({"environment": {"TRIVET_SANDBOX_PYTHON": "/tmp/x"}}, "set TRIVET_SANDBOX_PYTHON"),
        ({"folder": Path("/tmp")}, "the folder /tmp"),
        ({"pull_steps": SHELL}, "fetches code"),
        ({"storage_document_id": "a block"}, "fetches code"),
        ({"entrypoint": "/tmp/x.py:flow"}, "name an installed flow with dots"),
        ({"entrypoint": None}, "name an installed flow with dots"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_would_execute_something_else_is_refused(asked: dict[str, Any], said: str) -> None:
    assert re.search(said, reason(**asked) or "")


def test_a_run_without_a_deployment_is_refused() -> None:
    assert why_not(None, command=None, environment={}, folder=None) == "it has no deployment"
