"""One service for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.service.serviced import Running, service_home


class Started(NamedTuple):
    """A service, and what `trivet up` said."""

    running: Running
    said: dict[str, Any]


@pytest.fixture(scope="module")
def service() -> Iterator[Started]:
    with service_home() as running:
        yield Started(running, running.up())
