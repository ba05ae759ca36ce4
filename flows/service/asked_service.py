"""What `trivet up` is asked for, what it was asked for before, and whether that differs."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from flows.running.environment import AUTHORITY
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
        AUTHORITY,
    ),  # `trivet env` prints them
    *("TRIVET_TIMEZONE", "TRIVET_NOTIFY_URL"),  # read when everything is deployed, which each `trivet up` does
)


class Wanted(NamedTuple):
    """The options of one `trivet up`."""

    pools: tuple[str, ...] = POOLS
    """Pools that get a worker here."""
    port: int | None = None
    listen: str | None = None
    """Address of this machine at which others reach the server; None: loopback alone."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files of the user's; None: the home makes its own."""
    server: str | None = None
    workers_only: bool = False
    collections: Mapping[str, Folders] = {}
    """What the pages show; empty: what they showed last."""


class Tls(Record):
    """The certificate of a server."""

    certificate: str
    key: str
    pin: str
    """SHA-256 of the certificate."""


class Asked(Record):
    """What the programs of a service depend on; kept, so that the next start is the same and a change is seen."""

    port: int = PORT
    host: str = LOOPBACK
    """Where the server and the pages listen."""
    collections: dict[str, Folders] = Field(default_factory=dict[str, Folders])
    """What the pages show."""
    tls: Tls | None = None
    """None: it listens on loopback, without TLS."""
    authority: str | None = None
    """PEM file of what clients of the server trust."""
    pools: tuple[str, ...] = POOLS
    """Pools with a worker here."""
    server: str | None = None
    """API of a server elsewhere that is joined, `http://host:4200/api`; None: one of our own."""
    workers_only: bool = False
    """Deploy nothing."""
    folder: str
    """Working folder of the programs, where relative parameters begin; a change alone causes no restart."""
    programs: str = Field(default_factory=lambda: f"trivet {version('trivet')}, prefect {version('prefect')}")
    variables: dict[str, str] = Field(default_factory=dict)
    """Keyed hash of each environment variable: shows a change, not the value."""
    auth: str = ""
    """A hash of the auth string, which is the key of the others."""

    @property
    def api_url(self) -> str:
        return self.server or f"{self._at(self.port)}/api"

    def pages_url(self, place: Place) -> str | None:
        """Where the pages are; None: where the server is, or they do not listen yet."""
        here = not self.server and place.pages_port.exists()
        return self._at(int(place.pages_port.read_text())) if here else None

    def _at(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{port}"

    @property
    def ui_url(self) -> str:
        return self.api_url.removesuffix("/api")


def settle(
    wanted: Wanted, before: Asked | None, environment: Mapping[str, str], *, secret: str, tls: Tls | None = None
) -> Asked:
    """What to run; a port that is not given stays as it was. `secret`: key of the hashes. Raises Refused."""
    server = wanted.server or (environment.get("PREFECT_API_URL") if wanted.workers_only else None)
    if wanted.workers_only and not server:
        raise Refused("--workers-only needs a server to work for: say --server URL, or set PREFECT_API_URL")
    if server and (wanted.port is not None or wanted.listen):
        raise Refused(
            "--port and --listen are for a server of our own, and this home works for one that is there "
            f"({server}); say one of them, or `trivet join --leave`"
        )
    if server and wanted.collections:
        raise Refused("--index and --documents are for the pages of a server of our own; start those with `trivet ui`")
    if server and before and not before.server and _api_of(server) == before.api_url:
        raise Refused(f"{server} is this home's own server, and has its workers; run `trivet up` without --server")
    compared = sorted(name for name in environment if WORKERS_READ.fullmatch(name) and name not in NOT_COMPARED)
    return Asked(
        port=wanted.port or (before.port if before else PORT),
        host=wanted.listen or LOOPBACK,
        collections=dict(wanted.collections) or (before.collections if before and not server else {}),
        tls=tls,
        authority=environment.get(AUTHORITY) if server or tls else None,
        pools=wanted.pools,
        server=_api_of(server) if server else None,
        workers_only=wanted.workers_only,
        folder=os.getcwd(),  # noqa: PTH109
        variables={name: _hash(environment[name], secret) for name in compared if environment[name]},
        auth=_hash(secret, secret),
    )


def pools_in(named: str, *, no_gpu: bool) -> tuple[str, ...]:
    """The pools of `cpu,gpu`. Raises Refused."""
    pools = tuple(pool for pool in POOLS if pool in [each.strip() for each in named.split(",")])
    if not pools or {each.strip() for each in named.split(",")} - set(POOLS):
        raise Refused(f"--pools {named}: there are {' and '.join(POOLS)}")
    if no_gpu:
        pools = tuple(pool for pool in pools if pool != "gpu")
    if not pools:
        raise Refused("--no-gpu leaves no pool of --pools gpu; say one of them")
    return pools


def address_in(listen: str | None, port: int | None) -> tuple[str | None, int | None]:
    """Host and port of `ADDRESS[:PORT]`. Raises Refused."""
    if listen is None:
        return None, port
    bare = listen.count(":") > 1 and "[" not in listen  # an IPv6 address
    try:
        parsed = urlsplit(f"//[{listen}]" if bare else f"//{listen}")
        host, named, more = parsed.hostname, parsed.port, parsed.path
    except ValueError:
        host, named, more = None, None, ""
    if not host or host in ("0.0.0.0", "::") or more:
        raise Refused(f"--listen {listen}: name the address that other machines reach: 10.0.0.1 or 10.0.0.1:4200")
    if named and port and named != port:
        raise Refused(f"--listen {listen} and --port {port} name two ports; say one of them")
    return host, named or port


def _api_of(server: str) -> str:
    url = server.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise Refused(f"--server {server} is no address; it looks like http://host:4200/api")
    return url if url.endswith("/api") else f"{url}/api"


def _hash(value: str, secret: str) -> str:
    return hmac.new(secret.encode(), os.fsencode(value), hashlib.sha256).hexdigest()


def differences(before: Asked, now: Asked) -> list[str]:
    """Changes, in words, that need a restart of the programs."""
    told: list[str] = []
    if before.server != now.server:
        told.append(f"server: {now.server or 'one of our own'} in place of {before.server or 'one of our own'}")
    elif before.port != now.port and not now.server:
        told.append(f"port: {now.port} in place of {before.port}")
    if before.host != now.host:
        told.append(f"address: {now.host} in place of {before.host}")
    elif (before.tls, before.authority) != (now.tls, now.authority):
        told.append("the certificate")
    for pool in POOLS:
        if (pool in before.pools) != (pool in now.pools):
            told.append(f"{'a' if pool in now.pools else 'no'} worker for the pool {pool}")
    if before.collections != now.collections:
        told.append("the collections of the pages")
    if before.programs != now.programs:
        told.append(f"{now.programs} in place of {before.programs}")
    if before.auth != now.auth:
        return [*told, "the auth string"]
    names = sorted(before.variables.keys() | now.variables.keys())
    told += [f"the variable {name}" for name in names if before.variables.get(name) != now.variables.get(name)]
    return told


def remembered(place: Place) -> Asked | None:
    """What the last `trivet up` was asked for; None before the first, or after one of another version."""
    try:
        return Asked.model_validate_json(place.asked.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
