"""What was deployed last, kept on the server: it tells an edit of the folder from an edit in the UI."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate

from tasks.keys import content_key

VARIABLE = "trivet_deployed"
"""Prefect variable of digests by name; without it the folder is right everywhere."""
DIGITS = 12
"""Digits kept of a digest: a Prefect variable holds 5,000 characters."""


class Memory:
    """Digests of what was deployed last, and what this deploy has done."""

    def __init__(self, deployed: dict[str, str]) -> None:
        self.deployed = dict(deployed)
        self.changed: list[str] = []
        self.kept: list[str] = []

    def made(self, name: str, **parts: Any) -> None:
        """Note something that was not there before, with its parts as the folder has them."""
        self.changed.append(f"{name}: made")
        for part, ours in parts.items():
            self.deployed[f"{name} {part}"] = _digest(ours)

    def differs(self, name: str, part: str, *, ours: Any, theirs: Any) -> bool:
        """Whether `part` is to be written: the folder was edited since the last deploy, and the server was not.

        ours: what the folder says. theirs: what the server has.
        """
        key = f"{name} {part}"
        last, now = self.deployed.get(key), _digest(ours)
        if now == _digest(theirs):
            self.deployed[key] = now
            return False
        if last is not None and last != _digest(theirs):  # somebody set it in the UI
            self.kept.append(f"{name}: {part}")
            return False
        self.deployed[key] = now
        self.changed.append(f"{name}: {part}")
        return True


@contextmanager
def recalled(client: SyncPrefectClient) -> Generator[Memory]:
    """The memory of the server; what happened meanwhile is kept there at the end."""
    found = client.read_variable_by_name(VARIABLE)
    before: Any = found.value if found and isinstance(found.value, dict) else {}
    memory = Memory(before)
    yield memory
    told: Any = memory.deployed
    if found is None:
        client.create_variable(VariableCreate(name=VARIABLE, value=told, tags=["trivet"]))
    elif told != before:
        client.update_variable(VariableUpdate(name=VARIABLE, value=told))


def _digest(value: Any) -> str:
    return content_key("deployed", 1, {"value": value})[:DIGITS]
