"""A task runner in two: CPU work goes to a cluster, the rest stays in threads of the flow's process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from prefect import Task
from prefect.client.schemas.objects import RunInput
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from tasks.step import GPU

MODELS = ("model", "models", "vlm", "judge")
"""What the inputs of steps call a model that they may ask."""


class SplitRunner(TaskRunner[PrefectFuture[Any]]):
    """Threads of this process `here`, workers of a cluster `there`."""

    def __init__(self, here: ThreadPoolTaskRunner[Any], there: TaskRunner[Any]) -> None:
        super().__init__()
        self.here = here
        self.there = there
        self._entered = ExitStack()

    def duplicate(self) -> Self:
        """The same, not started."""
        return type(self)(self.here.duplicate(), self.there.duplicate())

    def submit(  # pyright: ignore[reportIncompatibleMethodOverride] Prefect's overloads tell sync from async tasks
        self,
        task: Task[..., Any],
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> PrefectFuture[Any]:
        """Start a step where it belongs."""
        chosen = self.here if stays(task, parameters) else self.there
        return chosen.submit(task, parameters, wait_for, dependencies)

    def __enter__(self) -> Self:
        super().__enter__()
        self._entered.enter_context(self.here)
        self._entered.enter_context(self.there)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)
        super().__exit__(*error)


def stays(task: Task[..., Any], parameters: Mapping[str, Any]) -> bool:
    """Whether a step belongs into the flow's process.

    A step for a device waits there for its pool, or for the device of that machine: workers of a cluster share none.
    One that asks a model does, because what a run has spent and how fast it may ask are counted in one process.
    """
    inputs = plain(parameters)
    judge = getattr(inputs.get("task"), "judge", None)
    return GPU in task.tags or judge is not None or any(inputs.get(name) is not None for name in MODELS)


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a step's inputs, without the mark that keeps Prefect from searching them."""
    return {name: value.unwrap() if isinstance(value, quote) else value for name, value in parameters.items()}
