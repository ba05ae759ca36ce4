"""Small frozen values that steps, stores and files exchange; each survives a round trip through JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A frozen value; an unknown field is an error, so that a file of another version is not half read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FiniteRecord(Record):
    """A record that refuses NaN and infinity, for which neither JSON nor jsonb has a word."""

    model_config = ConfigDict(allow_inf_nan=False)


class Ref(Record):
    """The name of an artifact, made of its content; steps hand it on instead of the content."""

    kind: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    """Folder of the store, for people who look: `document`, `parsed`, `figures`, `chunks` …"""
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the content, hex."""
    size: int = Field(ge=0)
    """Size of the content in bytes."""

    @classmethod
    def of(cls, kind: str, data: bytes) -> Self:
        """Return the name of these bytes, whether or not they are kept anywhere."""
        return cls(kind=kind, digest=hashlib.sha256(data).hexdigest(), size=len(data))


def refs_in(value: Any) -> Iterator[Ref]:
    """Yield every Ref inside a value, in order: in models, dicts, lists and tuples, however deep; others hold none."""
    waiting: list[Any] = [value]  # no recursion: a run looks through tens of thousands of values
    while waiting:
        element = waiting.pop()
        if isinstance(element, Ref):
            yield element
        elif isinstance(element, BaseModel):
            waiting.extend(reversed(tuple(element.__dict__.values())))
        elif isinstance(element, dict):
            waiting.extend(reversed(cast(dict[Any, Any], element).values()))
        elif isinstance(element, list | tuple):
            waiting.extend(reversed(cast(list[Any], element)))
