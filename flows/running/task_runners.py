"""Where the shards of a flow run: threads of its process, or the workers of a Dask or Ray cluster.

CPU work ─► prefect-dask or prefect-ray, which pickle steps by their name ─► a worker with the same key and store
steps for a device, and steps that ask models ─► threads of the flow's process
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from prefect import Task
from prefect.client.schemas.objects import RunInput
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from flows.running.settings import ClusterUnusable, settings
from tasks.resources import resources
from tasks.step import GPU

MODELS = ("model", "models", "vlm", "judge")
"""Names of the inputs by which steps get a model that they may ask."""
OBJECTS_BYTES = 100 << 20
"""Size of Ray's shared memory: steps exchange names of artifacts, never their content."""


def task_runner(count: int) -> TaskRunner[Any]:
    """Return the task runner that the settings of this process name. Raises ClusterUnusable.

    count: threads of this process. The settings name `thread`, `dask`, `ray`, or one of the last two with `=ADDRESS`
    of an existing cluster.
    """
    threads, place = ThreadPoolTaskRunner(max_workers=count), settings().task_runner
    kind, _, address = place.partition("=")
    if kind == "thread":
        return threads
    if kind not in ("dask", "ray"):
        raise ClusterUnusable(f"TRIVET_TASK_RUNNER={place}: expected thread, dask, ray, dask=ADDRESS or ray=ADDRESS")
    try:
        return SplitRunner(threads, _dask_runner(address) if kind == "dask" else _ray_runner(address))
    except ImportError as error:
        raise ClusterUnusable(
            f"TRIVET_TASK_RUNNER={kind} needs more ({error}): pip install 'trivet[{kind}]'"
        ) from error


def _dask_runner(address: str) -> TaskRunner[Any]:
    """Return Dask's runner of a cluster, else of one here, a process a core. Raises ClusterUnusable, ImportError."""
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")  # before distributed is imported
    from prefect_dask.task_runners import DaskTaskRunner

    if not address:
        # every account of the machine reaches loopback, and who reaches a scheduler runs code: hence TLS
        local = {"host": "127.0.0.1", "security": True, "dashboard_address": None}
        return DaskTaskRunner(cluster_kwargs={**local, "n_workers": os.cpu_count() or 1, "threads_per_worker": 1})
    if "://" not in address:
        raise ClusterUnusable(f"TRIVET_TASK_RUNNER=dask={address}: expected a Dask scheduler, dask=tcp://HOST:8786")
    return DaskTaskRunner(address=address)


def _ray_runner(address: str) -> TaskRunner[Any]:
    """Return Ray's runner of a cluster, `auto` or an address, else of one here. Raises ClusterUnusable, ImportError."""
    from prefect_ray.task_runners import RayTaskRunner

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if not address:
        # on loopback: whoever reaches the ports of Ray runs code, and Ray asks nobody who they are
        local = {"include_dashboard": False, "object_store_memory": OBJECTS_BYTES, "_node_ip_address": "127.0.0.1"}
        return RayTaskRunner("local", {**quiet, **local})
    if address == "auto":
        return RayTaskRunner(None, {**quiet, "address": "auto"})
    if not address.startswith("ray://"):
        raise ClusterUnusable(f"TRIVET_TASK_RUNNER=ray={address}: expected ray=ray://HOST:10001, or ray=auto")
    return RayTaskRunner(address, quiet)


class SplitRunner(TaskRunner[PrefectFuture[Any]]):
    """Threads of this process `here`, workers of a cluster `there`."""

    def __init__(self, threads: TaskRunner[Any], cluster: TaskRunner[Any]) -> None:
        super().__init__()
        self.here = threads
        self.there = cluster
        self._entered = ExitStack()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a call of `_in_worker`, which refuses a store that is not that of the flow's process."""
        return _in_worker, (resources().store,)

    def duplicate(self) -> Self:
        return type(self)(self.here.duplicate(), self.there.duplicate())

    def submit(  # pyright: ignore[reportIncompatibleMethodOverride] Prefect's overloads tell sync from async tasks
        self,
        task: Task[..., Any],
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> PrefectFuture[Any]:
        """Submit a step to the threads of this process or to the cluster, as `stays_in_process` says."""
        plain = {name: value.unwrap() if isinstance(value, quote) else value for name, value in parameters.items()}
        if stays_in_process(task, plain):
            return self.here.submit(task, parameters, wait_for, dependencies)
        cluster: Any = self.there
        return cluster.submit(task, plain, wait_for, dependencies)  # Dask would take a `quote` for a tuple

    def __enter__(self) -> Self:
        super().__enter__()
        self._entered.enter_context(self.here)
        try:
            self._entered.enter_context(self.there)
        except (OSError, ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
            self._entered.close()
            raise ClusterUnusable(f"the cluster cannot be used: {error}; see that it runs") from error
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)
        super().__exit__(*error)


def _in_worker(store: str) -> ThreadPoolTaskRunner[Any]:
    """Return the runner of a worker of the cluster. Raises ClusterUnusable where it keeps artifacts elsewhere."""
    if resources().store != store:
        raise ClusterUnusable(
            f"a worker of the cluster keeps artifacts in {resources().store}, this run in {store}; start the workers "
            "with the same TRIVET_STORE (a bucket, or a folder that all machines share) or the same TRIVET_HOME"
        )
    return ThreadPoolTaskRunner(max_workers=1)


def stays_in_process(task: Task[..., Any], parameters: Mapping[str, Any]) -> bool:
    """Return whether a step runs in the flow's process: for a device, which workers do not share, or with a model.

    What a run has spent on models, and how fast it may ask, are counted in one process.
    """
    judge = getattr(parameters.get("task"), "judge", None)
    return GPU in task.tags or judge is not None or any(parameters.get(name) is not None for name in MODELS)
