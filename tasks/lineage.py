"""What a step used and made: the digests in its inputs and in its result, item by item."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, JsonValue, TypeAdapter

from storage.lineage import EVERY, Edge
from storage.records import Ref

DIGEST = re.compile(r"[0-9a-f]{64}")
RUN = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Id of a run, which a step that writes one to the database gives."""
MOST_SOURCES = 50_000
"""Digests that a step may have used for one item and are kept one by one; more are kept as one digest of all."""
MOST_CHARS = 2_000
"""Of a text that is kept whole."""
_plain = TypeAdapter[Any](Any)


class NamedDigest(NamedTuple):
    """A digest, and what it is of."""

    kind: str
    """Kind of the artifact; empty where it names none."""
    digest: str
    name: str
    """The field or input that held it: `content`, `checksum`."""


def digests_in(value: Any, name: str = "") -> Iterator[NamedDigest]:
    """Every digest inside a value, in reading order: of Refs, and plain strings. name: what holds the value."""
    waiting: list[tuple[str, Any]] = [(name, value)]
    while waiting:
        held_by, each = waiting.pop()
        if isinstance(each, Ref):
            yield NamedDigest(each.kind, each.digest, held_by)
        elif isinstance(each, str):
            if len(each) == 64 and DIGEST.fullmatch(each):
                yield NamedDigest("", each, held_by)
        elif isinstance(each, BaseModel):
            waiting.extend(reversed(tuple(each.__dict__.items())))
        elif isinstance(each, dict):
            waiting.extend((held_by, one) for one in reversed(cast(dict[Any, Any], each).values()))
        elif isinstance(each, list | tuple):
            waiting.extend((held_by, one) for one in reversed(cast(Sequence[Any], each)))


def items_of(value: Any) -> Iterator[Any]:
    """What a step works through: the elements of sequences, of sequences of them, and of a record that is only one."""
    if isinstance(value, list | tuple):
        for each in cast(Sequence[Any], value):
            yield from items_of(each)
    elif isinstance(value, BaseModel) and len(value.__dict__) == 1 and not isinstance(value, Ref):
        yield from items_of(next(iter(value.__dict__.values())))
    else:
        yield value


def edges_of(inputs: Mapping[str, Any], result: Any, *, found: bool = False) -> list[Edge]:
    """The digests that a step used, and those of its result that were not among its inputs.

    found: the step only looked at the world; what it names without keeping it was made by others.

    An item of the result was made of the items of the inputs that begin with the same digest, a document say, and of
    inputs that are no sequence; where none begins so, of all inputs.
    """
    by_first: dict[str, list[NamedDigest]] = {}
    common: list[NamedDigest] = []
    for name, value in inputs.items():
        parts = [list(digests_in(item, name)) for item in items_of(value)]
        for digests in parts if len(parts) > 1 else ():
            if digests:
                by_first.setdefault(digests[0].digest, []).extend(digests)
        if len(parts) == 1:
            common += parts[0]
    inputs_seen = {one.digest for one in common} | {one.digest for digests in by_first.values() for one in digests}
    edges = dict[Edge, None]()
    for number, item in enumerate(items_of(result)):
        digests = list(digests_in(item))
        outputs = [one for one in digests if one.digest not in inputs_seen and (one.kind or not found)]
        own = by_first.get(digests[0].digest) if digests else None
        at = EVERY if own is None else number
        edges |= dict.fromkeys(Edge(at, True, *one) for one in outputs)
        if outputs and own:
            edges |= dict.fromkeys(_sources(at, own))
        elif outputs:
            edges |= dict.fromkeys(_sources(EVERY, [one for digests in by_first.values() for one in digests]))
    if isinstance(result, str) and RUN.fullmatch(result):
        sources = [one for digests in by_first.values() for one in digests]
        edges |= dict.fromkeys([Edge(EVERY, True, "run", result, ""), *_sources(EVERY, sources)])
    if edges:
        edges |= dict.fromkeys(_sources(EVERY, common))
    return list(edges)


def _sources(item: int, digests: Sequence[NamedDigest]) -> list[Edge]:
    if len(digests) <= MOST_SOURCES:
        return [Edge(item, False, *one) for one in digests]
    together = hashlib.sha256("\n".join(sorted({one.digest for one in digests})).encode()).hexdigest()
    return [Edge(item, False, "", together, f"{len(digests):,} sources, kept as one")]


def parameters_of(inputs: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The inputs as JSON, without digests and without lists of what has any; a long text by its length and digest."""
    parameters: dict[str, JsonValue] = {}
    for name, value in inputs.items():
        if isinstance(value, list | tuple) and next(digests_in(value), None) is not None:
            continue  # documents, shards, samples: edges tell of them
        plain = _without_digests(_plain.dump_python(value, mode="json"))
        if plain is not NOTHING:
            parameters[name] = plain
    return parameters


NOTHING: Any = object()


def _without_digests(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) > MOST_CHARS:
            digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            return f"({len(value):,} characters, {digest[:12]})"
        return NOTHING if DIGEST.fullmatch(value) else value
    if isinstance(value, list):
        kept = [_without_digests(one) for one in cast(list[Any], value)]
        return NOTHING if any(one is NOTHING for one in kept) else kept
    if isinstance(value, dict):
        if set(value) == {"kind", "digest", "size"}:  # a Ref
            return NOTHING
        inside = {name: _without_digests(one) for name, one in cast(dict[str, Any], value).items()}
        kept = {name: one for name, one in inside.items() if one is not NOTHING}
        return kept if kept or not value else NOTHING
    return value
