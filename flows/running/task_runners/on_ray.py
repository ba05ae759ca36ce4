"""Steps on a Ray cluster: one of this machine that lives as long as the flow, or one that is there already."""

from __future__ import annotations

import os
from threading import Event, Thread
from typing import Any, Self

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before ray is imported

import ray
from prefect import State
from prefect_ray.task_runners import PrefectRayFuture, RayTaskRunner

from flows.running.task_runners import ClusterUnusable
from flows.running.task_runners.shipping import Shipped, do_shipped
from tasks import progress

LISTEN_S = 0.5
OBJECTS_BYTES = 100 << 20
"""Size of Ray's shared memory: steps exchange names of artifacts, never their content."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


def ray_runner(address: str | None) -> RayTaskRunner[Any]:
    """The runner of an existing cluster, else of one on this machine: a process per core, on loopback, no dashboard."""
    if address is None:
        local = {"include_dashboard": False, "object_store_memory": OBJECTS_BYTES, "_node_ip_address": "127.0.0.1"}
        return RayRunner("local", {**QUIET, **local})
    if address == "auto":
        return RayRunner(None, {**QUIET, "address": "auto"})
    if not address.startswith("ray://"):
        raise ClusterUnusable(f"--cluster {address}: expected ray://HOST:10001, or `auto` for this machine's cluster")
    return RayRunner(address, QUIET)


class RayRunner(RayTaskRunner[Any]):
    """prefect-ray's runner, whose tasks travel by name and report how far they are."""

    def send(self, shipped: Shipped, *, name: str) -> PrefectRayFuture[Any]:
        """Have a worker do a step."""
        done: Any = ray.remote(_do).options(name=name).remote(shipped, self._board)
        return PrefectRayFuture(task_run_id=shipped.run, wrapped_future=done)

    def __enter__(self) -> Self:
        try:
            super().__enter__()
            self._board: Any = ray.remote(num_cpus=0)(_Board).remote()
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterUnusable(f"the Ray cluster cannot be used: {error}; see that it runs") from error
        self._ended = Event()
        self._listener = Thread(target=self._listen, name="ray progress", daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self._listener.join()
        ray.kill(self._board)
        super().__exit__(*error)

    def _listen(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(LISTEN_S)
            for report in ray.get(self._board.take.remote()):
                progress.report(*report)


class _Board:
    """An actor that collects the reports of workers for the flow."""

    def __init__(self) -> None:
        self._reports: list[tuple[str, int, int]] = []

    def add(self, stage: str, done: int, expected: int) -> None:
        self._reports.append((stage, done, expected))

    def take(self) -> list[tuple[str, int, int]]:
        taken, self._reports = self._reports, []
        return taken


def _do(shipped: Shipped, board: Any) -> State[Any]:
    return do_shipped(shipped, board.add.remote)
