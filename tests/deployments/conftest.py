"""A Prefect server for each file that deploys."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.running.environment import prepare_environment

os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"  # the API is gone before Prefect's last flush
prepare_environment()

from prefect.client.orchestration import SyncPrefectClient, get_client  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402

from flows.service.api import Api  # noqa: E402
from flows.service.deploy import Deployed, deploy, find_deployments_folder  # noqa: E402
from tests.service.serviced import free_port  # noqa: E402

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with an empty database, which the environment names."""
    home, port = tmp_path_factory.mktemp("server"), free_port()
    (home / "prefect").mkdir()
    api = Api(f"http://127.0.0.1:{port}/api", None)
    named = {
        "TRIVET_HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": api.url,
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect/prefect.db",
        "TRIVET_TIMEZONE": "Europe/Berlin",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        process = subprocess.Popen([sys.executable, "-P", "-m", "flows.service.run_server", str(port)])
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not api.ready():
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.2)
            with temporary_settings({PREFECT_API_URL: api.url}):
                yield api
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def first(server: Api) -> Deployed:
    """What the first deploy did."""
    return deploy(server)


@pytest.fixture
def client(first: Deployed) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder, to change."""
    return Path(shutil.copytree(find_deployments_folder(), tmp_path / "deployments"))
