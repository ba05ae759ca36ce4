"""`trivet up` in a home of its own, and runs of its deployments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.command import TRIVET
from tests.service.serviced import free_port

ROOT = Path(__file__).parents[2]
COUNTING = Path(__file__).parent / "counting"
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
PATIENCE_S = 300.0
POLL_S = 0.5


class State(NamedTuple):
    """Where a flow run stands."""

    type: str
    name: str
    message: str
    runs: int
    """How often it was begun."""


class House:
    """The service of one home, from `trivet up` to `trivet down`."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.steps = home / "steps-run"
        self.parsed = home / "logs" / "documents.log"
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
        self.environment = ours | {
            "TRIVET_HOME": str(home),
            "TRIVET_STEPS_RUN": str(self.steps),
            "PYTHONPATH": os.pathsep.join(map(str, (COUNTING, ROOT))),
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self.ui = self.auth = ""
        self._api: httpx.Client | None = None

    def up(self) -> None:
        """Raises AssertionError with what the command said."""
        told = json.loads(self.command("up", "--json", "--port", str(free_port())))
        self.ui = told["ui_url"].rstrip("/")
        self.auth = (self.home / "service" / "auth").read_text().strip()
        user, _, password = self.auth.partition(":")
        self._api = httpx.Client(base_url=told["api_url"], auth=(user, password), timeout=30)

    def down(self) -> None:
        """Leaves no process behind."""
        if self._api:
            self._api.close()
        self.command("down")

    def command(self, *arguments: str) -> str:
        """What `trivet ARGUMENTS…` writes; it must end well."""
        done = subprocess.run(
            [*TRIVET, *arguments],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"trivet {arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def retry(self, run: str) -> None:
        """As a user does with Prefect's own command."""
        variables = {"PREFECT_API_URL": f"{self.ui}/api", "PREFECT_API_AUTH_STRING": self.auth}
        command = [sys.executable, "-m", "prefect", "flow-run", "retry", run]
        subprocess.run(command, env=self.environment | variables, cwd=self.home, check=True, timeout=PATIENCE_S)

    def start(self, deployment: str, parameters: Mapping[str, Any]) -> str:
        """The id of a new run of `flow/deployment`."""
        found = self._ask("GET", f"/deployments/name/{deployment}")["id"]
        return self._ask("POST", f"/deployments/{found}/create_flow_run", parameters=parameters)["id"]

    def state(self, run: str) -> State:
        """As the API tells it."""
        told = self._ask("GET", f"/flow_runs/{run}")
        state = told["state"]
        return State(state["type"], state["name"], state["message"] or "", told["run_count"])

    def ended(self, run: str, *, begun: int = 1) -> State:
        """Its final state, once it was begun so often."""
        deadline = time.monotonic() + PATIENCE_S
        while (state := self.state(run)).type not in FINAL or state.runs < begun:
            assert time.monotonic() < deadline, f"{run} is {state} after {PATIENCE_S:g} s"
            time.sleep(POLL_S)
        return state

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        assert self._api, "the service is not up"
        return self._api.request(method, path, json=body or None).raise_for_status().json()
