"""Two servers on one PostgreSQL and Redis, behind a balancer: one is killed, and the run goes on through the other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.service import supervising
from flows.service.api import Api
from flows.service.deploy import find_deployments_folder
from flows.service.server_database import EXTENSION
from storage.embedded import Cluster
from tests.command import TRIVET
from tests.deployments.units import unit
from tests.service.serviced import ROOT, deploy, deploy_doze, diary_of, free_port

pytestmark = [
    pytest.mark.drill,
    pytest.mark.engine,
    pytest.mark.postgres,
    pytest.mark.machine,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (shutil.which("redis-server") and shutil.which("haproxy")), reason="no redis-server and haproxy here"
    ),
]

PATIENCE_S = 180.0
AUTH = "trivet:secret"
STEPS = 20


class Pair(NamedTuple):
    """Two servers, each with a home, and one address for both."""

    api: Api
    start: Callable[[int], subprocess.Popen[bytes]]
    """Starts the server of a number."""
    servers: dict[int, subprocess.Popen[bytes]]
    ready: Callable[[int], bool]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="trivet-pair-"))
    folder.chmod(0o755)
    ports: dict[str | int, int] = {name: free_port() for name in ("redis", "balancer", 1, 2)}
    cluster = Cluster(folder / "database", extension=EXTENSION)
    (folder / "database").mkdir()
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, folder, ignore_errors=True)
        ended.callback(cluster.remove)
        url = cluster.start().replace("postgresql://", "postgresql+asyncpg://", 1)
        begin = Started(folder, ended)
        redis = ("redis-server", "--bind", "127.0.0.1", "--port", str(ports["redis"]), "--dir", str(folder))
        begin("redis", (*redis, "--save", ""), {})
        servers: dict[int, subprocess.Popen[bytes]] = {}

        def start(number: int) -> subprocess.Popen[bytes]:
            home = folder / f"home-{number}"
            ours = variables("server", home, ports["balancer"]) | shared(f"127.0.0.1:{ports['redis']}")
            ours |= {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url, "PREFECT_SERVER_API_AUTH_STRING": AUTH}
            command = (sys.executable, "-P", "-m", "flows.service.run_server", str(ports[number]))
            servers[number] = begin(f"server-{number}", command, ours)
            return servers[number]

        def ready(number: int) -> bool:
            return Api(f"http://127.0.0.1:{ports[number]}/api", AUTH).ready()

        config = folder / "haproxy.cfg"
        config.write_text(balanced(ports["balancer"], (ports[1], ports[2])))
        start(1)  # makes the tables
        until(lambda: ready(1), begin.logs)
        start(2)
        until(lambda: ready(2), begin.logs)
        begin("balancer", ("haproxy", "-db", "-f", str(config)), {})
        api = Api(f"http://127.0.0.1:{ports['balancer']}/api", AUTH)
        until(api.ready, begin.logs)
        work = variables("worker-cpu", folder / "home-worker", ports["balancer"]) | {"PREFECT_API_AUTH_STRING": AUTH}
        subprocess.run([*TRIVET, "deploy"], env=clean() | work, cwd=ROOT, check=True, timeout=PATIENCE_S)
        begin("worker", (sys.executable, "-P", "-m", "flows.service.run_worker", "cpu"), work)
        until(lambda: api.post("/work_pools/cpu/workers/filter", {}), begin.logs)
        yield Pair(api, start, servers, ready)
    for number in ("1", "2", "worker"):
        assert supervising.of_service(str(folder / f"home-{number}")) == []


class Started:
    """Programs with a log, which are ended with the test."""

    def __init__(self, folder: Path, ended: ExitStack) -> None:
        self._folder, self._ended = folder, ended

    def __call__(self, name: str, command: tuple[str, ...], own: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, env={**clean(), **own}, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._ended.callback(process.wait, 60)
        self._ended.callback(process.terminate)
        return process

    def logs(self) -> str:
        """The end of each."""
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in self._folder.glob("*.log"))


def clean() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
    return kept | {"OMP_NUM_THREADS": "1"}


def variables(name: str, home: Path, port: int) -> dict[str, str]:
    """Those of a systemd unit, on a machine of its own."""
    return {
        key: value.replace("/var/lib/trivet", str(home)).replace("4200", str(port))
        for key, value in unit(name).environment.items()
    }


def shared(redis: str) -> dict[str, str]:
    """What ha.env.example adds for both servers."""
    lines = (find_deployments_folder() / "ha.env.example").read_text().replace("redis:6379", redis).splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def balanced(port: int, servers: tuple[int, int]) -> str:
    """The configuration of the balancer, with the ports of this machine."""
    text = (find_deployments_folder() / "haproxy.cfg").read_text().replace("bind :4200", f"bind 127.0.0.1:{port}")
    for name, its in zip(("server", "server-2"), servers, strict=True):
        text = re.sub(rf" {name}:4200", f" 127.0.0.1:{its}", text)
    return text


def until(holds: Callable[[], object], logs: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it did not happen\n{logs()}"
        time.sleep(0.3)


def state_of(pair: Pair, run: str) -> str:
    return pair.api.get(f"/flow_runs/{run}")["state"]["name"]


def begun(pair: Pair, deployment: str, diary: Path, **parameters: float) -> str:
    told = {"parameters": {"diary": str(diary), **parameters}}
    run = pair.api.post(f"/deployments/{deployment}/create_flow_run", told)["id"]
    until(lambda: diary_of(diary))
    return run


@pytest.mark.parametrize("dies", [1, 2])
def test_a_run_goes_on_through_the_other_server(pair: Pair, tmp_path: Path, dies: int) -> None:
    diary = tmp_path / "diary"
    run = begun(pair, deploy(pair.api, "count"), diary, steps=STEPS, seconds=1)
    pair.servers[dies].kill()
    pair.servers[dies].wait()
    until(lambda: state_of(pair, run) in ("Completed", "Failed", "Crashed"))
    assert state_of(pair, run) == "Completed"
    assert diary_of(diary) == [str(number) for number in range(STEPS)]
    steps = {"flow_runs": {"id": {"any_": [run]}}}
    until(lambda: [each["state_name"] for each in pair.api.post("/task_runs/filter", steps)] == ["Completed"] * STEPS)

    other = begun(pair, deploy_doze(pair.api), tmp_path / "doze", seconds=1)  # what begins now is done too
    until(lambda: state_of(pair, other) == "Completed")

    pair.start(dies)
    until(lambda: pair.ready(dies))


def test_a_server_that_comes_back_leaves_alone_what_the_other_one_does(pair: Pair, tmp_path: Path) -> None:
    """Waits of automations and slots are those of a server that was never away."""
    run = begun(pair, deploy(pair.api, "hold"), tmp_path / "diary", seconds=600)
    pair.servers[1].kill()
    pair.servers[1].wait()
    time.sleep(6)  # longer than a reader of events is silent
    pair.start(1)
    until(lambda: pair.ready(1))
    [limit] = [each for each in pair.api.post("/v2/concurrency_limits/filter", {}) if each["name"] == "gpu"]
    assert limit["active_slots"] == 1
    (tmp_path / "diary.enough").touch()
    until(lambda: state_of(pair, run) == "Completed")
