"""One Prefect API for all engine tests of a session."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from flows.running.command_server import prefect_api, wait_until_healthy
from flows.running.environment import prepare_environment
from flows.running.settings import settings
from tests.drills.evaluating import adder
from tests.models.server import Server, serving

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"  # the API is gone before Prefect's last flush
os.environ["PREFECT_LOGGING_LEVEL"] = "CRITICAL"  # its handler would keep the stderr of the first test
prepare_environment()


@pytest.fixture(autouse=True, scope="session")
def _prefect() -> Generator[None]:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with prefect_api(settings().home):
        wait_until_healthy(settings().home)
        with temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}):
            yield


@pytest.fixture(scope="module")
def client() -> Iterator[SyncPrefectClient]:
    """Of that API."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A model that no other test asks: they share a database."""
    return f"model-of-{request.node.name}"


@pytest.fixture
def server(name: str) -> Iterator[Server]:
    """That model, which adds, and a judge beside it."""
    with serving() as running:
        running.answer, running.models = adder(pause_s=0), (name, "judge")
        yield running
