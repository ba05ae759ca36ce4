"""Steps on a cluster: CPU work is sent to workers by name, the rest stays in threads of the flow's process.

A worker finds a step, and the store for its results, in its own installation and settings.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid4

import cloudpickle
from prefect import Flow, State, Task
from prefect.client.schemas.objects import RunInput
from prefect.context import serialize_context
from prefect.futures import PrefectFuture
from prefect.task_engine import run_task_sync
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from flows.running.shown import tell_patiently, tell_the_rest
from flows.running.task_runners import ClusterUnusable
from tasks import progress
from tasks.resources import resources
from tasks.step import GPU, as_is

MODELS = ("model", "models", "vlm", "judge")
"""What the inputs of steps call a model that they may ask."""


class Shipped(NamedTuple):
    """A step on its way; all that a worker needs to do it."""

    step: str
    """Module and name, `tasks.rag.steps.parse`."""
    flow: str
    called: str | None
    """How the UI shows the task run."""
    tags: frozenset[str]
    run: UUID
    """Prefect task run ID."""
    store: str
    """Where the flow's process keeps artifacts: a worker must find them there."""
    rest: bytes
    """Inputs and Prefect's context, pickled: they may need modules that read the worker's settings."""


def ship(
    task: Task[..., Any],
    parameters: Mapping[str, Any],
    wait_for: Iterable[PrefectFuture[Any]] | None,
    dependencies: dict[str, set[RunInput]] | None,
) -> Shipped:
    """Pack a step of a running flow. Raises ClusterUnusable for a task that no module holds by its name."""
    for future in wait_for or ():
        future.wait()
    run = uuid4()
    origin = {"task": task, "task_run_id": run, "task_inputs": dependencies or {}, "copy_to_child_ctx": True}
    context = serialize_context(asset_ctx_kwargs=origin)
    flow = context["flow_run_context"].pop("flow")
    return Shipped(
        step=_name_of(task),
        flow=_name_of(flow),
        called=task.task_run_name if isinstance(task.task_run_name, str) else None,
        tags=frozenset(task.tags),
        run=run,
        store=resources().store,
        rest=cloudpickle.dumps({"parameters": plain(parameters), "dependencies": dependencies, "context": context}),
    )


def do_shipped(shipped: Shipped, tell: progress.Listener) -> State[Any]:
    """Do a step in this worker; gives its final state. Raises ClusterUnusable if this worker has another store."""
    tell_patiently()
    if resources().store != shipped.store:
        raise ClusterUnusable(
            f"a worker of the cluster keeps artifacts in {resources().store}, this run in {shipped.store}; start the "
            "workers with the same TRIVET_STORE (a bucket, or a folder that all machines share) or the same TRIVET_HOME"
        )
    step, flow = _found(shipped.step), _found(shipped.flow)
    rest = cloudpickle.loads(shipped.rest)  # of our own making
    rest["parameters"] = {name: as_is(value) for name, value in rest["parameters"].items()}
    rest["context"]["flow_run_context"]["flow"] = flow.with_options(task_runner=ThreadPoolTaskRunner(max_workers=1))
    mine = threading.get_ident()

    def report(stage: str, done: int, expected: int) -> None:
        if threading.get_ident() == mine:  # a worker may do several steps at once, each in its thread
            tell(stage, done, expected)

    try:
        with progress.listening(report):
            ended: Any = run_task_sync(
                task=step.with_options(task_run_name=shipped.called or step.name, tags=shipped.tags),
                task_run_id=shipped.run,
                return_type="state",
                **rest,
            )
            return ended
    finally:
        # what became of the step is told before the worker may be stopped, and to the server of this run:
        # the next one may have another
        tell_the_rest()


def _name_of(made: Task[..., Any] | Flow[..., Any]) -> str:
    name = f"{made.fn.__module__}.{made.fn.__name__}"
    with suppress(ImportError, AttributeError):
        if _found(name).fn is made.fn:
            return name
    raise ClusterUnusable(f"{name} is not at the top of an importable module, where a worker would look for it")


def _found(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


class SplitRunner(TaskRunner[PrefectFuture[Any]]):
    """Threads of this process `here`, workers of a cluster `there`: a runner that can `send` what is shipped."""

    def __init__(self, here: ThreadPoolTaskRunner[Any], there: Any) -> None:
        super().__init__()
        self.here = here
        self.there = there
        self._entered = ExitStack()

    def duplicate(self) -> Self:
        return type(self)(self.here.duplicate(), self.there.duplicate())

    def submit(  # pyright: ignore[reportIncompatibleMethodOverride] Prefect's overloads tell sync from async tasks
        self,
        task: Task[..., Any],
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> PrefectFuture[Any]:
        """Start a step where it belongs."""
        if stays(task, parameters):
            return self.here.submit(task, parameters, wait_for, dependencies)
        return self.there.send(ship(task, parameters, wait_for, dependencies), name=task.name)

    def __enter__(self) -> Self:
        super().__enter__()
        self._entered.enter_context(self.here)
        self._entered.enter_context(self.there)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)
        super().__exit__(*error)


def stays(task: Task[..., Any], parameters: Mapping[str, Any]) -> bool:
    """Whether a step runs in the flow's process: for a device, which workers do not share, or with a model.

    What a run has spent on models, and how fast it may ask, are counted in one process.
    """
    inputs = plain(parameters)
    judge = getattr(inputs.get("task"), "judge", None)
    return GPU in task.tags or judge is not None or any(inputs.get(name) is not None for name in MODELS)


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a step's inputs, without the mark that keeps Prefect from searching them."""
    return {name: value.unwrap() if isinstance(value, quote) else value for name, value in parameters.items()}
