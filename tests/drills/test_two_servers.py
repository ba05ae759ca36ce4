"""Two servers on one PostgreSQL and Redis, behind a balancer: one is killed, and the run goes on through the other."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.service import supervising
from flows.service.api import Api
from flows.service.deploy import find_deployments_folder
from flows.service.server_database import EXTENSION
from storage.embedded import Cluster
from tests.command import until
from tests.deployments.units import AUTH, Machine, end
from tests.service.serviced import deploy, diary_of, free_port, run_dozing

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
STEPS = 20


class Pair(NamedTuple):
    """Two servers on machines of their own, and one address for both."""

    api: Api
    machines: dict[int, Machine]
    servers: dict[int, subprocess.Popen[bytes]]
    shared: dict[str, str]
    """Variables of both servers."""

    def start(self, number: int) -> None:
        """Start the server of a number, and wait for it."""
        self.servers[number] = self.machines[number].start("server", **self.shared)
        until(self.machines[number].api.is_ready, within_s=PATIENCE_S)

    def kill(self, number: int) -> None:
        """As the kernel does."""
        self.servers[number].kill()
        self.servers[number].wait()

    def begin(self, deployment: str, diary: Path, **parameters: float) -> str:
        """A run that has begun."""
        run = run_dozing(self.api, deployment, diary, **parameters)
        until(lambda: diary_of(diary), within_s=PATIENCE_S)
        return run

    def ended(self, run: str) -> str:
        """The state of a run in the end."""

        def state() -> str:
            return self.api.get(f"/flow_runs/{run}")["state"]["name"]

        until(lambda: state() in ("Completed", "Failed", "Crashed"), within_s=PATIENCE_S)
        return state()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="trivet-pair-"))
    folder.chmod(0o755)
    redis, balancer = free_port(), free_port()
    cluster = Cluster(folder / "database", extension=EXTENSION)
    (folder / "database").mkdir()
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, folder, ignore_errors=True)
        ended.callback(cluster.remove)
        url = cluster.start().replace("postgresql://", "postgresql+asyncpg://", 1)

        def begin(*command: str) -> None:
            ended.callback(end, subprocess.Popen(command, stdin=subprocess.DEVNULL))

        begin("redis-server", "--bind", "127.0.0.1", "--port", str(redis), "--dir", str(folder), "--save", "")
        # what ha.env.example adds for both servers
        lines = (find_deployments_folder() / "ha.env.example").read_text().splitlines()
        shared = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        shared = {name: value.replace("redis:6379", f"127.0.0.1:{redis}") for name, value in shared.items()}
        shared |= {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url, "PREFECT_SERVER_API_AUTH_STRING": AUTH}
        machines = {n: Machine(folder / f"home-{n}", free_port(), free_port(), ended) for n in (1, 2)}
        worker = Machine(folder / "home-worker", balancer, free_port(), ended)
        pair = Pair(worker.api, machines, {}, shared)
        pair.start(1)  # makes the tables
        pair.start(2)

        text = (
            (find_deployments_folder() / "haproxy.cfg").read_text().replace("bind :4200", f"bind 127.0.0.1:{balancer}")
        )
        for name, machine in zip(("server", "server-2"), machines.values(), strict=True):
            text = re.sub(rf" {name}:4200", f" 127.0.0.1:{machine.port}", text)
        (folder / "haproxy.cfg").write_text(text)
        begin("haproxy", "-db", "-f", str(folder / "haproxy.cfg"))
        until(pair.api.is_ready, within_s=PATIENCE_S)
        assert worker.start("deploy", PREFECT_API_AUTH_STRING=AUTH).wait(PATIENCE_S) == 0
        worker.start("worker-cpu", PREFECT_API_AUTH_STRING=AUTH)
        until(lambda: pair.api.post("/work_pools/cpu/workers/filter", {}), within_s=PATIENCE_S)
        yield pair
    for name in ("1", "2", "worker"):
        assert supervising.find_processes(str(folder / f"home-{name}")) == []


@pytest.mark.parametrize("dies", [1, 2])
def test_a_run_goes_on_through_the_other_server(pair: Pair, tmp_path: Path, dies: int) -> None:
    diary = tmp_path / "diary"
    run = pair.begin(deploy(pair.api, "count"), diary, steps=STEPS, seconds=1)
    pair.kill(dies)
    assert pair.ended(run) == "Completed"
    assert diary_of(diary) == [str(number) for number in range(STEPS)]
    steps = {"flow_runs": {"id": {"any_": [run]}}}
    until(lambda: [each["state_name"] for each in pair.api.post("/task_runs/filter", steps)] == ["Completed"] * STEPS)

    other = pair.begin(deploy(pair.api), tmp_path / "doze", seconds=1)  # what begins now is done too
    assert pair.ended(other) == "Completed"
    pair.start(dies)


def test_a_server_that_comes_back_leaves_alone_what_the_other_one_does(pair: Pair, tmp_path: Path) -> None:
    """Waits of automations and slots are those of a server that was never away."""
    run = pair.begin(deploy(pair.api, "hold"), tmp_path / "diary", seconds=600)
    pair.kill(1)
    time.sleep(6)  # longer than a reader of events is silent
    pair.start(1)
    [limit] = [each for each in pair.api.post("/v2/concurrency_limits/filter", {}) if each["name"] == "gpu"]
    assert limit["active_slots"] == 1
    (tmp_path / "diary.enough").touch()
    assert pair.ended(run) == "Completed"


def test_no_event_is_lost_that_comes_while_others_are_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's publisher empties its batch after it was sent, and with it what was added meanwhile."""
    from prefect_redis.client import get_async_redis_client
    from prefect_redis.messaging import Cache, Publisher

    for name, value in pair.shared.items():
        monkeypatch.setenv(name, value)

    async def publish(count: int) -> int:
        async with Publisher(
            "pace", Cache(), deduplicate_by="id", publish_every=timedelta(milliseconds=5)
        ) as publisher:
            for number in range(count):
                await publisher.publish_data(b"", {"id": f"{number}"})
                await asyncio.sleep(0.0005)
        return await get_async_redis_client().xlen("pace")

    assert asyncio.run(publish(1000)) == 1000
