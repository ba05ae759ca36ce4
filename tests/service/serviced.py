"""`trivet up` in a home of its own, as a user types it, and what a test asks of it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from flows.service import supervising
from flows.service.api import Api, auth_of
from flows.service.lifecycle import end
from flows.service.place import Place
from flows.service.supervising import ServiceProcess
from storage.embedded import Cluster
from tests.command import TRIVET, Done
from tests.storage.conftest import make_home

ROOT = Path(__file__).parents[2]
COUNTING = ROOT / "tests" / "e2e" / "counting"
PATIENCE_S = 270.0
DEPLOYMENTS = {
    "rag/index",
    "rag-answer/answer",
    "evaluation/evaluate",
    "lever/train",
    "nightly/nightly",
    "gpu-step/gpu",
}


class Running(NamedTuple):
    """A home whose service a test starts, asks and kills."""

    place: Place
    port: int
    variables: Mapping[str, str] = {}
    """Of the user's shell, besides those of this process."""
    folder: Path = ROOT
    """In which the user types."""

    def trivet(self, *arguments: str, **variables: str) -> Done:
        """Run the command, in this home and without what other tests have set for Prefect."""
        done = subprocess.run(
            [*TRIVET, *arguments],
            env=self.environment() | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def retry(self, run: str) -> None:
        """As a user does with Prefect's own command."""
        variables = {"PREFECT_API_URL": self.api.url, "PREFECT_API_AUTH_STRING": self.api.auth or ""}
        command = [sys.executable, "-m", "prefect", "flow-run", "retry", run]
        subprocess.run(command, env=self.environment() | variables, cwd=ROOT, check=True, timeout=240)

    def up(self, *arguments: str) -> dict[str, Any]:
        """What `trivet up --json` says; it must go well."""
        done = self.trivet("up", "--json", "--port", str(self.port), *arguments)
        assert done.code == 0, done.stderr + self.logs()
        return done.json

    def environment(self) -> dict[str, str]:
        """Of a user's shell."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
        return kept | {
            "TRIVET_HOME": str(self.place.home),
            "OMP_NUM_THREADS": "1",
            **self.variables,
        }

    @property
    def api(self) -> Api:
        """The server, with the right to ask it."""
        return Api(f"http://127.0.0.1:{self.port}/api", auth_of(self.place.home))

    def processes(self) -> list[ServiceProcess]:
        """Everything that runs for this home, but PostgreSQL."""
        return supervising.find_processes(self.place.mark)

    def pid_of(self, part: str) -> int:
        """Of a part that runs."""
        [pid] = self.pids_of(part)
        return pid

    def pids_of(self, part: str) -> list[int]:
        """Of a part; none while it starts again."""
        return [each.pid for each in supervising.read_parts(self.place) or [] if each.name == part and each.pid]

    def run(self, deployment: str, diary: Path, **parameters: float) -> str:
        """Have a deployment of ours run; gives the id of the run."""
        return run_dozing(self.api, deployment, diary, **parameters)

    def start(self, deployment: str, parameters: Mapping[str, Any]) -> str:
        """Have a deployment run; gives the id of the run."""
        return self.api.post(f"/deployments/{deployment}/create_flow_run", {"parameters": parameters})["id"]

    def state_of(self, run: str) -> str:
        """The name of a run's state, such as `Completed`."""
        return self.api.get(f"/flow_runs/{run}")["state"]["name"]

    def logs(self) -> str:
        """The end of every log, for the message of a test that fails."""
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in self.place.logs.glob("*.log"))

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s\n{self.logs()}"
            time.sleep(0.2)


@contextmanager
def service_home(*, within: Path | None = None, variables: Mapping[str, str] | None = None) -> Generator[Running]:
    """A home that the server's account may enter, on a free port; whatever runs there in the end is ended."""
    home = make_home("trivet-service-", within)
    running = Running(Place(home), free_port(), variables or {})
    try:
        yield running
    finally:
        end(running.place)
        Cluster(running.place.database).remove()
        Cluster(home).remove()
        shutil.rmtree(home)


def counting(file: Path) -> dict[str, str]:
    """Variables with which each step that really runs leaves a line in the file."""
    return {"PYTHONPATH": os.pathsep.join(map(str, (COUNTING, ROOT))), "TRIVET_STEPS_RUN": str(file)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def deploy(
    api: Api,
    flow: str = "doze",
    *,
    name: str = "test",
    pool: str = "cpu",
    limit: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """The id of a deployment of a flow of `dozing`; limit: of runs at once; variables: of its runs."""
    asked = {
        "name": name,
        "flow_id": api.post("/flows/", {"name": flow})["id"],
        "work_pool_name": pool,
        "entrypoint": f"tests.service.dozing.{flow}",
        "pull_steps": [],
        "job_variables": {"env": dict(variables or {})},
        "concurrency_limit": limit,
    }
    return api.post("/deployments/", asked)["id"]


def run_dozing(api: Api, deployment: str, diary: Path, **parameters: float) -> str:
    """Have a deployment of `dozing` run; gives the id of the run."""
    told = {"parameters": {"diary": str(diary), **parameters}}
    return api.post(f"/deployments/{deployment}/create_flow_run", told)["id"]


def kill(pid: int) -> None:
    """As the kernel does when memory runs out."""
    os.kill(pid, signal.SIGKILL)


def diary_of(path: Path) -> list[str]:
    """The lines of a diary that may not be begun yet."""
    return path.read_text().splitlines() if path.exists() else []
