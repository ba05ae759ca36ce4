"""A step for a device, done by a pool that has one: the parent waits, its child computes, both keep one record.

The child is a flow run of `flows.gpu.run_step`. It computes the same cache key in the same store, so what it has
finished is there for a parent that died. What it returns or raises reaches the parent as a small JSON file.
"""

from __future__ import annotations

import importlib
import inspect
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import TaskRunContext
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.serializers import JSONSerializer
from prefect.states import Cancelling
from pydantic import TypeAdapter

from flows.warm import settle
from storage.records import Ref
from tasks.resources import artifacts, results
from tasks.sending import Sent

POLL_S = 1.0
"""Seconds between two looks at the child, and at the run that waits for it."""
LARGEST_INLINE = 64_000
"""Bytes of parameters; larger ones travel as an artifact, and the server keeps its database small."""
OURS = ("tasks.", "models.", "storage.", "builtins.")
"""Modules whose errors are raised again as what they are."""
UNDER_WAY = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED)

_serializer = JSONSerializer()
_anything = TypeAdapter(dict[str, Any])


class PoolStepFailed(RuntimeError):
    """The run of a step on the pool failed, crashed or was cancelled; says which run, and what to do."""


def send(sent: Sent, deployment: str) -> Any:
    """What the step returns on the pool of `deployment` (`flow/name`); raises what it raises there, PoolStepFailed."""
    with get_client(sync_client=True) as client:
        child = _under_way(client, sent, deployment) or _started(sent, deployment)
        try:
            ended = _waited_for(client, child)
        except BaseException:
            _cancel(client, child.id)
            raise
    return _outcome(ended)


def _under_way(client: SyncPrefectClient, sent: Sent, deployment: str) -> FlowRun | None:
    try:
        found = client.read_deployment_by_name(deployment)
    except ObjectNotFound as error:
        raise PoolStepFailed(
            f"TRIVET_GPU_DEPLOYMENT names {deployment!r}, which the server does not know; run `trivet deploy`"
        ) from error
    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            tags=FlowRunFilterTags(all_=[_tag(sent.key)]),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(UNDER_WAY))),
        ),
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[found.id])),
        limit=1,
    )
    return runs[0] if runs else None


def _started(sent: Sent, deployment: str) -> FlowRun:
    params: Any = _anything.dump_python(dict(sent.inputs), mode="json")
    if len(told := json.dumps(params).encode()) > LARGEST_INLINE:
        params = artifacts().put("step-inputs", told).model_dump(mode="json")
    return cast(
        FlowRun,
        run_deployment(
            deployment,
            parameters={"entry": sent.step, "params": params},
            flow_run_name=sent.name,
            tags=["gpu", _tag(sent.key)],
            timeout=0,
            as_subflow=True,
        ),
    )


def _tag(key: str) -> str:
    return f"step:{key[:16]}"


def _waited_for(client: SyncPrefectClient, child: FlowRun) -> FlowRun:
    context = TaskRunContext.get()
    parent = context.task_run.flow_run_id if context else None
    while True:
        child = settle(client, child)
        if (child.state and child.state.is_final()) or results().read(outcome_of(child.id)) is not None:
            return child  # it has left what became of the step: its process may go on with the next
        if parent and _is_being_cancelled(client, parent):
            raise PoolStepFailed(f"the run that waits for {child.name} was cancelled, and {child.name} with it")
        time.sleep(POLL_S)


def _is_being_cancelled(client: SyncPrefectClient, run: UUID) -> bool:
    state = client.read_flow_run(run).state
    return bool(state and (state.is_cancelling() or state.is_cancelled()))


def _cancel(client: SyncPrefectClient, child: UUID) -> None:
    found = client.read_flow_run(child)
    if found.state and not found.state.is_final():
        client.set_flow_run_state(child, Cancelling(message="the run that waited for it was stopped"))


def _outcome(child: FlowRun) -> Any:
    """What the child has left: a value, or an error to raise."""
    assert child.state is not None
    place = outcome_of(child.id)
    told = results().read(place)
    if told is None:
        raise PoolStepFailed(
            f"{child.name} ended as {child.state.name} on its pool: {child.state.message or 'no reason was given'}. "
            "Retry this run, not that one: a child that is retried alone does not resume its parent."
        )
    results().remove(place)
    return opened(told)


def opened(told: bytes) -> Any:
    """The value that a child has left. Raises the error that it has left instead."""
    outcome = json.loads(told)
    if "error" in outcome:
        raise _raised(outcome["error"])
    return _serializer.loads(outcome["value"].encode())


def outcome_of(run: object) -> str:
    """Where a child of this id leaves what became of its step, among the results."""
    return f"outcome-{run}"


def keep_outcome(run: object, work: Callable[[], Any]) -> None:
    """Do the work of a child, and leave what it returns or raises for its parent. Raises what `work` raises."""
    try:
        value = work()
    except Exception as error:
        results().write(outcome_of(run), json.dumps({"error": _described(error)}).encode())
        raise
    results().write(outcome_of(run), json.dumps({"value": _serializer.dumps(value).decode()}).encode())


def _described(error: Exception) -> dict[str, Any]:
    """An error as JSON: how pickle would make it again, where its arguments are plain values."""
    kind, arguments = cast("tuple[type, tuple[Any, ...]]", error.__reduce__()[:2])
    described = {"kind": f"{kind.__module__}.{kind.__qualname__}", "message": str(error)}
    try:
        return described | {"arguments": _serializer.dumps(list(arguments)).decode()}
    except (TypeError, ValueError):
        return described


def _raised(described: Mapping[str, str]) -> Exception:
    """The error that a child described; one that is not of this house comes as PoolStepFailed with its words."""
    kind, message = described["kind"], described["message"]
    if kind.startswith(OURS) and "arguments" in described:
        module, _, name = kind.rpartition(".")
        found = getattr(importlib.import_module(module), name, None)
        if inspect.isclass(found) and issubclass(found, Exception):
            try:
                return found(*_serializer.loads(described["arguments"].encode()))
            except TypeError:
                pass
    return PoolStepFailed(f"{kind.rpartition('.')[2]}: {message}")


def inputs_of(function: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they came through JSON, as the values that the step is annotated with.

    Raises pydantic.ValidationError, KeyError where a parameter is not one of the step's.
    """
    if set(params) == set(Ref.model_fields):
        params = json.loads(artifacts().get(Ref.model_validate(params)))
    hints = inspect.get_annotations(function, eval_str=True)
    return {name: TypeAdapter(hints[name]).validate_python(value) for name, value in params.items()}
