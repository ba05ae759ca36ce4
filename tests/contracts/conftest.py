"""The backends of tests/contracts/backends.py, each opened once for all that is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contracts.backends import BACKENDS, one_thread


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The backend whose name `those` gives; tests are sorted by it."""
    chosen = BACKENDS[request.param]
    folder = tmp_path_factory.mktemp("backend")
    with one_thread():
        chosen.furnish(folder)
        with chosen.opened(folder) as opened:
            yield opened
