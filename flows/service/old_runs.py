"""Old runs of Prefect servers are removed; and the records that unfinished runs still need are found."""

from __future__ import annotations

import os
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import Field

from flows.running.command_server import ServerDidNotStart, prefect_api, wait_until_healthy
from flows.running.environment import AUTHORITY, prepare_environment, trust
from flows.running.shared_api import ANSWER_S, database_name
from flows.service.api import address_of, auth_of
from storage.records import Record

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

T = TypeVar("T")

FLOWS = ("rag", "rag-answer", "evaluation", "lever", "nightly", "gpu-step")
"""Our flows; runs of other flows on the same server are left alone."""
SERVICE_DATA = "server"
"""Folder below the home with the database of the service."""
PAGE, BULK = 200, 50
"""Most items that Prefect's API lists and deletes at once."""
_ENDED = ["CANCELLED", "COMPLETED", "CRASHED", "FAILED"]


class History(Record):
    """What was, or would be, removed at a Prefect server."""

    server: str
    """Its API."""
    runs: dict[str, int] = Field(default_factory=dict[str, int])
    """By flow; their task runs and logs go with them."""
    artifacts: int = 0
    unfinished: int = 0
    """Runs that have begun and not ended; they and their results stay."""
    trouble: str | None = None
    """Why nothing was removed, and what to do."""


class Cleared(NamedTuple):
    """What was removed at each server, and the records that stay."""

    histories: tuple[History, ...]
    needed: frozenset[str] | None
    """Records that unfinished runs continue from; None if no server is known, or one is unavailable."""


class _Server(NamedTuple):
    url: str
    auth: str | None
    shared: bool
    """Not this home's own server: others may look there for these runs."""


def clear_history(home: Path, *, ended_before: datetime, dry_run: bool, shared: bool) -> Cleared:
    """Remove old runs with their task runs, logs and artifacts; with `shared` also at a server of other homes."""
    prepare_environment()
    histories: list[History] = []
    needed: frozenset[str] | None = None
    try:
        with closing(_servers(home)) as servers:
            for server in servers:
                told, records = _clear(server, ended_before=ended_before, dry_run=dry_run, shared=shared)
                histories.append(told)
                needed = (needed or frozenset()) | records
    except (OSError, ServerDidNotStart) as error:
        sentence = f"it cannot be asked ({error}): its runs stay, and all results of steps; run again when it is up"
        service = address_of(home)
        named = os.environ.get("PREFECT_API_URL") or (service.api_url if service else "the server of this home")
        return Cleared((*histories, History(server=named, trouble=sentence)), None)
    return Cleared(tuple(histories), needed)


def prefect_files(home: Path) -> list[Path]:
    """The SQLite databases of the servers of a home, where they are such."""
    prefect_home = Path(os.environ["PREFECT_HOME"])
    return [home / SERVICE_DATA / "prefect.db", prefect_home / database_name(prefect_home)]


def _servers(home: Path) -> Generator[_Server]:
    """The server of the user or of `trivet up`; and that of commands. Raises OSError, ServerDidNotStart."""
    service, named = address_of(home), os.environ.get("PREFECT_API_URL")
    if named:
        own = service is not None and service.database is not None and service.api_url == named
        yield _Server(named, os.environ.get("PREFECT_API_AUTH_STRING"), shared=not own)
        return
    if service:
        if service.authority:
            os.environ[AUTHORITY] = service.authority
        yield _Server(service.api_url, auth_of(home), shared=service.database is None)
    elif (home / SERVICE_DATA).exists():
        raise ConnectionError("the service of this home is stopped; start it with `trivet up`")
    prefect_home = Path(os.environ["PREFECT_HOME"])
    if (prefect_home / database_name(prefect_home)).exists():
        with prefect_api(home):
            wait_until_healthy(home)
            yield _Server(os.environ["PREFECT_API_URL"], os.environ.get("PREFECT_API_AUTH_STRING"), shared=False)


def _clear(server: _Server, *, ended_before: datetime, dry_run: bool, shared: bool) -> tuple[History, frozenset[str]]:
    """What was removed at a server, and the records that its unfinished runs need. Raises OSError."""
    from httpx import HTTPError
    from prefect.client.orchestration import SyncPrefectClient

    health = server.url + "/health"
    with urllib.request.urlopen(health, timeout=ANSWER_S, context=trust()):  # its client would try for minutes
        pass
    try:
        with SyncPrefectClient(server.url, auth_string=server.auth) as client:
            unfinished = _runs(client, {"state": {"type": {"not_any_": _ENDED}}, "start_time": {"is_null_": False}})
            parents = {"parent_flow_run_id": {"any_": [str(run.id) for run in unfinished]}}
            children = _runs(client, parents) if unfinished else []
            needed = frozenset(_records_of(client, [*unfinished, *children]))
            if server.shared and not shared:
                trouble = "it is not this home's own: its runs stay; with --shared-runs those of Trivet are removed"
                return History(server=server.url, unfinished=len(unfinished), trouble=trouble), needed
            kept = {run.id for run in children}
            ended = [run for run in _runs(client, _ended(ended_before)) if run.id not in kept]
            names = {flow: client.read_flow(flow).name for flow in {run.flow_id for run in ended}}
            history = History(
                server=server.url,
                runs=dict(Counter(names[run.flow_id] for run in ended)),
                artifacts=sum(_remove(client, page, ended_before, dry_run=dry_run) for page in _pages(ended, BULK)),
                unfinished=len(unfinished),
            )
            return history, needed
    except HTTPError as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _remove(client: SyncPrefectClient, runs: list[FlowRun], before: datetime, *, dry_run: bool) -> int:
    """Remove runs, unless somebody has started them again; gives the number of their artifacts."""
    from prefect.client.schemas.filters import ArtifactFilter
    from prefect.exceptions import ObjectNotFound

    ended = _ended(before) | {"id": {"any_": [str(run.id) for run in runs]}}
    still = [run.id for run in _runs(client, ended)]
    asked = ArtifactFilter.model_validate({"flow_run_id": {"any_": still}})
    artifacts = list(_all(lambda at: client.read_artifacts(artifact_filter=asked, limit=PAGE, offset=at)))
    if not dry_run:
        for artifact in artifacts:
            with suppress(ObjectNotFound):  # removed by another
                client.delete_artifact(artifact.id)
        api: Any = client  # whose types do not know this path
        api.request("POST", "/flow_runs/bulk_delete", json={"flow_runs": ended})
    return len(artifacts)


def _records_of(client: SyncPrefectClient, runs: list[FlowRun]) -> Iterator[str]:
    """Names of the records that the steps of these runs have left or found."""
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.results import ResultRecordMetadata  # pyright: ignore[reportPrivateImportUsage]

    for page in _pages(runs, PAGE):
        asked = FlowRunFilter.model_validate({"id": {"any_": [run.id for run in page]}})
        for step in _all(lambda at, asked=asked: client.read_task_runs(flow_run_filter=asked, limit=PAGE, offset=at)):
            data: Any = step.state.data if step.state else None
            if isinstance(data, ResultRecordMetadata) and data.storage_key:
                yield Path(data.storage_key).name


def _ended(before: datetime) -> dict[str, Any]:
    return {"state": {"type": {"any_": _ENDED}}, "end_time": {"before_": before.isoformat()}}


def _runs(client: SyncPrefectClient, asked: dict[str, Any]) -> list[FlowRun]:
    """All runs of our flows that match a filter, given as Prefect's API takes it."""
    from prefect.client.schemas.filters import FlowFilter, FlowRunFilter

    ours = FlowFilter.model_validate({"name": {"any_": list(FLOWS)}})
    wanted: Any = {"flow_filter": ours, "flow_run_filter": FlowRunFilter.model_validate(asked)}
    return list(_all(lambda at: client.read_flow_runs(**wanted, limit=PAGE, offset=at)))


def _all(read: Callable[[int], list[T]]) -> Iterator[T]:
    for at in count(0, PAGE):
        page = read(at)
        yield from page
        if len(page) < PAGE:
            return


def _pages(whole: list[T], size: int) -> Iterator[list[T]]:
    return (whole[at : at + size] for at in range(0, len(whole), size))
