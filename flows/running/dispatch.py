"""A GPU step is sent to a pool: the parent waits, its child computes, and both share one cache record.

The child is a flow run of `flows.gpu.run_step` with the same cache key in the same store; its result or error reaches
the parent as a small JSON file, with the counts of its progress. A run that needs a step which is under way on the
pool waits for that child; only the run that sent it cancels it, and then the others send the step again.
"""

from __future__ import annotations

import importlib
import inspect
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import TaskRunContext
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.results import ResultRecord  # pyright: ignore[reportPrivateImportUsage]
from prefect.serializers import JSONSerializer
from prefect.states import Cancelled, Cancelling
from pydantic import TypeAdapter

from flows.running.progress_counts import counting
from flows.running.run_reporting import say
from flows.running.settings import settings
from storage.records import Ref
from tasks import progress
from tasks.calls import refuse_when_stopped
from tasks.resources import SentStep, artifacts, results

POLL_S = 1.0
"""Seconds between two polls of the child, and of the run that waits for it."""
PAUSE_S = 10.0
"""Seconds before a step whose process was killed is sent again."""
LARGEST_INLINE = 64_000
"""Most bytes of parameters; larger ones are sent as an artifact, to keep the server's database small."""
OURS = ("tasks.", "models.", "storage.", "builtins.")
"""Modules whose errors are raised again with their own class."""
UNDER_WAY = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED)
STOPPED = (StateType.CANCELLING, StateType.CANCELLED)
WAITER_STOPPED = "the run that waited for it was stopped"

_serializer = JSONSerializer()
_anything = TypeAdapter(dict[str, Any])


class PoolStepFailed(RuntimeError):
    """The run of a step on the pool failed, crashed or was cancelled; names the run and the remedy."""


def send(sent: SentStep, deployment: str) -> Any:
    """Run a step on the pool of `deployment` (`flow/name`); return its result. Raises its errors, PoolStepFailed."""
    with get_client(sync_client=True) as client:
        context = TaskRunContext.get()
        assert context and context.task_run.flow_run_id, "only a step of a run is sent"  # noqa: PT018
        own_runs, crashes = _run_and_parents(client, context.task_run.flow_run_id), 0
        while True:
            child = _find_under_way(client, sent, deployment)
            # a run whose process was killed, and that goes on, finds its own child under way
            is_own = child is None or _run_and_parents(client, child.id)[-1] == own_runs[-1]
            child = child or _start(sent, deployment, part_of=client.read_flow_run(own_runs[-1]).name)
            try:
                child = _wait_for(client, child, own_runs)
            except BaseException:
                before = client.read_flow_run(child.id).state
                if is_own and before and not before.is_final():
                    client.set_flow_run_state(child.id, Cancelling(message=WAITER_STOPPED))
                    # a worker may have taken it just now: until its process works, Cancelling would last for ever
                    if before.is_pending() or not client.read_flow_run(child.id).start_time:
                        client.set_flow_run_state(child.id, Cancelled(message=WAITER_STOPPED))
                raise
            assert child.state
            crashed = child.state.is_crashed()
            cancelled_by_sender = not is_own and child.state.is_cancelled()
            crashes += crashed
            must_resend = cancelled_by_sender or (crashed and crashes <= settings().crash_retries)
            if not must_resend or results().read(sent.key) is not None:
                break
            say(f"{child.name} is sent again: {child.state.message}")
            time.sleep(0 if cancelled_by_sender else PAUSE_S)

    # the outcome stays for other runs that wait for this child; `trivet gc` removes it
    if outcome := results().read(outcome_of(child.id)):
        for stage, (finished, expected) in json.loads(outcome).get("counts", {}).items():
            progress.expect(stage, expected)
            progress.advance(stage, finished)
        return open_outcome(outcome)
    if record := results().read(sent.key):
        return ResultRecord[Any].deserialize(record).result
    why = child.state.message or "no reason was given"
    raise PoolStepFailed(
        f"{child.name} ended as {child.state.name} on its pool: {why.rstrip('.')}. "
        "Retry this run, not that one: a child that is retried alone does not resume its parent."
    )


def _run_and_parents(client: SyncPrefectClient, run: UUID) -> list[UUID]:
    """Return the run and its parents; the last is the one that was started directly."""
    runs = [run]
    while waiting := client.read_flow_run(runs[-1]).parent_task_run_id:
        above = client.read_task_run(waiting).flow_run_id
        assert above, "a run is a part of another through a task of that"
        runs.append(above)
    return runs


def _find_under_way(client: SyncPrefectClient, sent: SentStep, deployment: str) -> FlowRun | None:
    """Return a run of the same step under way, of any sender, or None. Raises PoolStepFailed for an unknown pool."""
    try:
        pool = client.read_deployment_by_name(deployment)
    except ObjectNotFound as error:
        raise PoolStepFailed(
            f"TRIVET_GPU_DEPLOYMENT names {deployment!r}, which the server does not know; run `trivet deploy`"
        ) from error
    of_step = {"tags": {"all_": [f"step:{sent.key[:16]}"]}, "state": {"type": {"any_": UNDER_WAY}}}
    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate(of_step),
        deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [pool.id]}}),
        limit=1,
    )
    return runs[0] if runs else None


def _start(sent: SentStep, deployment: str, *, part_of: str) -> FlowRun:
    """Start a child run of the step and return at once; inputs too large for parameters go by artifact."""
    params: Any = _anything.dump_python(dict(sent.inputs), mode="json")
    text = json.dumps(params).encode()
    if len(text) > LARGEST_INLINE:
        params = artifacts().put("step-inputs", text).model_dump(mode="json")
    child: Any = run_deployment(
        deployment,
        parameters={"entry": sent.step, "params": params},
        flow_run_name=f"{sent.name} of {part_of}",
        tags=["gpu", f"step:{sent.key[:16]}"],
        timeout=0,  # returns at once: `_wait_for` also notices that the parent was cancelled
        as_subflow=True,
    )
    return child


def _wait_for(client: SyncPrefectClient, child: FlowRun, own_runs: list[UUID]) -> FlowRun:
    """Return the child once it ended or left its outcome. Raises PoolStepFailed, ModelUnavailable when told to stop."""
    while True:
        child = client.read_flow_run(child.id)
        # the outcome is stored before the server knows that the child has ended
        if (child.state and child.state.is_final()) or results().read(outcome_of(child.id)) is not None:
            return child
        refuse_when_stopped()
        stopped = {"id": {"any_": own_runs}, "state": {"type": {"any_": STOPPED}}}
        if client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(stopped), limit=1):
            raise PoolStepFailed(f"the run that waits for {child.name} was cancelled")
        time.sleep(POLL_S)


def outcome_of(run: object) -> str:
    """Return the key under which the outcome of a child run stands among the results."""
    return f"outcome-{run}"


def keep_outcome(run: object, work: Callable[[], Any]) -> None:
    """Do the work of a child run, and store its result or error for the parent. Raises what `work` raises."""
    outcome: dict[str, Any] = {}
    with counting() as counts:
        try:
            outcome = {"value": _serializer.dumps(work()).decode()}
        except Exception as error:
            kind, arguments = cast("tuple[type, tuple[Any, ...]]", error.__reduce__()[:2])  # as pickle takes it apart
            described = {"kind": f"{kind.__module__}.{kind.__qualname__}", "message": str(error)}
            with suppress(TypeError, ValueError):  # only where the arguments of its constructor are plain values
                described["arguments"] = _serializer.dumps(list(arguments)).decode()
            outcome = {"error": described}
            raise
        finally:
            if outcome:
                results().write(outcome_of(run), json.dumps({"counts": counts, **outcome}).encode())


def open_outcome(outcome: bytes) -> Any:
    """Return what a child run stored. Raises the error that it stored: of its class if ours, else PoolStepFailed."""
    record = json.loads(outcome)
    if "error" not in record:
        return _serializer.loads(record["value"].encode())
    kind, message, arguments = (record["error"].get(name) for name in ("kind", "message", "arguments"))
    module, _, name = kind.rpartition(".")
    if kind.startswith(OURS) and arguments:
        error_class = getattr(importlib.import_module(module), name, None)
        if inspect.isclass(error_class) and issubclass(error_class, Exception):
            try:
                error = error_class(*_serializer.loads(arguments.encode()))
            except TypeError:  # its constructor takes other arguments: its words remain
                pass
            else:
                raise error
    raise PoolStepFailed(f"{name}: {message}")


def inputs_of(function: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters, given as JSON or a Ref of it, in their annotated types. Raises ValidationError, KeyError."""
    if set(params) == set(Ref.model_fields):
        params = json.loads(artifacts().get(Ref.model_validate(params)))
    hints = inspect.get_annotations(function, eval_str=True)
    return {name: TypeAdapter(hints[name]).validate_python(value) for name, value in params.items()}
