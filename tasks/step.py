"""`@step`: a plain function becomes a Prefect task that is cached by content, verified on a hit, and resumable.

The cache key is SHA-256 of module + function + version + inputs. A hit counts only while every artifact that the
result names still verifies, and while `verify` (the effect on the world) still holds; otherwise the record is
removed and the step runs. Results are small JSON records, never pickles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

from prefect import Task, task
from prefect.cache_policies import CachePolicy
from prefect.context import TaskRunContext
from prefect.futures import PrefectFuture
from prefect.results import ResultRecord  # pyright: ignore[reportPrivateImportUsage]
from prefect.serializers import JSONSerializer
from prefect.utilities.annotations import quote

from storage.records import refs_in
from tasks.keys import content_key
from tasks.resources import artifacts, resources

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

Verify = Callable[[Any, dict[str, Any]], bool]
"""(result, inputs) → whether a cached result may stand."""


class Incomplete(Exception, Generic[R]):
    """Some items could not be finished now, but may be later: `result` holds the rest, Retry redoes just these."""

    def __init__(self, result: R, items: dict[str, str]) -> None:
        named = "; ".join(f"{name}: {why}" for name, why in list(items.items())[:5])
        more = f" … and {len(items) - 5} more" if len(items) > 5 else ""
        super().__init__(f"{len(items)} not finished: {named}{more}. Retry does only these again.")
        self.result = result
        self.items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result, self.items)


@dataclass
class StepKey(CachePolicy):
    """Key of a step: its name and version and the content of its inputs."""

    name: str = ""
    version: int = 1
    reads_world: bool = False
    verify: Verify | None = None
    aside: tuple[str, ...] = ()

    def compute_key(
        self,
        task_ctx: TaskRunContext,
        inputs: dict[str, Any],
        flow_parameters: dict[str, Any],  # noqa: ARG002 Prefect's signature
        **_: Any,
    ) -> str:
        """The key; as a side effect a record that no longer holds is removed, which makes Prefect run the step."""
        # a step that reads the world answers from its record only when its own run is retried
        run = str(task_ctx.task_run.flow_run_id) if self.reads_world else None
        told = {name: value for name, value in inputs.items() if name not in self.aside}
        key = content_key(self.name, self.version, told, run)
        record = results_folder() / key
        if record.exists() and not self._holds(record, inputs):
            record.unlink(missing_ok=True)
        return key

    def _holds(self, record: Path, inputs: dict[str, Any]) -> bool:
        try:
            result: Any = ResultRecord.deserialize(record.read_bytes()).result
        except Exception:  # noqa: BLE001 whatever is wrong with a record, running the step mends it
            return False
        if not all(map(artifacts().verify, refs_in(result))):
            return False
        return self.verify is None or self.verify(result, inputs)


def results_folder() -> Path:
    """Where Prefect keeps the results of steps."""
    return resources().home / "results"


def step(
    *,
    version: int,
    gpu: bool = False,
    reads_world: bool = False,
    verify: Verify | None = None,
    aside: tuple[str, ...] = (),
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a task of a function whose inputs and result are small JSON-able values and Refs.

    version: raise it in the commit that changes the answer.
    gpu: its backend may run on a device; where there is one, or a pool that has one, the task is tagged `gpu`.
    reads_world: the inputs do not tell what it will find (a folder, a clock), so its record serves only its own run.
    verify: for a step that changes the world, whether its effect is still there.
    aside: inputs that say how hard to work, not what to find (a budget, a device): others find the same record.
    """

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        name = f"{function.__module__}.{function.__qualname__}"
        make: Any = task  # its overloads do not know a function whose parameters are a ParamSpec
        return make(
            function,
            name=function.__name__,
            version=str(version),
            cache_policy=StepKey(name=name, version=version, reads_world=reads_world, verify=verify, aside=aside),
            persist_result=True,
            result_storage=results_folder(),
            result_serializer=JSONSerializer(),
            cache_result_in_memory=False,
            tags={"gpu"} if gpu and _on_device() else None,
        )

    return decorate


def _on_device() -> bool:
    """Whether GPU steps meet a device here, or are sent to one. Prefect asks its server about each tag: .1 s a task."""
    return resources().gpu_deployment is not None or Path("/dev/nvidiactl").exists()


class Gathered(NamedTuple, Generic[R]):
    """Results of mapped steps in order, and what is not finished, by item."""

    results: list[R]
    unfinished: dict[str, str]


def called(step: Task[P, R], name: str) -> Task[P, R]:
    """The same step, shown under `name` in the UI."""
    return step.with_options(task_run_name=name)


def on_each(shards: Iterable[Any], step: Task[..., R], **settings: Any) -> Gathered[R]:
    """Run a step on every shard, in parallel, and gather."""
    return gather([step.submit(as_is(shard), **settings) for shard in shards])


def as_is(value: V) -> V:
    """Keep Prefect from searching a big input for futures: for 1,000 documents that takes longer than the work."""
    return cast(V, quote(value))


def gather(futures: Iterable[PrefectFuture[R]]) -> Gathered[R]:
    """Wait for mapped steps; an Incomplete one gives what it has, any other failure is raised once all have ended."""
    results: list[R] = []
    unfinished: dict[str, str] = {}
    failures: list[BaseException] = []
    for future in list(futures):
        outcome: Any = future.result(raise_on_failure=False)
        if isinstance(outcome, Incomplete):
            results.append(outcome.result)
            unfinished |= outcome.items
        elif isinstance(outcome, BaseException):
            failures.append(outcome)
        else:
            results.append(outcome)
    if failures:
        raise failures[0]
    return Gathered(results, unfinished)
