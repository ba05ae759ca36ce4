"""What Prefect keeps of runs that ended long ago: found and removed; and which records unfinished runs still need."""

from __future__ import annotations

import os
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from pydantic import Field

from flows.running.command_server import ServerDidNotStart, prefect_api, wait_until_healthy
from flows.running.settings import prepare_environment
from flows.running.shared_api import database_name
from flows.service.api import SERVICE_FILE, Address, auth_of
from storage.records import Record

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.objects import FlowRun

T = TypeVar("T")

FLOWS = ("rag", "rag-answer", "evaluation", "lever", "nightly", "gpu-step")
"""This house's; the runs of other flows at the same server are their owners' affair."""
SERVICE_DATA = "server"
"""Below the home: the database of the service, also while it is stopped."""
PAGE = 200
"""Most that Prefect's API tells at once."""
ANSWER_S = 5.0


class History(Record):
    """What was removed at a Prefect server, or would be."""

    server: str
    """Its API."""
    runs: dict[str, int] = Field(default_factory=dict[str, int])
    """By flow; their task runs and logs go with them."""
    artifacts: int = 0
    unfinished: int = 0
    """Runs that are under way, or wait; they and their results stay."""
    trouble: str | None = None
    """Why nothing was removed, and what to do."""


class Cleared(NamedTuple):
    """The histories, and what is left of them that matters."""

    histories: tuple[History, ...]
    needed: frozenset[str] | None
    """Records that unfinished runs go on from; None where a server is away, or none is known, that could tell."""


class _Server(NamedTuple):
    url: str
    auth: str | None
    shared: bool
    """Somebody else's, or the user's own: others may look there for these runs."""


class _Service(Address):
    """What `trivet up` keeps here, or has joined."""

    database: object = None
    """None where the server is elsewhere."""


def clear_history(home: Path, *, ended_before: datetime, dry_run: bool, shared: bool) -> Cleared:
    """Remove runs that ended before, with their task runs, logs and artifacts; events go by the server's own rule.

    shared: also at a server that is not this home's own. A server that is away is told, not raised.
    """
    prepare_environment()
    histories: list[History] = []
    needed: frozenset[str] | None = None
    for opened in _servers(home):
        try:
            with opened as server:
                told, records = _clear(server, ended_before=ended_before, dry_run=dry_run, shared=shared)
        except (OSError, ServerDidNotStart) as error:
            sentence = f"it cannot be asked ({error}): its runs stay, and all results of steps; run again when it is up"
            return Cleared((*histories, History(server=_named(home), trouble=sentence)), None)
        histories.append(told)
        needed = (needed or frozenset()) | records
    return Cleared(tuple(histories), needed)


def _servers(home: Path) -> Iterator[AbstractContextManager[_Server]]:
    """Those that have runs of this home: the user's, or that of `trivet up`; and the one of commands without either."""
    service, named = _service(home), os.environ.get("PREFECT_API_URL")
    if named:
        own = service is not None and service.database is not None and service.api_url == named
        yield nullcontext(_Server(named, os.environ.get("PREFECT_API_AUTH_STRING"), shared=not own))
        return
    if service:
        yield nullcontext(_Server(service.api_url, auth_of(home), shared=service.database is None))
    elif (home / SERVICE_DATA).exists():
        yield _stopped()
    prefect_home = Path(os.environ["PREFECT_HOME"])
    if (prefect_home / database_name(prefect_home)).exists():
        yield _of_commands(home)


def _service(home: Path) -> _Service | None:
    try:
        return _Service.model_validate_json((home / SERVICE_FILE).read_bytes())
    except FileNotFoundError:
        return None


def _named(home: Path) -> str:
    service = _service(home)
    return os.environ.get("PREFECT_API_URL") or (service.api_url if service else "the server of this home")


@contextmanager
def _stopped() -> Generator[_Server]:
    raise ConnectionError("the service of this home is stopped; start it with `trivet up`")
    yield


@contextmanager
def _of_commands(home: Path) -> Generator[_Server]:
    """One on the database of commands that ran without a server."""
    with prefect_api(home):
        wait_until_healthy(home)
        yield _Server(os.environ["PREFECT_API_URL"], os.environ.get("PREFECT_API_AUTH_STRING"), shared=False)


def _clear(server: _Server, *, ended_before: datetime, dry_run: bool, shared: bool) -> tuple[History, frozenset[str]]:
    """What was removed at a server, and the records that its unfinished runs need. Raises OSError."""
    from httpx import HTTPError
    from prefect.client.orchestration import SyncPrefectClient

    with urllib.request.urlopen(server.url + "/health", timeout=ANSWER_S):  # its client would try for minutes
        pass
    try:
        with SyncPrefectClient(server.url, auth_string=server.auth) as client:
            unfinished = _unfinished(client)
            needed = frozenset(_records_of(client, unfinished))
            if server.shared and not shared:
                trouble = "it is not this home's own: its runs stay; with --shared-runs those of Trivet are removed"
                return History(server=server.url, unfinished=len(unfinished), trouble=trouble), needed
            children = {run.id for run in _runs(client, _children_of(unfinished))} if unfinished else set[UUID]()
            ended = [run for run in _runs(client, _ended(ended_before)) if run.id not in children]
            names = {flow.id: flow.name for flow in client.read_flows(flow_filter=_ours())}
            history = History(
                server=server.url,
                runs=dict(Counter(names[run.flow_id] for run in ended)),
                artifacts=sum(_remove(client, page, ended_before, dry_run=dry_run) for page in _paged(ended)),
                unfinished=len(unfinished),
            )
            return history, needed
    except HTTPError as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _remove(client: SyncPrefectClient, runs: list[FlowRun], before: datetime, *, dry_run: bool) -> int:
    """Remove runs, unless somebody has started them again; gives the number of their artifacts."""
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
    from prefect.exceptions import ObjectNotFound

    still = [run.id for run in _runs(client, _ended(before, among=[run.id for run in runs]))]
    asked = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=still))
    artifacts = list(_all(lambda at: client.read_artifacts(artifact_filter=asked, limit=PAGE, offset=at)))
    if not dry_run:
        for artifact in artifacts:
            with suppress(ObjectNotFound):  # removed by another
                client.delete_artifact(artifact.id)
        for run in still:
            with suppress(ObjectNotFound):
                client.delete_flow_run(run)
    return len(artifacts)


def _unfinished(client: SyncPrefectClient) -> list[FlowRun]:
    """Runs that have begun and not ended."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterStartTime,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import TERMINAL_STATES

    state = FlowRunFilterState(type=FlowRunFilterStateType(not_any_=sorted(TERMINAL_STATES)))
    return _runs(client, FlowRunFilter(state=state, start_time=FlowRunFilterStartTime(is_null_=False)))


def _records_of(client: SyncPrefectClient, runs: list[FlowRun]) -> Iterator[str]:
    """Names of the records that the steps of these runs, and of the runs they wait for, have left or found."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.results import ResultRecordMetadata  # pyright: ignore[reportPrivateImportUsage]

    family = [*runs, *(_runs(client, _children_of(runs)) if runs else ())]
    for page in _paged(family):
        asked = FlowRunFilter(id=FlowRunFilterId(any_=[run.id for run in page]))
        for step in _all(lambda at, asked=asked: client.read_task_runs(flow_run_filter=asked, limit=PAGE, offset=at)):
            data: Any = step.state.data if step.state else None
            if isinstance(data, ResultRecordMetadata) and data.storage_key:
                yield Path(data.storage_key).name


def _ended(before: datetime, *, among: list[UUID] | None = None) -> FlowRunFilter:
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterEndTime,
        FlowRunFilterId,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import TERMINAL_STATES

    return FlowRunFilter(
        id=FlowRunFilterId(any_=among) if among is not None else None,
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=sorted(TERMINAL_STATES))),
        end_time=FlowRunFilterEndTime(before_=before),  # pyright: ignore[reportArgumentType]
    )


def _children_of(runs: list[FlowRun]) -> FlowRunFilter:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    return FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id for run in runs]))


def _runs(client: SyncPrefectClient, asked: FlowRunFilter) -> list[FlowRun]:
    """All runs of this house that fit."""
    ours = _ours()
    return list(_all(lambda at: client.read_flow_runs(flow_filter=ours, flow_run_filter=asked, limit=PAGE, offset=at)))


def _ours() -> Any:
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName

    return FlowFilter(name=FlowFilterName(any_=list(FLOWS)))


def _all(read: Callable[[int], list[T]]) -> Iterator[T]:
    """Everything of a listing that is told page by page."""
    for at in count(0, PAGE):
        page = read(at)
        yield from page
        if len(page) < PAGE:
            return


def _paged(whole: list[T]) -> Iterator[list[T]]:
    return (whole[at : at + PAGE] for at in range(0, len(whole), PAGE))
