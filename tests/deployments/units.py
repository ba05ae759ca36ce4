"""The systemd units of `deployments/`, as systemd reads them."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from flows.service.deploy import find_deployments_folder

FOLDER = find_deployments_folder() / "systemd"


class Unit(NamedTuple):
    """What a unit runs."""

    command: list[str]
    environment: dict[str, str]
    unset: list[str]
    """Variables that its process does not get, whoever sets them."""
    text: str


def unit(name: str) -> Unit:
    """`unit("server")` is trivet-server.service."""
    text = (FOLDER / f"trivet-{name}.service").read_text()
    lines = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
    said = {key: [value for other, _, value in lines if other == key] for key, _, _ in lines}
    words = [word.partition("=") for value in said.get("Environment", []) for word in shlex.split(value)]
    [command] = said["ExecStart"]
    return Unit(
        command=shlex.split(command),
        environment={key: value for key, _, value in words},
        unset=[word for value in said.get("UnsetEnvironment", []) for word in value.split()],
        text=text,
    )
