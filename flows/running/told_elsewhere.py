"""Runs and their steps told to an OpenLineage server, where OPENLINEAGE_URL is set; no fault of it touches a run.

a run begins ─► START ─► … ─► the run ends ─► its end, then its steps as they were recorded ─► it waits for 8 s at most
A thread sends; the client is imported there.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from prefect.client.schemas.objects import FlowRun, State
from prefect.logging import get_run_logger

from flows.running.environment import program
from flows.running.settings import settings
from storage.storage_errors import StorageError
from tasks.resources import lineage, resources

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.transport.http import HttpTransport

    from tasks.origins.lineage_events import Outcome, Reported

log = logging.getLogger(__name__)

R = TypeVar("R")

TIMEOUT_S = 2.5
"""Timeout of a request."""
LAST_WORDS_S = 8.0
"""Longest wait of a run that ends for its events to be sent."""
INTERRUPTED_S = 2.0
"""… of one that is interrupted."""


class AddressUnusable(ValueError):
    """OPENLINEAGE_URL is no address of a server."""


class _Around(NamedTuple):
    run: str
    flow: str
    above: _Around | None


_around: ContextVar[_Around | None] = ContextVar("_around", default=None)
"""The run that is told, of which another one may be a part."""


def told(work: Callable[[], R], *, run: FlowRun, flow: str) -> R:
    """What `work` gives, which is the run of a flow; a server hears how it began, how it ended and what it did."""
    # a step that was sent to a pool is told by the run that sent it
    if settings().openlineage_url is None or (run.deployment_id and run.parent_task_run_id):
        return work()
    mine = _Around(str(run.id), flow, _around.get())
    telling, token = _Telling(mine, get_run_logger() if run.deployment_id else log), _around.set(mine)
    try:
        result = work()
    except Exception as error:
        telling.end("FAIL", error=type(error).__name__)
        raise
    except BaseException:
        telling.end("ABORT")
        raise
    finally:
        _around.reset(token)
    failed = isinstance(result, State) and result.is_failed()
    telling.end("FAIL" if failed else "COMPLETE")
    return result


class _Telling:
    """The thread that tells of one run."""

    def __init__(self, run: _Around, log: Any) -> None:
        self._run = run
        self._log = log
        self._coming: SimpleQueue[Callable[[], Iterable[RunEvent]] | None] = SimpleQueue()
        self._sent = 0
        self._warned = False
        self._thread = Thread(target=copy_context().run, args=(self._send,), name="openlineage", daemon=True)
        self._coming.put(partial(self._start, datetime.now(UTC)))
        self._thread.start()

    def end(self, outcome: Outcome, *, error: str = "") -> None:
        """Tell how the run ended, and of its steps; wait for it a little."""
        wait_s = INTERRUPTED_S if outcome == "ABORT" else LAST_WORDS_S
        self._coming.put(partial(self._end, outcome, error, datetime.now(UTC)))
        self._coming.put(self._steps)
        self._coming.put(None)
        self._thread.join(wait_s)
        if self._thread.is_alive():
            self._warn(f"{self._sent} were sent {wait_s:g} s after its end, and it waits no longer")

    def _send(self) -> None:
        transport: HttpTransport | None = None
        unsent: list[RunEvent] = []
        while events := self._coming.get():
            try:
                transport = transport or _transport()
                unsent += events()
                while unsent:
                    transport.emit(unsent[0])
                    del unsent[0]
                    self._sent += 1
            except Exception as error:  # noqa: BLE001 whatever is wrong with the server, the run goes on
                self._warn(_reason(error))

    def _warn(self, reason: str) -> None:
        """Once for a run."""
        if not self._warned:
            self._warned = True
            self._log.warning("OpenLineage events of this run were not, or not all, sent: %s", reason)

    def _start(self, at: datetime) -> Iterator[RunEvent]:
        from tasks.origins.lineage_events import start_of

        yield start_of(_reported(self._run), at=at)

    def _end(self, outcome: Outcome, error: str, at: datetime) -> Iterator[RunEvent]:
        from tasks.origins.lineage_events import end_of

        yield end_of(_reported(self._run), outcome, at=at, error=error)

    def _steps(self) -> Iterator[RunEvent]:
        from tasks.origins.lineage_events import of_step

        reported, store = _reported(self._run), _store()
        for ran in lineage().of_run(self._run.run):
            yield from of_step(reported, ran, store=store)


def _reported(run: _Around) -> Reported:
    from tasks.origins.lineage_events import Reported

    above = _reported(run.above) if run.above else None
    return Reported(run.run, run.flow, settings().openlineage_namespace, program(), above)


def _transport() -> HttpTransport:
    """The official client's, as OPENLINEAGE_URL says. Raises AddressUnusable, ModuleNotFoundError.

    Its `OpenLineageClient` would add the git repository of the current folder to every event, and write the key into
    more variables of this process.
    """
    from openlineage.client.event_v2 import set_producer
    from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

    read = settings()
    url = read.openlineage_url.get_secret_value() if read.openlineage_url else ""
    if not _is_address(url):
        raise AddressUnusable("OPENLINEAGE_URL is no address of a server; expected http://HOST:PORT")
    set_producer(f"urn:trivet:{program()}")
    key = read.openlineage_api_key
    return HttpTransport(
        HttpConfig(
            url=url,
            endpoint=read.openlineage_endpoint,
            timeout=TIMEOUT_S,
            auth=ApiKeyTokenProvider({"api_key": key.get_secret_value()}) if key else TokenProvider({}),
            retry={"total": 0},
        )
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port of letters, half a bracket
        return False


def _store() -> str:
    """Namespace of datasets: the artifact store, with the host of a local one, without anything secret."""
    store = resources().store
    if "://" not in store:
        return f"file://{socket.gethostname()}{Path(store).absolute()}"
    return re.sub(r"//[^/@]*@", "//", store).partition("?")[0]


def _reason(error: Exception) -> str:
    """Without the text of the request, where the address may hold a password."""
    if isinstance(error, ModuleNotFoundError):
        return "the client is not installed; run `pip install 'trivet[openlineage]'`, or unset OPENLINEAGE_URL"
    if isinstance(error, AddressUnusable | StorageError):
        return str(error)
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server of OPENLINEAGE_URL answered {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"the server of OPENLINEAGE_URL did not answer in {TIMEOUT_S:g} s"
    if isinstance(error, requests.ConnectionError):
        return "the server of OPENLINEAGE_URL cannot be reached"
    return type(error).__name__
