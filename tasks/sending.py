"""A step that is to be done on a pool: what a process that waits for it tells the one that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sent:
    """A step on its way to a pool."""

    step: str
    """Module and name, `tasks.rag.steps.embed`."""
    key: str
    """Its cache key: a child that is under way for another parent is waited for, not started twice."""
    inputs: Mapping[str, Any]
    name: str
    """What the UI calls the child."""


Send = Callable[[Sent, str], Any]
"""(step, deployment) → what the step returns on the pool of that deployment; raises what it raises there."""
