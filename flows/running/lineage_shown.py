"""At the end of a run, an artifact of the Prefect UI: its lineage as a picture, and the commands that ask further."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import httpx
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.running.shown import earlier_artifact, impatient_client
from storage.storage_errors import StorageError
from tasks.origins.lineage_picture import markdown_of, steps_of_run
from tasks.resources import lineage
from tasks.step import noting_found

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def with_lineage(flow: Callable[P, R]) -> Callable[P, R]:
    """The function of a flow; whether it succeeds or fails, its run gets a picture of what its steps used and made."""

    @wraps(flow)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        context = FlowRunContext.get()
        if context is None or context.flow_run is None or context.flow is None:
            return flow(*args, **kwargs)
        run, key = context.flow_run, f"{context.flow.name}-lineage"
        with noting_found(str(run.id)) as found:
            try:
                result = flow(*args, **kwargs)
            except Exception:
                _show(run, key, found)
                raise
            _show(run, key, found)
            return result

    return body


def _show(run: FlowRun, key: str, found: set[str]) -> None:
    try:
        if not (steps := steps_of_run(str(run.id), lineage(), found=found)):
            return
        told, described = markdown_of(steps, run=str(run.id)), "What the steps used and made"
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), impatient_client() as client:
            if earlier := earlier_artifact(client, run.id, key):  # a retry tells of both attempts
                client.update_artifact(earlier, ArtifactUpdate(data=told, description=described))
            else:
                made = ArtifactCreate(type="markdown", key=key, data=told, description=described, flow_run_id=run.id)
                client.create_artifact(made)
    except (httpx.HTTPError, StorageError) as error:
        log.debug("the server did not take the lineage of a run: %s", error)
