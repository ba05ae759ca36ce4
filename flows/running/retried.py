"""What a run tells about the automatic retries that flows/service/healing.py has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

RETRY = "Automatic retry"
"""Beginning of the message of the state in which a run waits for one."""


def notes_on_retries(run: FlowRun | None) -> tuple[str, ...]:
    """A line for the report of a run that was retried; run: as the server had it when it began."""
    if run is None or run.run_count < 2:
        return ()
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectException

    try:
        with get_client(sync_client=True) as client:
            states = client.read_flow_run_states(run.id)
    except (httpx.HTTPError, PrefectException):  # the figures are worth more than this line
        return ()
    told = [state.message for state in states if state.message and state.message.startswith(RETRY)]
    return (f"The run lost its process and was continued. {told[-1]}",) if told else ()
