"""What steps, stores and files exchange: small frozen values that survive a round trip through JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A frozen value; an unknown field is an error, so that a file of another version is not half read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Ref(Record):
    """Names an artifact by its content; what steps hand on instead of the content."""

    kind: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    """Folder of the store, for people who look: `document`, `parsed`, `figures`, `chunks` …"""
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the content, hex."""
    size: int = Field(ge=0)
    """Bytes."""


def refs_in(value: Any) -> Iterator[Ref]:
    """Every Ref inside a value."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from refs_in(getattr(value, name))
    elif isinstance(value, dict):
        yield from refs_in(list(cast(dict[Any, Any], value).values()))
    elif isinstance(value, list | tuple):
        for item in cast(list[Any], value):
            yield from refs_in(item)
