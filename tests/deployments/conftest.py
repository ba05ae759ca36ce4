"""A Prefect server for each file that deploys."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.running.command_server import prefect_api, wait_until_healthy
from flows.running.environment import prepare_environment

os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"  # the API is gone before Prefect's last flush
prepare_environment()

from prefect.client.orchestration import SyncPrefectClient, get_client  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402

from flows.service.deploying import Deployed, deploy, find_deployments_folder  # noqa: E402


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server with an empty database; gives its home."""
    home = tmp_path_factory.mktemp("server")
    told = {"PREFECT_HOME": str(home / "prefect"), "PREFECT_API_URL": "", "TRIVET_TIMEZONE": "Europe/Berlin"}
    before = {name: os.environ.get(name) for name in told}
    os.environ |= told
    try:
        with prefect_api(home):
            wait_until_healthy(home)
            with temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}):
                yield home
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="module")
def first(server: Path) -> Deployed:
    """What the first deploy did."""
    return deploy()


@pytest.fixture
def client(first: Deployed) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder, to change."""
    return Path(shutil.copytree(find_deployments_folder(), tmp_path / "deployments"))
