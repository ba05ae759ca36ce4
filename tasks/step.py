"""`@step`: a plain function becomes a Prefect task that is cached by content, verified on a hit, and resumable.

The cache key is SHA-256 of module + function + version + inputs. A hit counts only while every artifact that the
result names still verifies, and while `verify` (the effect on the world) still holds; otherwise the record is
removed and the step runs. Results are small JSON records, never pickles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast
from uuid import UUID

from prefect import Task, task
from prefect.cache_policies import CachePolicy
from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient
from prefect.concurrency.sync import concurrency
from prefect.context import TaskRunContext
from prefect.filesystems import WritableFileSystem
from prefect.futures import PrefectFuture
from prefect.results import ResultRecord  # pyright: ignore[reportPrivateImportUsage]
from prefect.runtime import flow_run
from prefect.serializers import JSONSerializer
from prefect.utilities.annotations import quote
from pydantic import Field, PrivateAttr

from storage.lineage import StepRun
from storage.records import refs_in
from storage.storage_errors import StorageError, list_reasons
from tasks.keys import content_key
from tasks.lineage import edges_of, parameters_of
from tasks.resources import SentStep, artifacts, lineage, resources, results

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

GPU = "gpu"
"""Tag of a step whose backend runs on a device, and name of the slot that it takes where it runs."""

Verify = Callable[[Any, dict[str, Any]], bool]
"""Called with result and inputs of a cached record; returns whether the record may stand."""

_sending_run: ContextVar[str | None] = ContextVar("_sending_run", default=None)
"""The run that a step was sent by, in the process that it was sent to."""


class Incomplete(Exception, Generic[R]):
    """Some items could not be finished now, but may be later: `result` holds the rest, Retry redoes just these."""

    def __init__(self, result: R, items: dict[str, str]) -> None:
        super().__init__(f"{len(items)} not finished: {list_reasons(items)}. Retry does only these again.")
        self.result = result
        self.items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result, self.items)


@dataclass
class StepKey(CachePolicy):
    """The cache policy of a step: the key is made of its name, its version and the content of its inputs."""

    name: str = ""
    version: int = 1
    reads_world: bool = False
    verify: Verify | None = None
    unkeyed: tuple[str, ...] = ()

    def compute_key(
        self,
        task_ctx: TaskRunContext,
        inputs: dict[str, Any],
        flow_parameters: dict[str, Any],  # noqa: ARG002 Prefect's signature
        **_: Any,
    ) -> str:
        """Return the key, and remove a record that no longer holds, which makes Prefect run the step."""
        key = self.key_of(inputs, run=task_ctx.task_run.flow_run_id)
        if (record := results().read(key)) is not None:
            if self._holds(record, inputs):
                results().renew(key, record)
            else:
                results().remove(key)
        return key

    def key_of(self, inputs: dict[str, Any], *, run: object) -> str:
        """Return the key of the record; a step that reads the world finds it only when its own run is retried."""
        keyed = {name: value for name, value in inputs.items() if name not in self.unkeyed}
        return content_key(self.name, self.version, keyed, str(run) if self.reads_world else None)

    def _holds(self, record: bytes, inputs: dict[str, Any]) -> bool:
        """Return whether a record can be read, its artifacts verify and its effect is still there."""
        try:
            result: Any = ResultRecord.deserialize(record).result
        except Exception:  # noqa: BLE001 whatever is wrong with a record, running the step mends it
            return False
        if not all(artifacts().verify(ref) for ref in refs_in(result)):
            return False
        return self.verify is None or self.verify(result, inputs)


@lru_cache(maxsize=16)
def _decoded(record: bytes) -> Any:
    return JSONSerializer[Any]().loads(record)


class Decoded(JSONSerializer[Any]):
    """Prefect's JSON serializer with a cache: Prefect and `StepKey` read the record of one cache hit three times."""

    type: str = Field(default="trivet-json", frozen=True)

    def loads(self, blob: bytes) -> Any:
        """Return the result, shared by those who ask: results of steps are frozen."""
        return _decoded(blob)


class Records(WritableFileSystem):
    """The records of steps as Prefect reads and writes them: wherever this process keeps them."""

    _block_type_name = "Records of Trivet's steps"
    # Prefect takes only blocks that its server has; this one has no settings, so there is nothing to ask a server for
    _block_document_id: UUID | None = PrivateAttr(UUID(int=0))

    def read_path(self, path: str, **_: Any) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read the record of this key. Raises ValueError where there is none, as Prefect's own file systems do."""
        record = results().read(path)
        if record is None:
            raise ValueError(f"there is no record {path}")
        return record

    def write_path(self, path: str, content: bytes, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write the record of a step under its key."""
        results().write(path, content)


_RECORDS = Records()


def be_patient() -> None:
    """Have new clients of Prefect in this process repeat a refused request, as those that have connected before do.

    Prefect takes it for a wrong address, but the server has begun the run that asks: it is starting again.
    """
    clients: tuple[Any, ...] = (PrefectHttpxAsyncClient, PrefectHttpxSyncClient)
    for client in clients:
        client._has_connected = property(lambda _: True, lambda *_: None)


def step(
    *,
    version: int,
    gpu: bool = False,
    reads_world: bool = False,
    verify: Verify | None = None,
    unkeyed: tuple[str, ...] = (),
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a task of a function whose inputs and result are small JSON-able values and Refs.

    version: raise it in the commit that changes the answer.
    gpu: its backend may run on a device; where there is one, or a pool that has one, the task is tagged `gpu`.
    reads_world: the inputs do not tell what it will find (a folder, a clock), so its record serves only its own run.
    verify: for a step that changes the world, whether its effect is still there.
    unkeyed: inputs that say how hard to work, not what to find (a budget, a device): others find the same record.
    """

    be_patient()

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        """Return the function as a Prefect task, whose record is found by its name, version and inputs."""
        name = f"{function.__module__}.{function.__qualname__}"
        key = StepKey(name=name, version=version, reads_world=reads_world, verify=verify, unkeyed=unkeyed)
        make: Any = task  # its overloads do not know a function whose parameters are a ParamSpec
        body = _as_body(function, key)
        body.__qualname__ = f"{function.__qualname__}.fn"  # where it is once it is a task: it is pickled by this name
        return make(
            body,
            name=function.__name__,
            task_run_name=function.__name__,  # Prefect's own adds three signs of the key
            version=str(version),
            cache_policy=key,
            persist_result=True,
            result_storage=_RECORDS,
            result_serializer=Decoded(),
            cache_result_in_memory=False,
            tags={GPU} if gpu and (resources().gpu_deployment or _has_device()) else None,  # a tag costs .1 s a task
        )

    return decorate


def _as_body(function: Callable[P, R], key: StepKey) -> Callable[P, R]:
    """Return the function as a task runs it, where its device is, with its lineage recorded; plain outside a task."""
    shape = signature(function)

    @wraps(function)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        context = TaskRunContext.get()
        if context is None:  # called as a function
            return function(*args, **kwargs)
        bound = shape.bind(*args, **kwargs)
        bound.apply_defaults()
        run = context.task_run
        note = partial(_record_lineage, key, bound.arguments, str(run.flow_run_id), datetime.now(UTC))
        claims_device = GPU in context.task.tags
        deployment = resources().gpu_deployment if claims_device else None
        try:
            if deployment and _sending_run.get() is None:  # a step that was sent here is not sent on
                sent = SentStep(key.name, key.key_of(bound.arguments, run=run.flow_run_id), bound.arguments, run.name)
                result = resources().send(sent, deployment)
            else:
                with slot(GPU) if claims_device and _has_device() else nullcontext():
                    result = function(*args, **kwargs)
        except Incomplete as error:
            note(error.result)
            raise
        note(result)
        return result

    return body


def _record_lineage(key: StepKey, inputs: dict[str, Any], run: str, started: datetime, result: Any) -> None:
    """Record the digests that a step used and made; without a database that is logged, and no failure."""
    seconds = (datetime.now(UTC) - started).total_seconds()
    if not (edges := edges_of(inputs, result, reads_world=key.reads_world)):
        return
    step_run = StepRun(
        key=key.key_of(inputs, run=run),
        step=key.name,
        version=key.version,
        run=_sending_run.get() or run,
        code=resources().program(),
        at=started,
        seconds=seconds,
        parameters=parameters_of(inputs),
    )
    try:
        lineage().record(step_run, edges, only_new=key.reads_world)
    except StorageError as error:  # the work is done; only the way to it is not told
        log.warning("what %s made was not noted: %s", key.name, error)


def slot(name: str) -> AbstractContextManager[None]:
    """Return a context that holds a place of `name` while the server limits them (deployments/limits.yaml)."""
    return concurrency(name)


@contextmanager
def inline(*, sent_by: str) -> Generator[None]:
    """Run GPU steps here, whatever pool is configured: this is the pool's process, at work for the run `sent_by`."""
    token = _sending_run.set(sent_by)
    try:
        yield
    finally:
        _sending_run.reset(token)


def paying_run() -> str:
    """Return the run whose budget a step spends: its own, or the one that sent it to this process."""
    return _sending_run.get() or str(flow_run.id)


def _has_device() -> bool:
    return Path("/dev/nvidiactl").exists()


class Gathered(NamedTuple, Generic[R]):
    """Results of mapped steps in order, and what is not finished, by item."""

    results: list[R]
    unfinished: dict[str, str]


def with_name(step: Task[P, R], name: str) -> Task[P, R]:
    """Return the step as it is shown under another name: `score MATH500 2/4` where it is one shard of several."""
    copied = copy(step)  # with_options reads the source again: 2 ms a shard
    copied.task_run_name = name.replace("{", "{{").replace("}", "}}")  # Prefect formats it
    return copied


def with_device(step: Task[P, R], *, in_process: bool) -> Task[P, R]:
    """Return the step, which claims a device only if the model that it asks runs in its own process."""
    if in_process:
        return step
    untagged = step.with_options()
    untagged.tags = set()  # with_options takes no tags for the same tags
    return untagged


def on_each(shards: Iterable[Any], step: Task[..., R], **settings: Any) -> Gathered[R]:
    """Run a step on every shard, in parallel, and return what `gather` does; the UI shows `parse 3/16`."""
    in_order = list(shards)
    return gather(
        [
            with_name(step, f"{step.name} {number}/{len(in_order)}").submit(quoted(shard), **settings)
            for number, shard in enumerate(in_order, start=1)
        ]
    )


def quoted(value: V) -> V:
    """Return the value, marked so that Prefect passes it on without searching it for futures."""
    return cast(V, quote(value))  # of 1,000 documents that search takes longer than the work


def gather(futures: Iterable[PrefectFuture[R]]) -> Gathered[R]:
    """Wait for all steps, and return their results in order, those of Incomplete too; raise the first other failure."""
    results: list[R] = []
    unfinished: dict[str, str] = {}
    failures: list[BaseException] = []
    for future in list(futures):  # all are waited for, so that what others finish is stored before one fails the run
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
