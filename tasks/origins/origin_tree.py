"""The tree of origins that `trivet why` shows, and its part that steps recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from storage.lineage import Lineage, Origin, StepRun
from storage.records import Record

MOST_DIGESTS = 2_000
"""Most digests that are followed from the roots of a tree."""
MOST_SOURCES = 12
"""Most sources of one digest that are shown; of the others only their number."""


class OriginTree(Record):
    """Something, and what it comes from."""

    what: str
    """`answer`, `claim`, `chunks`, `score`, `model call`, `document` …"""
    name: str = ""
    """Text of the claim or page, or the name of what was made."""
    key: str = ""
    """Digest of the artifact, or the key of a stored response."""
    step: StepRun | None = None
    """The step that made it."""
    notes: tuple[str, ...] = ()
    sources: tuple[OriginTree, ...] = ()


def build_trees(
    digests: Iterable[str], lineage: Lineage, *, names: Mapping[str, str] | None = None
) -> tuple[OriginTree, ...]:
    """Return the trees of digests, as the steps recorded them. names: of documents, by digest.

    Raises StoreUnreachable, DatabaseUnavailable.
    """
    roots = tuple(dict.fromkeys(digests))
    origins = lineage.origins(roots, most=MOST_DIGESTS)
    return tuple(_tree(digest, origins, names or {}, set()) for digest in roots)


def _tree(digest: str, origins: Mapping[str, Origin], names: Mapping[str, str], visited: set[str]) -> OriginTree:
    """Return the tree of a digest. visited: digests whose sources a tree shows already; those met here are added."""
    origin = origins.get(digest) or Origin(kind="", digest=digest)
    kind, name = origin.kind or origin.name or "digest", names.get(digest, "")
    if digest in visited:  # reached a second way: its own sources are shown once
        return OriginTree(what=kind, name=name, key=digest, notes=("told above",))
    visited.add(digest)
    # the nearest sources: without what another of them was made of itself
    used = [ancestor for ancestor in origin.used if ancestor in origins]
    indirect = set[str]()
    for source in used:
        waiting = list(origins[source].used)
        while waiting:
            ancestor = waiting.pop()
            if ancestor in origins and ancestor not in indirect:
                indirect.add(ancestor)
                waiting += origins[ancestor].used
    followed = [source for source in used if source not in indirect]
    sources = [_tree(ancestor, origins, names, visited) for ancestor in followed[:MOST_SOURCES]]
    notes: list[str] = []
    if origin.collected:
        notes.append(f"collected on {origin.collected:%Y-%m-%d}")
    if origin.step is None and (origin.kind or not origin.name):
        notes.append("no step of this home is known to have made it")
    if missing := sum(ancestor not in origins for ancestor in origin.used):
        notes.append(f"{missing:,} sources are not followed: the way is too wide")
    if len(followed) > MOST_SOURCES:
        notes.append(f"and {len(followed) - MOST_SOURCES:,} more sources")
    return OriginTree(what=kind, name=name, key=digest, step=origin.step, notes=tuple(notes), sources=tuple(sources))


def format_time(moment: datetime) -> str:
    """Return a moment in local time: `2026-03-01 09:30`."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def made_by(step: StepRun) -> Sequence[str]:
    """Return what made it: `parse, version 5`, `1.4.0+6c1f2ab9`, `2026-03-01 09:30`, `run 0a1b2c3d`, `2.1 s`."""
    name, made_at = step.step.rpartition(".")[2], format_time(step.at)
    return (f"{name}, version {step.version}", step.code, made_at, f"run {step.run[:8]}", f"{step.seconds:.1f} s")
