"""The Prefect server of the service: its errors, where it is, and the few requests made without importing prefect.

ServiceError
├── Refused      a request that cannot be met: a port that is taken, a server that refuses the auth string
├── DidNotStart  a part does not become healthy; the message names its log
└── ApiFailed    the server answers, and refuses
    ├── NotAdmitted  it refuses the auth string; a Refused too
    └── ApiAway      it does not answer
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from flows.running.command_server import start_of_process
from flows.running.environment import LOOPBACK, describe_silence, trust, why_silent
from storage.records import Record

TIMEOUT_S = 10
BUSY_TRIES, BUSY_S = 5, 1.0
"""Times a request is sent to a server that answers 503, as its SQLite was locked, and seconds between."""
SERVICE_FILE = Path("service", "service.json")
"""File below the home that says where the server of `trivet up` is."""
AUTH_FILE = Path("service", "auth")
"""File below the home with the auth string of that server, `user:password`; mode 0600."""
UNDER_WAY = ("RUNNING", "PENDING", "CANCELLING")


class Api(NamedTuple):
    """Client of a Prefect server, with the few requests that are made without importing prefect."""

    url: str
    """Address of the API, such as `http://127.0.0.1:4200/api`."""
    auth: str | None

    def is_ready(self) -> bool:
        """Return whether the server answers and reaches its database; needs no auth string."""
        try:
            self.send("GET", "/ready", tries=1)
        except ApiFailed:
            return False
        return True

    def get(self, path: str) -> Any:
        """Send a GET request, and return the JSON of the answer. Raises ApiFailed, ApiAway."""
        return self.send("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a POST request, and return the JSON of the answer. Raises ApiFailed, ApiAway."""
        return self.send("POST", path, body)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, tries: int = BUSY_TRIES) -> Any:
        """Send a request, `tries` times if busy; return the answer's JSON, None if empty. Raises ApiFailed, ApiAway."""
        import httpx  # takes .07 s, which a command without a server is spared

        is_local = httpx.URL(self.url).host in LOOPBACK  # no proxy stands before this machine
        user, _, password = (self.auth or "").partition(":")
        try:
            with httpx.Client(
                auth=(user, password) if self.auth else None,
                trust_env=not is_local,
                verify=trust() if self.url.startswith("https:") else False,  # False: no certificates are loaded
                timeout=TIMEOUT_S,
                follow_redirects=True,
            ) as client:
                while (answer := client.request(method, self.url + path, json=body)).status_code == 503 and tries > 1:
                    time.sleep(BUSY_S)
                    tries -= 1
            if answer.status_code in (401, 403):
                raise NotAdmitted(f"{self.url} does not let us in; set PREFECT_API_AUTH_STRING", answer.status_code)
            if answer.is_error:
                message = f"{answer.url} answers {answer.status_code}: {answer.text[:500]}"
                raise ApiFailed(message, answer.status_code)
            return answer.json() if answer.content else None
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ApiAway(f"no Prefect server answers at {self.url} ({error})") from error


class ServiceError(RuntimeError):
    """Root of the errors of `trivet up` and its sisters; the text is a sentence with the remedy."""


class Refused(ServiceError):
    """The service refuses a request that it cannot meet as it is, such as a port that is taken."""


class DidNotStart(ServiceError):
    """A part does not become healthy."""


class ApiFailed(ServiceError):
    """The Prefect API answered with an error; `status`: of HTTP, None where it gave none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NotAdmitted(ApiFailed, Refused):
    """The server refuses the auth string."""


class ApiAway(ApiFailed):
    """The Prefect API did not answer at all."""


def run_program(main: Callable[..., None], *words: Any) -> None:
    """Be the program `main`, which ends with the sentence of a Refused."""
    try:
        main(*words)
    except Refused as error:
        sys.exit(str(error))


class Database(Record):
    """The database of Prefect's server, and why it was chosen."""

    kind: Literal["postgresql", "sqlite"]
    kept: bool
    """A cluster of this home, which has to be kept running."""
    why: str
    """Reason of the choice, as `trivet up` and `trivet status` print it after *because*."""
    url: str = Field(default="", exclude=True, repr=False)
    """SQLAlchemy URL; neither shown nor written, since it may hold a password."""


class Service(Record):
    """The running service, as it is written to `service.json`."""

    api_url: str
    """Address of the API, such as `http://127.0.0.1:4200/api`."""
    ui_url: str
    auth_file: str
    """Holds user and password, which the UI asks for."""
    database: Database | None
    """Database of the Prefect server; None for a server elsewhere."""
    pools: tuple[str, ...]
    """Pools with a worker here."""
    folder: str
    """Folder to which relative paths of parameters refer."""


class NotConnected(RuntimeError):
    """No server is configured and none was started here, or it does not answer; says how to get one."""


def service_of(home: Path) -> Service | None:
    """Return what `trivet up` has started in this home; None where nothing should run, or another version began it."""
    try:
        return Service.model_validate_json((home / SERVICE_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):  # the last: of another version, which starts anew
        return None


def auth_of(home: Path) -> str | None:
    try:
        return (home / AUTH_FILE).read_text().strip()
    except FileNotFoundError:
        return None


def ui_of(home: Path) -> str | None:
    """Return the address of Prefect's pages: PREFECT_UI_URL, else that of the server in use; None without a server."""
    service = service_of(home)
    url = os.environ.get("PREFECT_UI_URL") or os.environ.get("PREFECT_API_URL") or (service and service.ui_url)
    return url.rstrip("/").removesuffix("/api") if url else None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises Refused if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # create_server appends the address
        raise Refused(f"{host}:{port} cannot be used ({reason}); choose another --port") from error


def connect(home: Path) -> None:
    """Point PREFECT_API_URL and its auth string to a live server, before prefect is imported. Raises NotConnected."""
    if url := os.environ.get("PREFECT_API_URL"):
        if why := why_silent(url):
            raise NotConnected(describe_silence(url, why))
        return
    service = service_of(home)
    if service is None:
        raise NotConnected("no Prefect server: start one with `trivet up`, or set PREFECT_API_URL")
    supervisor = home / "service" / "supervisord.pid"
    # one that is dead starts no server again, and nobody need wait for it
    if why := why_silent(
        service.api_url, goes_on=lambda: supervisor.exists() and bool(start_of_process(int(supervisor.read_text())))
    ):
        raise NotConnected(
            f"the server of this home does not answer at {service.api_url} ({why}); `trivet status` tells more, "
            "`trivet up` starts it again"
        )
    os.environ["PREFECT_API_URL"] = service.api_url
    if auth := auth_of(home):
        os.environ["PREFECT_API_AUTH_STRING"] = auth


def hand_back(api: Api, runs: Iterable[str], *, why: str) -> list[str]:
    """Reschedule runs that lost their process, or end their cancellation; return those accepted. Raises ApiFailed."""
    handed: list[str] = []
    for run in sorted(runs):
        state = (api.get(f"/flow_runs/{run}")["state"] or {}).get("type")
        if state == "CANCELLING":
            accepted = propose_state(api, run, {"type": "CANCELLED", "name": "Cancelled", "message": why})
        else:
            accepted = state in UNDER_WAY and await_retry(api, run, why=why, at=datetime.now(UTC))
        if accepted:
            handed.append(run)
    return handed


def await_retry(api: Api, run: str, *, why: str, at: datetime) -> bool:
    """Schedule a run again for the time `at`; return whether the server accepts that. Raises ApiFailed."""
    details = {"scheduled_time": at.isoformat()}
    state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": why, "state_details": details}
    return propose_state(api, run, state)


def propose_state(api: Api, run: str, state: Mapping[str, Any]) -> bool:
    """Propose a state of a run; return whether the server accepts it. Raises ApiFailed."""
    answer = api.post(f"/flow_runs/{run}/set_state", {"state": state, "force": False})  # the server's rules decide
    return answer["status"] == "ACCEPT"
