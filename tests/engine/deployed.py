"""Runs of a deployment in this process, and what the server has of them."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from prefect import Flow, State, task
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import Artifact, FlowRun
from prefect.flow_engine import run_flow
from prefect.states import AwaitingRetry

from tasks import progress

PATIENCE_S = 60.0


class Ran:
    """A run of a deployment, in this process, and what the server has of it."""

    def __init__(self, client: SyncPrefectClient, flow: Flow[..., Any], **parameters: Any) -> None:
        self._client, self._flow = client, flow
        deployment = client.create_deployment(flow_id=client.create_flow(flow), name="here")
        self.id = client.create_flow_run_from_deployment(deployment, parameters=parameters).id
        self.state: State[Any] = self._run()

    def retry(self) -> None:
        self._client.set_flow_run_state(self.id, AwaitingRetry(), force=True)
        self.state = self._run()

    def _run(self) -> State[Any]:
        state: Any = run_flow(self._flow, flow_run=self.run, return_type="state")
        return state

    @property
    def run(self) -> FlowRun:
        return self._client.read_flow_run(self.id)

    @property
    def artifacts(self) -> dict[str, Artifact]:
        """By key, each once."""
        found = artifacts_of(self._client, self.id)
        assert len({one.key for one in found}) == len(found)
        return {one.key or "": one for one in found}

    @property
    def bars(self) -> dict[str, Any]:
        return {key: one.data for key, one in self.artifacts.items() if one.type == "progress"}

    def task_names(self, *, expected: set[str]) -> set[str]:
        """Names of the task runs, once the server has heard of the expected ones."""
        deadline = time.monotonic() + PATIENCE_S
        this = FlowRunFilter(id=FlowRunFilterId(any_=[self.id]))
        while not expected <= (names := {one.name for one in self._client.read_task_runs(flow_run_filter=this)}):
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return names


def artifacts_of(client: SyncPrefectClient, run: UUID) -> list[Artifact]:
    return client.read_artifacts(artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run])))


@task
def work(items: int, fails_after: int | None = None) -> None:
    progress.expect("train SFT", items)
    for done in range(items):
        if done == fails_after:
            raise RuntimeError("no light")
        progress.advance("train SFT")
