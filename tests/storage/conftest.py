"""A home that a server's account may enter (pytest's own folders are closed to it), and no server left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.running.command_server import end_shared_api
from storage import connections
from storage.embedded import Cluster

MEMORY = Path("/dev/shm")
CLUSTERS_BYTES = 1_000_000_000


def make_home(prefix: str, within: Path | None = None) -> Path:
    """In memory where there is room: a new cluster writes a thousand files through to the disk."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > CLUSTERS_BYTES
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within or (MEMORY if roomy else "/tmp")))
    folder.chmod(0o755)
    return folder


@contextmanager
def open_home() -> Generator[Path]:
    folder = make_home("trivet-home-")
    try:
        yield folder
    finally:
        end_shared_api(folder)
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
