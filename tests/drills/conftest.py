"""What drills share: an empty home, and an endpoint of a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.server import Server, serving
from tests.storage.conftest import open_home


@pytest.fixture
def home() -> Iterator[Path]:
    with open_home() as folder:
        yield folder


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running
