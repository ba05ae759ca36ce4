"""The files of a home's service, and what `trivet up` was asked for: kept, so that the next start sees a change."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from flows.service.api import AUTH_FILE, SERVICE_FILE, Refused
from flows.service.served_collections import Folders
from storage import files
from storage.records import Record

PORT = 4200  # Prefect's default
DEFAULT_PORT = 8766
"""Port of the pages, if nobody names another."""
POOLS = ("cpu", "gpu")
LOOPBACK = "127.0.0.1"
SOCKET_PATH_BYTES = 80  # sun_path has 104 bytes on macOS, 108 on Linux
"""Longest path of a socket on every system, less the ending that the supervisor adds while it makes it."""
WORKERS_READ = re.compile(
    r"(TRIVET|PREFECT|OPENAI|ANTHROPIC|HF|HUGGING_FACE|TRANSFORMERS|VLLM|TORCH|PYTORCH|CUDA|NVIDIA|NCCL|RAY|DASK|AWS"
    r")_\w+|\w+_(KEY|TOKEN|BASE_URL|API_BASE|NUM_THREADS)|DATABASE_URL|PG[A-Z]+|PYTHONPATH"
    r"|(?i:(https?|all|no)_proxy)"
)
"""Variables that change what programs do. Others (TERM, SSH_TTY) differ between shells and cause no restart."""
NOT_COMPARED = (
    *("TRIVET_HOME", "PREFECT_HOME", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING"),  # `trivet status --shell`
    *("TRIVET_TIMEZONE", "TRIVET_NOTIFY_URL"),  # read when everything is deployed, which each `trivet up` does
)


class Place:
    """The files of one home's service."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mark = os.path.realpath(home)
        """TRIVET_SERVICE in the environment of every process of this service."""
        self.name = hashlib.sha256(os.fsencode(self.mark)).hexdigest()[:8]
        """A short name that no other home has."""
        self.folder = home / "service"
        """Folder of the service's own files, closed to other accounts."""
        self.auth = home / AUTH_FILE
        self.address = home / SERVICE_FILE
        """File that says where the server is; it exists only while the service should run."""
        self.asked = self.folder / "asked.json"
        """Options of the last `trivet up`."""
        self.pages_port = self.folder / "pages-port"
        """File with the port of the pages; the page server writes it once it listens."""
        self.config = self.folder / "supervisord.conf"
        """The supervisor's configuration file, without secrets."""
        self.control = self.folder / "control"
        """The supervisor's socket: here, or in a private folder with a short name where this path is too long."""
        if len(os.fsencode(self.control)) > SOCKET_PATH_BYTES:
            self.control = Path(tempfile.gettempdir()) / f"trivet-{os.geteuid()}-{self.name}" / "control"
        self.database = home / "server"
        """Folder of the database of Prefect's server."""
        self.pages = self.folder / "ui"
        """The server's own copy of its pages: it may not be able to write to the package's folder."""
        self.scratch = self.folder / "tmp"
        """Temporary files of the workers: Prefect's folder in /tmp belongs to the first account that has used it."""
        self.logs = home / "logs"
        """One file for each part, with its rotated predecessors."""

    def log_of(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def prepare(self) -> None:
        """Make the folders, those with secrets closed. Raises Refused, StoreUnreachable."""
        for folder in (self.home, self.logs, self.database):
            files.make_folder(folder)
        for folder in (self.folder, self.control.parent, self.pages, self.scratch):
            folder.mkdir(mode=0o700, exist_ok=True)
            facts = folder.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                raise Refused(f"{folder} belongs to somebody else; remove it, or choose another TRIVET_HOME")
            folder.chmod(0o700)

    def keep(self, file: Path, text: str) -> None:
        """Write one of the service's own files, for this account alone."""
        files.write(file, text.encode())
        file.chmod(0o600)

    def lock(self) -> AbstractContextManager[None]:
        """Return the lock of the commands that start or stop the service of a home."""
        return files.alone(self.home, "service", wait=lambda: time.sleep(0.2))


class UpOptions(NamedTuple):
    """The options of one `trivet up`."""

    pools: tuple[str, ...] | None = None
    """Pools that get a worker here; None: those of last time."""
    port: int | None = None
    workers_only: bool = False
    """Work for the server of PREFECT_API_URL."""
    collections: Mapping[str, Folders] = {}
    """Collections that the pages show; empty: those that they showed last."""


class ServiceSettings(Record, extra="ignore"):
    """The settings that the programs of a service depend on; a change of them restarts the programs."""

    port: int = PORT
    collections: dict[str, Folders] = Field(default_factory=dict[str, Folders])
    """The collections that the pages show."""
    pools: tuple[str, ...] = POOLS
    """Pools with a worker here."""
    server: str | None = None
    """API of a server elsewhere that the workers work for, `http://host:4200/api`; None: one of our own."""
    folder: str
    """Working folder of the programs, where relative parameters begin; a change alone causes no restart."""
    programs: str = Field(default_factory=lambda: f"trivet {version('trivet')}, prefect {version('prefect')}")
    variables: dict[str, str] = Field(default_factory=dict)
    """Keyed hash of each environment variable: shows a change, not the value."""
    auth: str = ""
    """A hash of the auth string, which is the key of the others."""

    @property
    def api_url(self) -> str:
        return self.server or f"http://{LOOPBACK}:{self.port}/api"

    @property
    def ui_url(self) -> str:
        return self.api_url.removesuffix("/api")

    def pages_url(self, place: Place) -> str | None:
        """Return the address of the pages; None where the server is elsewhere, or they do not listen yet."""
        is_listening = not self.server and place.pages_port.exists()
        return f"http://{LOOPBACK}:{place.pages_port.read_text()}" if is_listening else None


def settle_settings(
    options: UpOptions, before: ServiceSettings | None, environment: Mapping[str, str], *, secret: str
) -> ServiceSettings:
    """Return the settings; port, pools, collections not given stay, the last two of one server. Raises Refused.

    secret: key of the hashes by which environment variables are compared.
    """
    server = environment.get("PREFECT_API_URL", "").rstrip("/") if options.workers_only else None
    if options.workers_only:
        if not server or not server.startswith(("http://", "https://")):
            raise Refused("--workers-only needs a server to work for: set PREFECT_API_URL, as http://host:4200/api")
        server = server if server.endswith("/api") else f"{server}/api"
        if options.port is not None or options.collections:
            raise Refused("--port, --index and --documents are for a server of our own; --workers-only starts none")
        if before and not before.server and server == before.api_url:
            raise Refused(f"{server} is this home's own server; run `trivet up` without --workers-only")

    def hashed(value: str) -> str:
        return hmac.new(secret.encode(), os.fsencode(value), hashlib.sha256).hexdigest()

    compared = sorted(name for name in environment if WORKERS_READ.fullmatch(name) and name not in NOT_COMPARED)
    return ServiceSettings(
        port=options.port or (before.port if before else PORT),
        collections=dict(options.collections) or (before.collections if before and not server else {}),
        pools=options.pools or (before.pools if before and before.server == server else POOLS),
        server=server,
        folder=os.getcwd(),  # noqa: PTH109
        variables={name: hashed(environment[name]) for name in compared if environment[name]},
        auth=hashed(secret),
    )


def pools_in(option: str) -> tuple[str, ...]:
    """Return the pools that `--pools cpu,gpu` names, in their fixed order. Raises Refused."""
    names = {each.strip() for each in option.split(",")}
    if not names or names - set(POOLS):
        raise Refused(f"--pools {option}: there are {' and '.join(POOLS)}")
    return tuple(pool for pool in POOLS if pool in names)


def differences(before: ServiceSettings, now: ServiceSettings) -> list[str]:
    """Return the changed settings and variables that need a restart; no variables where the auth string changed."""
    old, new = (each.model_dump(exclude={"folder", "variables"}) for each in (before, now))
    changed = [name for name in new if old[name] != new[name]]
    if "auth" in changed:  # the key of the variables' hashes
        return changed
    names = sorted(before.variables.keys() | now.variables.keys())
    return changed + [f"the variable {name}" for name in names if before.variables.get(name) != now.variables.get(name)]


def read_last_settings(place: Place) -> ServiceSettings | None:
    """Read the settings of the last `trivet up`; None before the first, or after one of another version."""
    try:
        return ServiceSettings.model_validate_json(place.asked.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
