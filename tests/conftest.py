"""Every test runs offline, without telemetry, in a home of its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from tasks.sandbox import Sandbox

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SAMPLES = Path(__file__).parent / "samples" / "documents"

os.environ |= {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
HOME = Path(tempfile.mkdtemp(prefix="trivet-tests-"))
HOME.chmod(0o755)  # as root the embedded PostgreSQL runs as another account, which has to reach its folder
os.environ["TRIVET_HOME"] = str(HOME)
os.environ.pop("PREFECT_HOME", None)  # set by a conftest before its workers start, it would be one database for all
# threads of tiny networks wait for each other, and beside a second worker for a processor too: minutes for seconds
os.environ.setdefault("OMP_NUM_THREADS", "1")

from flows.running import command_server  # noqa: E402 it reads the environment above
from tests.command import be_quick  # noqa: E402

be_quick()


def pytest_unconfigure() -> None:
    """The process that hands tests to workers has a home too, and no session fixture that removes it."""
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def _home_is_removed() -> Iterator[None]:
    yield
    from storage.embedded import Cluster

    command_server.end_shared_api(HOME)
    Cluster(HOME).remove()
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """Fail on any connection that would leave this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert isinstance(address, tuple)
            assert address[0] in ("127.0.0.1", "::1", "localhost"), f"a test connected to {address}"
        connect(self, address)  # pyright: ignore[reportArgumentType]

    socket.socket.connect = guarded  # pyright: ignore[reportAttributeAccessIssue]
    yield
    socket.socket.connect = connect


@pytest.fixture(scope="session")
def shared() -> Path:
    """The real data beside the project; tests that ask for it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("../shared/data is not here")
    return SHARED


@pytest.fixture(scope="session")
def samples() -> Path:
    """The project's own small documents."""
    return SAMPLES


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Two programs run in it at a time; tests that ask for it are skipped where no engine works."""
    from tasks.sandbox import Sandbox
    from tasks.sandbox.sandbox_records import SandboxUnavailable

    with Sandbox(workers=2) as opened:
        try:
            opened.start()
        except SandboxUnavailable as why:
            pytest.skip(str(why))
        yield opened


# a busy machine is slow, not wrong
hypothesis.settings.register_profile("trivet", deadline=None)
hypothesis.settings.load_profile("trivet")

MAY_SKIP_IN_CI = ("gpu", "engines", "peers", "machine")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare each worker the imports of files that name none of the marks of `-m "drill or slow"`."""
    marks = config.option.markexpr.split(" or ")
    if collection_path.suffix != ".py" or not all(map(str.isidentifier, marks)):
        return None
    named = re.search(rf"mark\.({'|'.join(marks)})\b", collection_path.read_text("utf-8"))
    return None if named else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose `program(…)` is not installed, with its name as the reason. Files of the engine go first.

    Workers take files in this order: they are long, and short ones are left for the worker that would be idle.
    """
    heavy = {item.path for item in items if item.get_closest_marker("engine")}
    items.sort(key=lambda item: item.path not in heavy)
    for item in items:
        wanted = [name for mark in item.iter_markers("program") for name in mark.args]
        missing = [name for name in wanted if shutil.which(name) is None]
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)}: not installed"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """In CI a skipped test is a failure: a check that nobody runs proves nothing."""
    report = yield
    excused = any(item.get_closest_marker(name) for name in MAY_SKIP_IN_CI) or not SHARED.is_dir()
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail") and not excused:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
