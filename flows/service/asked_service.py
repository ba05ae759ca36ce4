"""What `trivet up` is asked for, what it was asked for before, and whether that differs."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import NamedTuple

from pydantic import Field, ValidationError

from flows.service.api import Refused
from flows.service.place import Place
from flows.service.served_collections import Folders
from storage.records import Record

PORT = 4200  # Prefect's default
POOLS = ("cpu", "gpu")
LOOPBACK = "127.0.0.1"
WORKERS_READ = re.compile(
    r"(TRIVET|PREFECT|OPENAI|ANTHROPIC|HF|HUGGING_FACE|TRANSFORMERS|VLLM|TORCH|PYTORCH|CUDA|NVIDIA|NCCL|RAY|DASK|AWS"
    r")_\w+|\w+_(KEY|TOKEN|BASE_URL|API_BASE|NUM_THREADS)|DATABASE_URL|PG[A-Z]+|PYTHONPATH"
    r"|(?i:(https?|all|no)_proxy)"
)
"""Variables that change what programs do. Others (TERM, SSH_TTY) differ between shells and cause no restart."""
NOT_COMPARED = (
    *(
        "TRIVET_HOME",
        "PREFECT_HOME",
        "PREFECT_API_URL",
        "PREFECT_API_AUTH_STRING",
    ),  # `trivet status --shell` prints them
    *("TRIVET_TIMEZONE", "TRIVET_NOTIFY_URL"),  # read when everything is deployed, which each `trivet up` does
)


class Wanted(NamedTuple):
    """The options of one `trivet up`."""

    pools: tuple[str, ...] = POOLS
    """Pools that get a worker here."""
    port: int | None = None
    workers_only: bool = False
    """Work for the server of PREFECT_API_URL."""
    collections: Mapping[str, Folders] = {}
    """What the pages show; empty: what they showed last."""


class Asked(Record, extra="ignore"):
    """What the programs of a service depend on; kept, so that the next start is the same and a change is seen."""

    port: int = PORT
    collections: dict[str, Folders] = Field(default_factory=dict[str, Folders])
    """What the pages show."""
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
        """Where the pages are; None: where the server is, or they do not listen yet."""
        here = not self.server and place.pages_port.exists()
        return f"http://{LOOPBACK}:{place.pages_port.read_text()}" if here else None


def settle(wanted: Wanted, before: Asked | None, environment: Mapping[str, str], *, secret: str) -> Asked:
    """What to run; a port that is not given stays as it was. `secret`: key of the hashes. Raises Refused."""
    server = environment.get("PREFECT_API_URL", "").rstrip("/") if wanted.workers_only else None
    if wanted.workers_only:
        if not server or not server.startswith(("http://", "https://")):
            raise Refused("--workers-only needs a server to work for: set PREFECT_API_URL, as http://host:4200/api")
        server = server if server.endswith("/api") else f"{server}/api"
        if wanted.port is not None or wanted.collections:
            raise Refused("--port, --index and --documents are for a server of our own; --workers-only starts none")
        if before and not before.server and server == before.api_url:
            raise Refused(f"{server} is this home's own server; run `trivet up` without --workers-only")

    def hashed(value: str) -> str:
        return hmac.new(secret.encode(), os.fsencode(value), hashlib.sha256).hexdigest()

    compared = sorted(name for name in environment if WORKERS_READ.fullmatch(name) and name not in NOT_COMPARED)
    return Asked(
        port=wanted.port or (before.port if before else PORT),
        collections=dict(wanted.collections) or (before.collections if before and not server else {}),
        pools=wanted.pools,
        server=server,
        folder=os.getcwd(),  # noqa: PTH109
        variables={name: hashed(environment[name]) for name in compared if environment[name]},
        auth=hashed(secret),
    )


def pools_in(named: str) -> tuple[str, ...]:
    """The pools of `cpu,gpu`. Raises Refused."""
    names = {each.strip() for each in named.split(",")}
    if not names or names - set(POOLS):
        raise Refused(f"--pools {named}: there are {' and '.join(POOLS)}")
    return tuple(pool for pool in POOLS if pool in names)


def differences(before: Asked, now: Asked) -> list[str]:
    """Changes, in words, that need a restart of the programs."""
    changed: list[str] = []
    if before.server != now.server:
        changed.append(f"server: {now.server or 'one of our own'} in place of {before.server or 'one of our own'}")
    elif before.port != now.port and not now.server:
        changed.append(f"port: {now.port} in place of {before.port}")
    for pool in POOLS:
        if (pool in before.pools) != (pool in now.pools):
            changed.append(f"{'a' if pool in now.pools else 'no'} worker for the pool {pool}")
    if before.collections != now.collections:
        changed.append("the collections of the pages")
    if before.programs != now.programs:
        changed.append(f"{now.programs} in place of {before.programs}")
    if before.auth != now.auth:
        return [*changed, "the auth string"]
    names = sorted(before.variables.keys() | now.variables.keys())
    return changed + [f"the variable {name}" for name in names if before.variables.get(name) != now.variables.get(name)]


def remembered(place: Place) -> Asked | None:
    """What the last `trivet up` was asked for; None before the first, or after one of another version."""
    try:
        return Asked.model_validate_json(place.asked.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
