"""The digests that a step used and made, item by item, from its inputs and its result."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, JsonValue, TypeAdapter

from storage.lineage import EVERY, Edge
from storage.records import Ref, leaves_in

DIGEST = re.compile(r"[0-9a-f]{64}")
RUN = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Id of a run, which a step that writes one to the database gives."""
MOST_SOURCES = 50_000
"""Digests that a step may have used for one item and are kept one by one; more are kept as one digest of all."""
MOST_CHARS = 2_000
"""Largest number of characters of a text parameter that is kept whole."""
NOTHING: Any = object()
"""Stands for a value of which nothing is left without its digests."""
_plain = TypeAdapter[Any](Any)


class NamedDigest(NamedTuple):
    """A digest with the kind of its artifact and the field that held it."""

    kind: str
    """Kind of the artifact; empty where it names none."""
    digest: str
    name: str
    """The field or input that held it: `content`, `checksum`."""


def digests_in(value: Any, name: str = "") -> Iterator[NamedDigest]:
    """Yield every digest inside a value, in reading order: of Refs, and plain strings. name: what holds the value."""
    for field, leaf in leaves_in(value, name):
        if isinstance(leaf, Ref):
            yield NamedDigest(leaf.kind, leaf.digest, field)
        elif len(leaf) == 64 and DIGEST.fullmatch(leaf):  # the length first: texts of documents are long
            yield NamedDigest("", leaf, field)


def items_of(value: Any) -> Iterator[Any]:
    """Yield the items of an input or result: elements of nested sequences and of a record of one field; else itself."""
    if isinstance(value, list | tuple):
        for element in cast(Sequence[Any], value):
            yield from items_of(element)
    elif isinstance(value, BaseModel) and len(value.__dict__) == 1 and not isinstance(value, Ref):
        yield from items_of(next(iter(value.__dict__.values())))
    else:
        yield value


def edges_of(inputs: Mapping[str, Any], result: Any, *, reads_world: bool = False) -> list[Edge]:
    """Return the digests that a step used, and those of its result that no input had; none at all without the latter.

    reads_world: the step only looked at the world; what it names without keeping it was made by others.

    An item of the result was made of the items of the inputs that begin with the same digest, a document say, and of
    inputs that are no sequence; where none begins so, of all inputs. A result that is the ID of a run counts as made.
    """
    by_first: dict[str, list[NamedDigest]] = {}
    common: list[NamedDigest] = []
    for name, value in inputs.items():
        parts = [list(digests_in(item, name)) for item in items_of(value)]
        for digests in parts if len(parts) > 1 else ():
            if digests:
                by_first.setdefault(digests[0].digest, []).extend(digests)  # shards begin with their document
        if len(parts) == 1:
            common += parts[0]
    inputs_seen = {digest.digest for digests in (common, *by_first.values()) for digest in digests}
    edges = dict[Edge, None]()
    for number, item in enumerate(items_of(result)):
        digests = list(digests_in(item))
        outputs = [
            digest for digest in digests if digest.digest not in inputs_seen and (digest.kind or not reads_world)
        ]
        item_sources = by_first.get(digests[0].digest) if digests else None
        edge_item = EVERY if item_sources is None else number
        edges |= dict.fromkeys(Edge(edge_item, True, *digest) for digest in outputs)
        if outputs and item_sources:
            edges |= dict.fromkeys(_sources(edge_item, item_sources))
        elif outputs:
            edges |= dict.fromkeys(_sources(EVERY, [digest for digests in by_first.values() for digest in digests]))
    if isinstance(result, str) and RUN.fullmatch(result):
        sources = [digest for digests in by_first.values() for digest in digests]
        edges |= dict.fromkeys([Edge(EVERY, True, "run", result, ""), *_sources(EVERY, sources)])
    if edges:
        edges |= dict.fromkeys(_sources(EVERY, common))
    return list(edges)


def _sources(item: int, digests: Sequence[NamedDigest]) -> list[Edge]:
    """Return the edges to what an item was made of: one for all of them beyond MOST_SOURCES."""
    if len(digests) <= MOST_SOURCES:
        return [Edge(item, False, *digest) for digest in digests]
    combined = hashlib.sha256("\n".join(sorted({digest.digest for digest in digests})).encode()).hexdigest()
    return [Edge(item, False, "", combined, f"{len(digests):,} sources, kept as one")]


def parameters_of(inputs: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the inputs as JSON, without digests and lists that hold any; a long text by its length and digest."""
    parameters: dict[str, JsonValue] = {}
    for name, value in inputs.items():
        if isinstance(value, list | tuple) and next(digests_in(value), None) is not None:
            continue  # documents, shards, samples: edges tell of them
        plain = _without_digests(_plain.dump_python(value, mode="json"))
        if plain is not NOTHING:
            parameters[name] = plain
    return parameters


def _without_digests(value: Any) -> Any:
    """Return a JSON value without digests, Refs and lists of any, long texts shortened; NOTHING if none is left."""
    if isinstance(value, str):
        if len(value) > MOST_CHARS:
            digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            return f"({len(value):,} characters, {digest[:12]})"
        return NOTHING if DIGEST.fullmatch(value) else value
    if isinstance(value, list):
        rest = [_without_digests(element) for element in cast(list[Any], value)]
        return NOTHING if any(element is NOTHING for element in rest) else rest
    if isinstance(value, dict):
        if set(value) == {"kind", "digest", "size"}:  # a Ref
            return NOTHING
        cleaned = {name: _without_digests(element) for name, element in cast(dict[str, Any], value).items()}
        rest = {name: element for name, element in cleaned.items() if element is not NOTHING}
        return rest if rest or not value else NOTHING
    return value
