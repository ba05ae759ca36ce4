"""The Prefect server of the service: its errors, where it is, and the few requests made without importing prefect.

ServiceError
├── Refused      a request that cannot be met: a port that is taken, a server that refuses the auth string
├── DidNotStart  a part does not become healthy; the message names its log
└── ApiFailed    the server answers, and refuses
    └── ApiAway  the server does not answer
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from flows.running.environment import LOOPBACK, trust
from storage.records import Record

TIMEOUT_S = 10
BUSY_TRIES = 5
"""Times a request is sent to a server that answers 503, a second apart: its SQLite was locked, nothing happened."""
SERVICE_FILE = Path("service", "service.json")
"""Below the home: where the server of `trivet up` is."""
AUTH_FILE = Path("service", "auth")
"""Below the home: its auth string, `user:password`; file mode 0600."""
UNDER_WAY = ("RUNNING", "PENDING", "CANCELLING")
WORKER_LABEL = "prefect.worker.name"
MOST = 200
"""Most runs in one answer of the server."""


class Api(NamedTuple):
    """A server and its auth string."""

    url: str
    """`http://127.0.0.1:4200/api`."""
    auth: str | None

    def ready(self) -> bool:
        """Whether it answers and reaches its database; needs no auth string."""
        try:
            self._ask("/ready", None, tries=1)
        except ApiFailed:
            return False
        return True

    def get(self, path: str) -> Any:
        """Answer to GET. Raises ApiFailed, ApiAway."""
        return self._ask(path, None)

    def post(self, path: str, body: dict[str, Any] | list[dict[str, Any]]) -> Any:
        """Answer to POST. Raises ApiFailed, ApiAway."""
        return self._ask(path, json.dumps(body).encode())

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """Answer to PUT. Raises ApiFailed, ApiAway."""
        return self._ask(path, json.dumps(body).encode(), "PUT")

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """Answer to PATCH. Raises ApiFailed, ApiAway."""
        return self._ask(path, json.dumps(body).encode(), "PATCH")

    def _ask(self, path: str, data: bytes | None, method: str | None = None, tries: int = BUSY_TRIES) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.auth:
            headers["Authorization"] = "Basic " + base64.b64encode(self.auth.encode()).decode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        busy = retry_if_exception(lambda error: isinstance(error, ApiFailed) and error.status == 503)
        send = Retrying(retry=busy, stop=stop_after_attempt(tries), wait=wait_fixed(1), reraise=True)
        return send(self._ask_once, request)

    def _ask_once(self, request: urllib.request.Request) -> Any:
        try:
            here = urllib.parse.urlsplit(self.url).hostname in LOOPBACK  # no proxy stands before this machine
            handlers: list[Any] = [urllib.request.ProxyHandler({})] if here else []
            if self.url.startswith("https:"):
                handlers.append(urllib.request.HTTPSHandler(context=trust()))
            opener = urllib.request.build_opener(*handlers)
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(500).decode(errors="replace")
            raise ApiFailed(f"{request.full_url} answers {error.code}: {said}", status=error.code) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiAway(f"no Prefect server answers at {self.url} ({error})") from error


class ServiceError(RuntimeError):
    """Root of the errors of `trivet up` and its sisters; the text is a sentence with the remedy."""


class Refused(ServiceError):
    """The request cannot be met."""


class DidNotStart(ServiceError):
    """A part does not become healthy."""


class ApiFailed(ServiceError):
    """The server answers, and refuses."""

    def __init__(self, said: str, *, status: int | None = None) -> None:
        super().__init__(said)
        self.status = status


class ApiAway(ApiFailed):
    """The server does not answer."""


class Address(Record, extra="ignore"):
    """The server that `trivet up` has started or joined."""

    api_url: str
    """`http://127.0.0.1:4200/api`."""
    ui_url: str
    database: object = None
    """None: that of a server elsewhere."""


class NotConnected(RuntimeError):
    """No server is configured and none was started here, or it does not answer; says how to get one."""


def address_of(home: Path) -> Address | None:
    """The server that `trivet up` started in this home; None where there is none."""
    try:
        return Address.model_validate_json((home / SERVICE_FILE).read_bytes())
    except FileNotFoundError:
        return None


def auth_of(home: Path) -> str | None:
    try:
        return (home / AUTH_FILE).read_text().strip()
    except FileNotFoundError:
        return None


def ui_of(home: Path) -> str | None:
    """Prefect's pages: where PREFECT_UI_URL says, or those of the server of PREFECT_API_URL or of `trivet up`."""
    address = address_of(home)
    named = os.environ.get("PREFECT_UI_URL") or os.environ.get("PREFECT_API_URL") or (address and address.ui_url)
    return named.rstrip("/").removesuffix("/api") if named else None


def connect(home: Path) -> None:
    """Point PREFECT_API_URL and its auth string to a live server, before prefect is imported. Raises NotConnected."""
    from flows.running.command_server import no_answer, silence

    if named := os.environ.get("PREFECT_API_URL"):
        if why := silence(named):
            raise NotConnected(no_answer(named, why))
        return
    address = address_of(home)
    if address is None:
        raise NotConnected("no Prefect server: start one with `trivet up`, or set PREFECT_API_URL")
    if why := silence(address.api_url):
        raise NotConnected(
            f"the server of this home does not answer at {address.api_url} ({why}); `trivet status` tells more, "
            "`trivet up` starts it again"
        )
    os.environ["PREFECT_API_URL"] = address.api_url
    if auth := auth_of(home):
        os.environ["PREFECT_API_AUTH_STRING"] = auth


def hand_back(api: Api, runs: Iterable[str], *, why: str) -> list[str]:
    """Reschedule runs that lost their process, or complete their cancellation; gives their IDs. Raises ApiFailed."""
    handed: list[str] = []
    for run in sorted(runs):
        state = (api.get(f"/flow_runs/{run}")["state"] or {}).get("type")
        if state not in UNDER_WAY:
            continue
        proposed: dict[str, Any] = {"type": "CANCELLED", "name": "Cancelled", "message": why}
        if state != "CANCELLING":
            details = {"scheduled_time": datetime.now(UTC).isoformat()}
            proposed = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": why, "state_details": details}
        said = api.post(f"/flow_runs/{run}/set_state", {"state": proposed, "force": False})
        if said["status"] == "ACCEPT":
            handed.append(run)
    return handed


def abandoned(api: Api, *, pool: str, worker: str, alive: Collection[str]) -> list[str]:
    """Runs that this worker took and that are under way, except those `alive`. Raises ApiFailed."""
    wanted = {
        "flow_runs": {"state": {"type": {"any_": list(UNDER_WAY)}}},
        "work_pools": {"name": {"any_": [pool]}},
        "limit": MOST,
    }
    taken = (run for run in api.post("/flow_runs/filter", wanted) if (run["labels"] or {}).get(WORKER_LABEL) == worker)
    return [run["id"] for run in taken if run["id"] not in alive]
