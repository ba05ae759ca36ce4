"""The errors of storage, as a tree.

StorageError
├── MissingArtifact      the store does not hold it (any more)
├── DamagedArtifact      its bytes are not those that were written; it has been set aside
├── StoreUnreachable     the store (disk, object store) cannot be used: full, away, forbidden
│   └── EngineAway       … the engine that keeps an index; also an IndexUnusable
├── DatabaseUnavailable  PostgreSQL cannot be started or reached
│   └── WrongPostgresVersion  the cluster was made by a major version that is not installed here
├── UnknownSession       no conversation has this id
├── UnknownRun           no evaluation has this id
├── QueryUnusable        a query of the user's is no SELECT, or names what is not there
├── BackupUnusable       a backup cannot be read, or not into this home
└── IndexUnusable        an index folder cannot be used
    ├── NotAnIndex       the folder holds something else, or nothing
    ├── WrongEmbedder    made with another embedder
    ├── DamagedIndex     a file of the version fails its checksum
    ├── NoLexicalIndex   made without BM25, which the search needs (tasks.rag.rag_errors)
    └── WrongTokenizer   made with a Korean tokenizer that is not installed here (tasks.rag.rag_errors)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def list_some(names: Iterable[object], most: int = 3, *, separator: str = ", ") -> str:
    """Join the first `most` names, and say how many more there are: `a.pdf, b.pdf, c.pdf and 7 more`."""
    listed = list(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return separator.join(map(str, listed[:most])) + more


def list_reasons(reasons: Mapping[str, str]) -> str:
    """Return three names for each of three reasons, and how many more: `a.pdf, b.pdf, c.pdf and 7 more: killed`."""
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why.rstrip("."), []).append(name)
    return list_some((f"{list_some(names)}: {why}" for why, names in by_reason.items()), separator="; ")


class StorageError(Exception):
    """Root of this layer's errors; its text is a full sentence with the remedy."""


class MissingArtifact(StorageError):
    """The store does not hold the artifact, or no longer: `trivet gc` may have removed it."""


class DamagedArtifact(StorageError):
    """The bytes are not those that were written; they have been set aside below `damaged/`."""


class StoreUnreachable(StorageError):
    """The store cannot be used: disk full, object store away, or permission denied."""


class DatabaseUnavailable(StorageError):
    """The PostgreSQL server cannot be started or reached."""


class WrongPostgresVersion(DatabaseUnavailable):
    """The cluster was made by a major version of PostgreSQL that is not installed here."""


class UnknownSession(StorageError):
    """No session has this id, or more than one begins with it."""


class UnknownRun(StorageError):
    """No run of an evaluation has this id, or more than one begins with it."""


class QueryUnusable(StorageError):
    """A query of the user's is no SELECT, or names a table or column that there is not."""


class BackupUnusable(StorageError):
    """A backup is damaged or foreign, or the home is not empty."""


class IndexUnusable(StorageError):
    """An index, in a folder or an engine, cannot be used; subclasses say why."""


class NotAnIndex(IndexUnusable):
    """The folder holds something else than an index, or the address names no engine that keeps one."""


class WrongEmbedder(IndexUnusable):
    """The index was made with another embedder than the one that would search it."""


class DamagedIndex(IndexUnusable):
    """A file of the version is missing or fails its checksum; index again to mend it."""


class EngineAway(StoreUnreachable, IndexUnusable):
    """The engine that keeps an index cannot be reached, or refuses."""
