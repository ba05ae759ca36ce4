"""What a worker executes, whatever the server asks for: flows that are installed, in its folder, with few variables.

Whoever has the server's password may write job variables, deployments and the templates of pools; Prefect's own worker
takes commands from all three.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

from flows.service.api import Refused

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

VARIABLES = {
    *("TRIVET_LLM", "TRIVET_LLM_TIMEOUT_S", "TRIVET_TASK_RUNNER", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
    *("PREFECT_CLIENT_MAX_RETRIES", "PREFECT_LOGGING_LEVEL"),
}
"""Environment variables that a run may have beside those of its worker: none names a program, a path or a server."""


class LimitedJobConfiguration(ProcessJobConfiguration):
    """How a run is started; refuses what would execute something else."""

    def prepare_for_flow_run(
        self, flow_run: FlowRun, deployment: DeploymentResponse | None = None, *more: Any, **named: Any
    ) -> None:
        """Raises Refused."""
        if reason := why_not(deployment, command=self.command, environment=self.env, folder=self.working_dir):
            raise Refused(f"{flow_run.name} is not executed here: {reason}")
        super().prepare_for_flow_run(flow_run, deployment, *more, **named)


with warnings.catch_warnings(action="ignore"):  # that it takes the place of Prefect's own in this process

    class LimitedWorker(ProcessWorker):
        """Prefect's process worker with these limits."""

        job_configuration = LimitedJobConfiguration

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._ended: set[UUID] = set()

        async def run(self, flow_run: FlowRun, *arguments: Any, **named: Any) -> Any:
            """Execute a run; a process that ended badly has been called crashed when this returns."""
            result = await super().run(flow_run, *arguments, **named)
            self._ended.add(flow_run.id)
            return result

        async def _propose_crashed_state(self, flow_run: FlowRun, *arguments: Any, **named: Any) -> None:
            # said once: the second time may come when the run is being done again, which that would undo
            if flow_run.id in self._ended:
                self._ended.discard(flow_run.id)
                return
            await super()._propose_crashed_state(flow_run, *arguments, **named)


def why_not(
    deployment: DeploymentResponse | None, *, command: str | None, environment: dict[str, Any], folder: Path | None
) -> str | None:
    """Why a run is refused; None if it may be executed."""
    if command is not None:
        return f"its job variables or its pool name a command ({command}); workers execute flows alone"
    if others := sorted(set(environment) - VARIABLES):
        return (
            f"its job variables or its pool set {', '.join(others)}; only {', '.join(sorted(VARIABLES))} may be set "
            "for a run: set others for the worker"
        )
    if folder is not None and folder.resolve() != Path.cwd():
        return f"its job variables or its pool name the folder {folder}; runs work in that of their worker"
    if deployment is None:
        return "it has no deployment"
    if deployment.pull_steps or deployment.storage_document_id:
        return f"the deployment {deployment.name} fetches code; workers execute flows that are installed"
    if not deployment.entrypoint or ":" in deployment.entrypoint:
        return (
            f"the entrypoint of {deployment.name} is {deployment.entrypoint!r}; name an installed flow with dots, "
            "`flows.rag.build_index`"
        )
    return None
