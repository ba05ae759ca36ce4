"""Options that say where the shards of a flow run."""

from __future__ import annotations

import enum
from typing import Annotated

import typer


class TaskRunnerName(enum.StrEnum):
    """Who does shards of CPU work."""

    thread = "thread"
    dask = "dask"
    ray = "ray"


TaskRunnerOption = Annotated[
    TaskRunnerName | None,
    typer.Option("--task-runner", help="Who does shards of CPU work; else TRIVET_TASK_RUNNER, else threads."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="ADDRESS", help="Existing cluster: tcp://HOST:8786, ray://HOST:10001 or auto."),
]
