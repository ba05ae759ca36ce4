"""Removing what nothing needs any more: records that serve no run, then objects that neither keys nor records name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from storage import files
from storage.artifacts import RESULTS, Artifact, Artifacts, Results
from storage.embeddings import EmbeddingCache
from storage.records import Record
from storage.storage_errors import DamagedArtifact, MissingArtifact

DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")  # no part of a longer hex number
"""A digest wherever it stands: a result of Prefect holds its JSON as an escaped string."""
LEFTOVER = timedelta(hours=1)  # no write takes as long as this: an unfinished file this old belongs to a killed process


class Removal(Record):
    """A file that nothing needs any more."""

    name: str
    """`{kind}/{digest}`, `results/{key}`, or the path of a leftover file below the store."""
    size: int
    """Size of the file in bytes."""


class Cleanup(Record):
    """The counts and names of what `trivet gc` removed, or would remove."""

    dry_run: bool
    removed: tuple[Removal, ...]
    removed_bytes: int
    kept: int
    """Number of objects that stay."""
    kept_bytes: int
    kept_results: int
    """Number of step records that stay."""
    removed_vectors: int
    """Rows of the embedding cache that no run has used for as long as results are kept."""


def collect(
    store: Artifacts,
    results: Results,
    *,
    older_than: timedelta,
    unused_for: timedelta,
    now: datetime,
    dry_run: bool,
    embeddings: EmbeddingCache,
) -> Cleanup:
    """Remove records that serve no run, then objects that no key and no record refers to, and leftovers.

    older_than: younger objects stay, because a run may have made them that has not noted them yet.
    unused_for: records and cached vectors that were used within this time stay. dry_run: remove nothing, only list.
    """
    listed = list(store.objects())  # before the marks: what is put from now on is neither listed nor removed
    old = [record for record in results.records() if record.modified < now - unused_for]
    removed = [
        Removal(name=f"{RESULTS}/{record.name}", size=record.size)
        for record in old
        if dry_run or results.remove(record.name, before=now - unused_for)
    ]
    removed_names = {removal.name.removeprefix(f"{RESULTS}/") for removal in removed}
    staying = [record.name for record in results.records() if record.name not in removed_names]
    marked = _mark(store, listed, results, staying)
    staying_objects: list[Artifact] = []
    for artifact in listed:
        dead = artifact.ref.digest not in marked and artifact.modified < now - older_than
        if dead and (dry_run or store.remove(artifact.ref, before=now - older_than)):
            removed.append(Removal(name=f"{artifact.ref.kind}/{artifact.ref.digest}", size=artifact.ref.size))
        else:
            staying_objects.append(artifact)
    roots = [store.root]
    if results.folder and not results.folder.is_relative_to(store.root):
        roots.append(results.folder)
    for root in roots:
        removed += _remove_leftovers(root, older_than=older_than, now=now, dry_run=dry_run)
    return Cleanup(
        dry_run=dry_run,
        removed=tuple(removed),
        removed_bytes=sum(removal.size for removal in removed),
        kept=len(staying_objects),
        kept_bytes=sum(artifact.ref.size for artifact in staying_objects),
        kept_results=len(staying),
        removed_vectors=embeddings.prune(older_than_days=unused_for.days, dry_run=dry_run),
    )


def _mark(store: Artifacts, listed: Iterable[Artifact], results: Results, staying: Iterable[str]) -> set[str]:
    """Return the digests that keys, the records `staying`, and the JSON objects that they lead to refer to."""
    by_digest = {artifact.ref.digest: artifact.ref for artifact in listed}
    marked: set[str] = set()
    fresh = {ref.digest for _, ref in store.notes()}
    for name in staying:
        fresh |= {digest.decode() for digest in DIGEST.findall(results.read(name) or b"")}
    while fresh:
        marked |= fresh
        named_here: set[str] = set()
        for digest in fresh & by_digest.keys():
            with suppress(MissingArtifact, DamagedArtifact):
                if store.starts_with(by_digest[digest], (b"{", b"[")):  # vectors and images are not read
                    named_here |= {name.decode() for name in DIGEST.findall(store.get(by_digest[digest]))}
        fresh = named_here - marked
    return marked


def _remove_leftovers(root: Path, *, older_than: timedelta, now: datetime, dry_run: bool) -> Iterator[Removal]:
    """Remove (not in a `dry_run`) and yield unfinished files past LEFTOVER and damaged objects past `older_than`."""
    unfinished = ((path, LEFTOVER) for path in root.rglob(f"{files.TEMPORARY}*"))
    damaged = ((path, older_than) for path in (root / "damaged").glob("*"))
    for path, grace in [*unfinished, *damaged]:
        with suppress(FileNotFoundError), files.reachable(root):
            status = path.stat()
            if status.st_mtime < (now - grace).timestamp():
                size = sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else status.st_size
                if not dry_run:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                yield Removal(name=path.relative_to(root).as_posix(), size=size)
