"""Where the shards of a flow run: threads of its process, or the workers of a Dask or Ray cluster.

CPU work ─► by name, with its inputs, to a worker: the same key, the same store ─► state, errors and progress come back
steps for a device, and steps that ask models ─► threads of the flow's process
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.running.settings import settings

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner


class ClusterUnusable(RuntimeError):
    """A cluster cannot be started, reached or used; says what it lacks."""


def task_runner(threads: int) -> TaskRunner[Any]:
    """The task runner of a flow as the settings of this process have it. Raises ClusterUnusable."""
    from prefect.task_runners import ThreadPoolTaskRunner

    return _split(ThreadPoolTaskRunner(max_workers=threads), settings().task_runner, settings().cluster)


def placed(flow: Flow[Any, Any], kind: str | None, cluster: str | None) -> Flow[Any, Any]:
    """The flow with its shards where a command says; what it leaves open, the settings say. Raises ClusterUnusable."""
    chosen, address = kind or settings().task_runner, cluster or settings().cluster
    if cluster and chosen == "thread":
        raise ClusterUnusable(f"--cluster {cluster}: say whose it is with --task-runner dask or --task-runner ray")
    runner: Any = flow.task_runner
    return flow.with_options(task_runner=_split(getattr(runner, "here", runner), chosen, address))


def _split(here: ThreadPoolTaskRunner[Any], kind: str, cluster: str | None) -> TaskRunner[Any]:
    if kind == "thread":
        return here
    from flows.running.task_runners.shipping import SplitRunner

    try:
        if kind == "dask":
            from flows.running.task_runners.on_dask import dask_runner

            return SplitRunner(here, dask_runner(cluster))
        from flows.running.task_runners.on_ray import ray_runner

        return SplitRunner(here, ray_runner(cluster))
    except ImportError as error:
        raise ClusterUnusable(f"--task-runner {kind} needs more ({error}): pip install 'trivet[{kind}]'") from error
