"""The folder `deployments/` as values: prefect.yaml, pools/*.json, limits.yaml, automations.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from prefect.utilities.templating import apply_values
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from storage.records import Record

R = TypeVar("R", bound=Record)

_mapping = TypeAdapter(dict[str, Any])


class FolderUnusable(ValueError):
    """A file of the folder is missing, or is not what it should be; names the file and the place."""


class Schedule(Record):
    """When a deployment runs by itself."""

    slug: str
    """Identifies the schedule on the server."""
    cron: str
    timezone: str = ""
    """IANA name; empty: the one that the deployment has, at first UTC."""
    active: bool = True
    """Initial state; afterwards the UI decides."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class Limit(Record):
    """Most concurrent runs of a deployment, and what happens to one more."""

    limit: int
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"] = "ENQUEUE"


class Place(Record):
    """The pool that runs a deployment."""

    name: str
    work_queue_name: str = "default"
    job_variables: dict[str, JsonValue] = Field(default_factory=dict)


class Deployment(Record):
    """One entry of prefect.yaml."""

    name: str
    entrypoint: str
    """Dotted: `flows.rag.build_index`."""
    description: str
    tags: tuple[str, ...] = ()
    work_pool: Place
    concurrency_limit: Limit | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    schedules: tuple[Schedule, ...] = ()


class PoolLimit(Record):
    """Flow runs under way at once."""

    concurrency_limit: int
    queues: dict[str, int] = Field(default_factory=dict)


class Limits(Record):
    """limits.yaml."""

    pools: dict[str, PoolLimit]
    slots: dict[str, int]
    """Global concurrency limits."""


class Folder(Record):
    """Everything that is deployed."""

    deployments: tuple[Deployment, ...]
    pools: dict[str, dict[str, JsonValue]]
    """Base job templates by pool."""
    limits: Limits
    automations: tuple[dict[str, JsonValue], ...]
    notify_url: str
    """Webhook that is called on failures; empty: none."""


def read_folder(folder: Path) -> Folder:
    """The folder, with `{{ $NAME }}` filled in from the environment. Raises FolderUnusable."""
    written = apply_values(_read(folder / "prefect.yaml"), {})
    automations = _read(folder / "automations.yaml")
    return Folder(
        deployments=tuple(_valid(Deployment, one, folder / "prefect.yaml") for one in written["deployments"]),
        pools={file.stem: _read(file) for file in sorted((folder / "pools").glob("*.json"))},
        limits=_valid(Limits, _read(folder / "limits.yaml"), folder / "limits.yaml"),
        automations=tuple(automations["automations"]),
        notify_url=apply_values(str(automations.get("notify_url", "")), {}),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
        return _mapping.validate_python(json.loads(text) if file.suffix == ".json" else yaml.safe_load(text))
    except FileNotFoundError as error:
        raise FolderUnusable(f"{file} is missing: a folder of deployments holds it") from error
    except (ValueError, yaml.YAMLError) as error:
        raise FolderUnusable(f"{file}: {error}") from error


def _valid(kind: type[R], value: object, file: Path) -> R:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise FolderUnusable(f"{file}: {place}: {first['msg']} (it is {first['input']!r})") from error
