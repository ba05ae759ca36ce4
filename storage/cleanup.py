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

DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""A digest wherever it stands: a result of Prefect holds its JSON as an escaped string."""
LEFTOVER = timedelta(hours=1)  # no write takes as long as this: an unfinished file this old belongs to a killed process


class Removal(Record):
    """Something that nothing needs."""

    name: str
    """`{kind}/{digest}`, `results/{key}`, or the path of a leftover file below the store."""
    size: int
    """Bytes."""


class Cleanup(Record):
    """What `trivet gc` removed, or would remove."""

    dry_run: bool
    removed: tuple[Removal, ...]
    removed_bytes: int
    kept: int
    """Objects that stay."""
    kept_bytes: int
    kept_results: int
    """Records of steps that stay."""
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
    unused_for: records that were written or have served since stay, and so do cached embeddings.
    """
    listed = list(store.objects())  # before the marks: what is put from now on is neither listed nor removed
    old = [each for each in results.listed() if each.modified < now - unused_for]
    removed = [
        Removal(name=f"{RESULTS}/{each.name}", size=each.size)
        for each in old
        if dry_run or results.remove(each.name, before=now - unused_for)
    ]
    gone = {each.name.removeprefix(f"{RESULTS}/") for each in removed}
    staying = [each.name for each in results.listed() if each.name not in gone]
    marked = _mark(store, listed, results, staying)
    kept: list[Artifact] = []
    for each in listed:
        dead = each.ref.digest not in marked and each.modified < now - older_than
        if dead and (dry_run or store.remove(each.ref, before=now - older_than)):
            removed.append(Removal(name=f"{each.ref.kind}/{each.ref.digest}", size=each.ref.size))
        else:
            kept.append(each)
    roots = [store.root]
    if results.folder and not results.folder.is_relative_to(store.root):
        roots.append(results.folder)
    for root in roots:
        removed += _remove_leftovers(root, older_than=older_than, now=now, dry_run=dry_run)
    return Cleanup(
        dry_run=dry_run,
        removed=tuple(removed),
        removed_bytes=sum(each.size for each in removed),
        kept=len(kept),
        kept_bytes=sum(each.ref.size for each in kept),
        kept_results=len(staying),
        removed_vectors=embeddings.prune(older_than_days=unused_for.days, dry_run=dry_run),
    )


def _mark(store: Artifacts, listed: Iterable[Artifact], results: Results, staying: Iterable[str]) -> set[str]:
    """The digests that are referred to."""
    by_digest = {each.ref.digest: each.ref for each in listed}
    marked: set[str] = set()
    fresh = {ref.digest for _, ref in store.notes()}
    for name in staying:
        fresh |= _digests(results.read(name) or b"")
    while fresh:
        marked |= fresh
        found: set[str] = set()
        for digest in fresh & by_digest.keys():
            with suppress(MissingArtifact, DamagedArtifact):
                if store.starts_with(by_digest[digest], (b"{", b"[")):  # vectors and images are not read
                    found |= _digests(store.get(by_digest[digest]))
        fresh = found - marked
    return marked


def _digests(data: bytes) -> set[str]:
    return {found.decode() for found in DIGEST.findall(data)}


def _remove_leftovers(root: Path, *, older_than: timedelta, now: datetime, dry_run: bool) -> Iterator[Removal]:
    """Unfinished files of killed processes, and damaged objects that nobody looked into for `older_than`."""
    unfinished = ((path, LEFTOVER) for path in root.rglob(f"{files.TEMPORARY}*"))
    damaged = ((path, older_than) for path in (root / "damaged").glob("*"))
    for path, grace in [*unfinished, *damaged]:
        with suppress(FileNotFoundError), files.reachable(root):
            facts = path.stat()
            if facts.st_mtime < (now - grace).timestamp():
                size = sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else facts.st_size
                if not dry_run:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                yield Removal(name=path.relative_to(root).as_posix(), size=size)
