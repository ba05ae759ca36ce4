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


def leaves_in(value: Any, name: str = "") -> Iterator[tuple[str, Ref | str]]:
    """Yield every Ref and text inside a value, in order, with the model's field (or else `name`) that it stands in.

    They are looked for in models, values of dicts, lists and tuples, however deep; other values hold none.
    """
    waiting: list[tuple[str, Any]] = [(name, value)]  # no recursion: a run looks through tens of thousands of values
    while waiting:
        field, element = waiting.pop()
        if isinstance(element, Ref | str):
            yield field, element
        elif isinstance(element, BaseModel):
            waiting.extend(reversed(tuple(element.__dict__.items())))
        elif isinstance(element, dict | list | tuple):
            inner = cast("dict[Any, Any] | list[Any]", element)
            waiting.extend((field, each) for each in reversed(inner.values() if isinstance(inner, dict) else inner))


def refs_in(value: Any) -> Iterator[Ref]:
    """Yield every Ref inside a value, in order."""
    return (leaf for _, leaf in leaves_in(value) if isinstance(leaf, Ref))
