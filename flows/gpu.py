"""One step of any pipeline, on a pool that has a device: what `TRIVET_GPU_DEPLOYMENT` names.

a step of a parent ─► run_step, on the pool `gpu` ─► the same step, the same key, the same store ─► the parent goes on
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from prefect import Task, flow, get_run_logger
from prefect.runtime import flow_run

from flows.running.dispatch import inputs_of, keep_outcome
from flows.running.environment import program
from flows.running.run_reporting import watched
from tasks.step import StepKey, inline


class NotAStep(ValueError):
    """The parameters of a run name something that is no step of this house."""


@flow(name="gpu-step", version=program(), persist_result=False)
@watched
def run_step(entry: str, params: dict[str, Any]) -> None:
    """Do the step `entry` (`tasks.rag.steps.embed`) with parameters as JSON, or a Ref of them; keep its outcome."""
    step = find_step(entry)
    get_run_logger().info("%s in process %d, a child of %d", entry, os.getpid(), os.getppid())
    with inline(sent_by=str(flow_run.parent_flow_run_id or flow_run.id)):  # whose budget its model calls spend
        keep_outcome(flow_run.id, lambda: step(**inputs_of(step.fn, params)))


def find_step(entry: str) -> Task[..., Any]:
    """Return the step `tasks.….steps.NAME`, and nothing else. Raises NotAStep for what is none, or is not there."""
    module, _, name = entry.rpartition(".")
    if not entry.startswith("tasks.") or not module.endswith("steps"):
        raise NotAStep(f"{entry!r} is not a step: expected tasks.….steps.NAME")
    try:
        step = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise NotAStep(f"{entry!r}: there is no module {module}; is this the version that the parent runs?") from error
    if not isinstance(step, Task) or not isinstance(step.cache_policy, StepKey):
        raise NotAStep(f"{entry!r} is not a step of {module}; is this the version that the parent runs?")
    return step
