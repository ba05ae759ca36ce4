"""What a step used and made, and what a digest was made of."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pydantic import JsonValue

from storage.records import Record

EVERY = -1
"""Item of an edge that holds for all items of its step."""


class StepRun(Record):
    """A step that ran: its cache key, version, code, parameters and time."""

    key: str
    """Its cache key."""
    step: str
    """`tasks.rag.steps.parse`."""
    version: int
    run: str
    """Id of the flow run that it ran for first."""
    code: str
    """Version of the program, and its commit where it has one."""
    at: datetime
    seconds: float
    parameters: dict[str, JsonValue]
    """Inputs without digests."""


class Named(NamedTuple):
    """A digest, and what it is of."""

    kind: str
    """Kind of the artifact; empty where it names none."""
    digest: str
    name: str
    """The field or input that held it: `content`, `checksum`."""


class Edge(NamedTuple):
    """A digest that a step used or made, for one of its items or, where `item` is EVERY, for all."""

    item: int
    made: bool
    kind: str
    """Kind of the artifact; empty where the digest names none: it is of an index, of the items of a data set."""
    digest: str
    name: str
    """The field or input that held it: `content`, `checksum`."""


class Ran(NamedTuple):
    """A step, and what it used and made."""

    step: StepRun
    edges: tuple[Edge, ...]


class Origin(Record):
    """A digest, and what it was made of."""

    kind: str
    digest: str
    name: str = ""
    step: StepRun | None = None
    """None: no step of this home is known to have made it."""
    item: int = EVERY
    used: tuple[str, ...] = ()
    """Digests."""
    collected: datetime | None = None
    """When `trivet gc` removed it, if it did."""
