"""A home that a server's account may enter (pytest's own folders are closed to it), and no server left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage import connections
from storage.embedded import Cluster

MEMORY = Path("/dev/shm")
CLUSTERS_BYTES = 1_000_000_000


@contextmanager
def open_home() -> Generator[Path]:
    # in memory where there is room: a new cluster writes a thousand files through to the disk
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > CLUSTERS_BYTES
    folder = Path(tempfile.mkdtemp(prefix="trivet-home-", dir=MEMORY if roomy else "/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        Cluster(folder).remove()
        shutil.rmtree(folder)


@pytest.fixture
def home() -> Iterator[Path]:
    with open_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def running() -> Iterator[Path]:
    """A home whose server the tests of a module share."""
    with open_home() as folder:
        Cluster(folder).start()
        yield folder


@pytest.fixture(scope="module")
def url(running: Path) -> Iterator[str]:
    """The address of that server."""
    address = Cluster(running).start()
    yield address
    connections.engine(address).dispose()
