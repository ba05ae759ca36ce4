"""An index in PostgreSQL with pgvector: `postgresql://user@host:5432/database?schema=NAME`.

    segments     a row for each segment's text and vectors, by digest, with the documents of its rows
    chunks       (segment, row) → the chunk as JSON
    postings     (term, segment) → rows, how often the term stands in each, and how long each is
    vectors      (segment, row) → a halfvec, and the list of the centre that it is nearest to
    blobs        files that are read whole: catalogue, numbers, centres
    generations  manifests; `current` says which one readers open

A segment is put in a transaction of its own, and only once: it is named by its content. A publisher holds an advisory
lock of the schema, a reader a shared one of its generation; both end with their connection. What neither the current
nor the previous generation names, nor one that is read, is removed by the next publisher.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from storage.manifest import Generation, Manifest, Pointer, name_of
from storage.pg_search import PostgresGeneration
from storage.pg_tables import PostgresTables
from storage.records import Ref
from storage.remote_index import EngineIndex, blobs_of, segments_of
from storage.storage_errors import DamagedIndex, NotAnIndex

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

ROW = "SELECT g.id, p.id, g.digest, g.manifest, g.number FROM current c JOIN generations g USING (number)"
THERE = "SELECT count(*) FROM generations WHERE number = %s"
CURRENT = f"{ROW} LEFT JOIN generations p ON p.number = c.previous"


class PostgresEngine:
    """The index of one schema of a database."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self.tables = PostgresTables(address)

    def claim(self) -> None:
        """Make the tables where they are missing. Raises EngineAway."""
        self.tables.claim()

    def pointer(self) -> Pointer:
        """Which generation readers open. Raises NotAnIndex, EngineAway."""
        return self._current()[0]

    def _current(self) -> tuple[Pointer, str, int]:
        """Which generation is current, its manifest and its number."""
        with self.tables.cursor() as cursor:
            found = cursor.execute(CURRENT.encode()).fetchone()
        if found is None:
            raise NotAnIndex(f"{self._address} holds no finished index; run `trivet rag index … --index URL`")
        name, previous, digest, manifest, number = found
        return Pointer(generation=name, previous=previous, manifest=digest), manifest, number

    def open(self) -> EngineIndex:
        """The current generation, pinned. Raises NotAnIndex, DamagedIndex, EngineAway."""
        while True:
            pointer, data, number = self._current()
            pin = self._pin(number)
            if pin is None:
                continue  # switched, and being removed at this moment
            try:
                manifest = Manifest.model_validate_json(data)
            except ValidationError as error:
                pin.close()
                raise NotAnIndex(f"{self._address} is of another version; index again with this one") from error
            kept = PostgresGeneration(
                self.tables, pointer, manifest, segments=self._segments(manifest), close=pin.close
            )
            return EngineIndex(kept, self._folder, self._address)

    def _segments(self, manifest: Manifest) -> dict[str, int]:
        """Numbers of the segments of a generation, by digest."""
        digests = segments_of(manifest)
        with self.tables.cursor() as cursor:
            found = cursor.execute("SELECT digest, segment FROM segments WHERE digest = ANY(%s)", [digests]).fetchall()
        if missing := set(digests) - {digest for digest, _ in found}:
            lacks = f"lacks {len(missing)} of its segments"
            raise DamagedIndex(f"the index at {self._address} {lacks}; run `trivet rag index` again to put them there")
        return dict(found)

    def _pin(self, number: int) -> Connection[Any] | None:
        """A connection that keeps a generation from being removed; None if it is gone."""
        import psycopg

        try:
            pin = psycopg.connect(self.tables.url, autocommit=True, connect_timeout=10)
            locked = pin.execute(
                "SELECT pg_try_advisory_lock_shared(hashtext(%s), %s::int)", [self.tables.schema, number]
            )
            if locked.fetchone() == (True,) and pin.execute(THERE, [number]).fetchone() == (1,):
                return pin
            pin.close()
        except psycopg.Error as error:
            raise self.tables.unreachable(error) from error
        return None

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Alone among publishers of the schema; the lock ends with the connection."""
        import psycopg

        try:
            lock = psycopg.connect(self.tables.url, autocommit=True, connect_timeout=10)
            lock.execute("SELECT pg_advisory_lock(hashtext(%s))", [f"publish {self.tables.schema}"])
        except psycopg.Error as error:
            raise self.tables.unreachable(error) from error
        with lock:
            yield

    def publish(self, manifest: Manifest, path_of: Callable[[str], Path]) -> Generation:
        """Put the segments that are missing, and switch; the old generation stays where that fails."""
        data = manifest.packed()
        digest = hashlib.sha256(data).hexdigest()
        with self._alone():
            self._put_missing(manifest, path_of)
            return self._switch(data.decode(), digest, manifest)

    def _put_missing(self, manifest: Manifest, path_of: Callable[[str], Path]) -> None:
        from storage import pg_copying

        with self.tables.cursor() as cursor:
            there = {digest for (digest,) in cursor.execute("SELECT digest FROM segments").fetchall()}
            there |= {digest for (digest,) in cursor.execute("SELECT digest FROM blobs").fetchall()}
        put: dict[Ref, Callable[[Cursor[Any], Path], None]] = {}
        for part in manifest.parts:
            put[part.text] = partial(pg_copying.put_text, digest=part.text.digest)
            put[part.vectors] = partial(pg_copying.put_vectors, digest=part.vectors.digest)
        for ref in blobs_of(manifest):
            put[ref] = partial(pg_copying.put_blob, digest=ref.digest)
        for ref, into in put.items():
            if ref.digest not in there:
                with self.tables.cursor() as cursor:
                    into(cursor, path_of(name_of(ref)))

    def _switch(self, data: str, digest: str, manifest: Manifest) -> Generation:
        self._segments(manifest)
        with self.tables.cursor() as cursor:
            cursor.execute("ANALYZE segments, chunks, postings, vectors")  # else plans are those of empty tables
            before = cursor.execute(CURRENT.encode()).fetchone()
            if before is not None and before[2] == digest:
                self._sweep(cursor)
                return Generation(id=before[0], digest=digest, created=False)
            [number] = cursor.execute("SELECT coalesce(max(number), 0) + 1 FROM generations").fetchone() or (1,)
            name = f"{number:06d}-{digest[:12]}"
            cursor.execute("INSERT INTO generations VALUES (%s, %s, %s, %s)", [number, name, digest, data])
            cursor.execute(
                "INSERT INTO current (number, previous) VALUES (%s, %s) "
                "ON CONFLICT (one) DO UPDATE SET number = excluded.number, previous = excluded.previous",
                [number, before and before[4]],
            )
            self._sweep(cursor)
        return Generation(id=name, digest=digest, created=True)

    def _sweep(self, cursor: Cursor[Any]) -> None:
        """Remove generations that nobody keeps or reads, and what no generation names any more."""
        old = cursor.execute(
            "SELECT number FROM generations WHERE NOT EXISTS "
            "(SELECT FROM current c WHERE generations.number IN (c.number, c.previous))"
        ).fetchall()
        for (number,) in old:
            free = cursor.execute(
                "SELECT pg_try_advisory_xact_lock(hashtext(%s), %s::int)", [self.tables.schema, number]
            )
            if free.fetchone() == (True,):
                cursor.execute("DELETE FROM generations WHERE number = %s", [number])
        kept = [Manifest.model_validate_json(data) for (data,) in cursor.execute("SELECT manifest FROM generations")]
        named = {digest for manifest in kept for digest in segments_of(manifest)}
        cursor.execute("DELETE FROM segments WHERE digest <> ALL(%s)", [sorted(named)])
        whole = {ref.digest for manifest in kept for ref in blobs_of(manifest)}
        cursor.execute("DELETE FROM blobs WHERE digest <> ALL(%s)", [sorted(whole)])
