"""An index in LanceDB: `lancedb:///folder`, or `lancedb+s3://bucket/prefix` (credentials as AWS_… in the environment).

    chunks, postings, vectors_{dimension}, blobs: as in storage.pg_index, without a row for each of their segments
    segments     a row for each text and each vectors once all of it is there, by digest
    generations  manifests; the one of the highest number is current

A segment's number is the beginning of its digest. Tables are versioned: a reader stays at the versions that it opened,
whose files are kept for a day. A generation is one row, put in one commit. Publishers of one machine wait for each
other; on an object store there may be one at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import lancedb
from pydantic import ValidationError

from storage import lance_tables
from storage.manifest import Generation, Manifest, Pointer, name_of
from storage.records import Ref
from storage.remote_index import EngineIndex, blobs_of, segments_of
from storage.storage_errors import DamagedIndex, EngineAway, NotAnIndex

KEPT = timedelta(days=1)
"""How long the files of a version stay after it: a reader may be open for so long."""
COMPACTED_FROM = 40
"""Versions of a table since it was last compacted, from which on it is again."""


class LanceEngine:
    """The index of one LanceDB database."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        scheme, _, place = address.partition("://")
        self._uri = place if scheme == "lancedb" else f"s3://{place}"

    @cached_property
    def _database(self) -> Any:
        with self._reachable():
            return lancedb.connect(self._uri)

    @contextmanager
    def _reachable(self) -> Generator[None]:
        """Turn what LanceDB refuses into EngineAway."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise EngineAway(
                f"the index at {self._address} cannot be used: {reason}; see that the folder or bucket is reached"
            ) from error

    def claim(self) -> None:
        """Make the tables where they are missing. Raises EngineAway."""
        with self._reachable():
            there = set(self._names())
            for name, schema in lance_tables.schemas().items():
                if name not in there:
                    self._database.create_table(name, schema=schema, exist_ok=True)

    def _names(self) -> Sequence[str]:
        return self._database.list_tables().tables

    def _opened(self) -> dict[str, Any]:
        """The tables, each at the version that it has now. Raises NotAnIndex."""
        with self._reachable():
            names = self._names()
            if not set(lance_tables.schemas()) <= set(names):
                raise NotAnIndex(f"{self._address} holds no index; run `trivet rag index … --index URL`")
            return {name: self._database.open_table(name) for name in names}

    def pointer(self) -> Pointer:
        """Which generation readers open. Raises NotAnIndex, EngineAway."""
        with self._reachable():
            if "generations" not in self._names():
                raise NotAnIndex(f"{self._address} holds no index; run `trivet rag index … --index URL`")
            table = self._database.open_table("generations")
            return self._pointer(lance_tables.rows(table, columns=["number", "id", "digest"]))

    def _current(self, tables: Mapping[str, Any]) -> tuple[Pointer, Manifest]:
        with self._reachable():
            rows = lance_tables.rows(tables["generations"], columns=["number", "id", "digest", "manifest"])
        pointer = self._pointer(rows)
        data = next(row["manifest"] for row in rows if row["id"] == pointer.generation)
        try:
            return pointer, Manifest.model_validate_json(data)
        except ValidationError as error:
            raise NotAnIndex(f"{self._address} is of another version; index again with this one") from error

    def _pointer(self, rows: Sequence[Mapping[str, Any]]) -> Pointer:
        if not rows:
            raise NotAnIndex(f"{self._address} holds no finished index; run `trivet rag index … --index URL`")
        last, *before = sorted(rows, key=lambda row: -row["number"])
        previous = before[0]["id"] if before else None
        return Pointer(generation=last["id"], previous=previous, manifest=last["digest"])

    def open(self) -> EngineIndex:
        """The current generation, at versions that stay. Raises NotAnIndex, DamagedIndex, EngineAway."""
        from storage.lance_search import LanceGeneration

        tables = self._opened()
        pointer, manifest = self._current(tables)
        with self._reachable():
            for table in tables.values():
                table.checkout(table.version)
        if missing := self._missing(tables, manifest):
            if self.pointer() != pointer:  # switched twice meanwhile
                return self.open()
            raise DamagedIndex(
                f"the index at {self._address} lacks {len(missing)} of its segments; "
                "run `trivet rag index` again to put them there"
            )
        return EngineIndex(LanceGeneration(tables, pointer, manifest, self._reachable), self._folder, self._address)

    def _missing(self, tables: Mapping[str, Any], manifest: Manifest) -> set[str]:
        with self._reachable():
            there = lance_tables.rows(tables["segments"], columns=["digest"])
        return {*segments_of(manifest), *(ref.digest for ref in blobs_of(manifest))} - {row["digest"] for row in there}

    def publish(self, manifest: Manifest, path_of: Callable[[str], Path]) -> Generation:
        """Put the segments that are missing, and switch; the old generation stays where that fails."""
        data = manifest.packed()
        digest = hashlib.sha256(data).hexdigest()
        with self._alone(), self._reachable():
            tables = self._opened()
            self._put_missing(tables, manifest, path_of)
            rows = lance_tables.rows(tables["generations"], columns=["number", "id", "digest"])
            current = max(rows, key=lambda row: row["number"], default=None)
            if current is not None and current["digest"] == digest:
                return Generation(id=current["id"], digest=digest, created=False)
            number = 1 + (current["number"] if current is not None else 0)
            made = Generation(id=f"{number:06d}-{digest[:12]}", digest=digest, created=True)
            for name in ("postings", "chunks", lance_tables.vectors_name(manifest.dimension)):
                lance_tables.index(tables[name], postings=name == "postings")
            lance_tables.add(tables["generations"], number=number, id=made.id, digest=digest, manifest=data.decode())
            self._sweep(tables)
            return made

    def _put_missing(self, tables: dict[str, Any], manifest: Manifest, path_of: Callable[[str], Path]) -> None:
        missing = self._missing(tables, manifest)
        name = lance_tables.vectors_name(manifest.dimension)
        if name not in tables:
            schema = lance_tables.vectors_schema(manifest.dimension)
            tables[name] = self._database.create_table(name, schema=schema, exist_ok=True)
        put: dict[Ref, Callable[[Path, int], Sequence[tuple[str, Any]]]] = {}
        for part in manifest.parts:
            put[part.text] = lance_tables.of_text
            put[part.vectors] = lance_tables.of_vectors
        put |= dict.fromkeys(blobs_of(manifest), lance_tables.of_blob)
        for ref, read in put.items():
            if ref.digest in missing:
                number = lance_tables.number_of(ref.digest)
                for table, content in read(path_of(name_of(ref)), number):
                    tables[table].delete(f"segment = {number}")  # what a killed publisher left
                    if content.num_rows:
                        tables[table].add(content)
                lance_tables.add(tables["segments"], segment=number, digest=ref.digest)

    def _sweep(self, tables: Mapping[str, Any]) -> None:
        """Remove what neither the current nor the previous generation names; readers keep the versions they opened."""
        rows = lance_tables.rows(tables["generations"], columns=["number", "manifest"])
        kept = sorted(rows, key=lambda row: -row["number"])[:2]
        if len(rows) > len(kept):
            tables["generations"].delete(f"number < {min(row['number'] for row in kept)}")
        manifests = [Manifest.model_validate_json(row["manifest"]) for row in kept]
        named = {digest for one in manifests for digest in segments_of(one)}
        named |= {ref.digest for one in manifests for ref in blobs_of(one)}
        there = lance_tables.rows(tables["segments"], columns=["digest", "segment"])
        gone = [row["segment"] for row in there if row["digest"] not in named]
        for name, table in tables.items():
            if gone and name != "generations":
                table.delete(f"segment IN ({','.join(map(str, gone))})")
            if len(table.list_versions()) > COMPACTED_FROM:
                table.optimize(cleanup_older_than=KEPT)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Alone among publishers of this machine; the lock ends with the process."""
        if self._uri.startswith("s3://"):
            yield
            return
        with (Path(self._uri) / ".publishing").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
