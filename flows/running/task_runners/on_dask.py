"""Steps on a Dask cluster: one of this machine that lives as long as the flow, or one that is there already."""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")  # before distributed is imported

from distributed import Client, get_worker
from prefect import State
from prefect_dask.task_runners import DaskTaskRunner, PrefectDaskFuture

from flows.running.task_runners import ClusterUnusable
from flows.running.task_runners.shipping import Shipped, do_shipped
from tasks import progress

SCHEMES = ("tcp://", "tls://", "ws://", "wss://")


def dask_runner(address: str | None) -> DaskTaskRunner:
    """The runner of an existing cluster, else of one on this machine: a process per core, on loopback, with TLS."""
    if address is None:
        # every account of the machine reaches loopback, and who reaches a scheduler runs code: hence TLS
        local = {"host": "127.0.0.1", "security": True, "dashboard_address": None}
        return DaskRunner(cluster_kwargs={**local, "n_workers": os.cpu_count() or 1, "threads_per_worker": 1})
    if not address.startswith(SCHEMES):
        raise ClusterUnusable(f"--cluster {address}: expected the address of a Dask scheduler, tcp://HOST:8786")
    return DaskRunner(address=address)


class DaskRunner(DaskTaskRunner):
    """prefect-dask's runner, whose tasks travel by name and report how far they are."""

    def send(self, shipped: Shipped, *, name: str) -> PrefectDaskFuture[Any]:
        """Have a worker do a step. Raises ClusterUnusable."""
        try:
            client = self.client
        except (OSError, TimeoutError) as error:
            raise ClusterUnusable(f"the Dask cluster cannot be used: {error}; see that it runs") from error
        key = f"{name}-{shipped.run}"
        future: Any = Client.submit(client, _do, shipped, self._topic(client), key=key, pure=False)
        return PrefectDaskFuture(wrapped_future=future, task_run_id=shipped.run)

    def _topic(self, client: Client) -> str:
        topic: str | None = getattr(self, "_reports", None)
        if topic is None:
            topic = self._reports = f"trivet-{uuid4().hex}"
            client.subscribe_topic(topic, lambda event: progress.report(*event[1]))  # the time, and the report
        return topic


def _do(shipped: Shipped, topic: str) -> State[Any]:
    """Do a step, and report to the flow through the scheduler."""
    return do_shipped(shipped, lambda *report: get_worker().log_event(topic, list(report)))
