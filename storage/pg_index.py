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
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pydantic import ValidationError

from storage.connections import engine
from storage.generations import Generation, Manifest, Pointer, name_of
from storage.records import Ref
from storage.remote_index import EngineIndex, Owners, blobs_of, segments_of
from storage.storage_errors import DamagedIndex, EngineAway, NotAnIndex

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

SCHEMA = "trivet_index"
"""Where the tables lie if the address names no schema."""
TABLES = """
CREATE TABLE IF NOT EXISTS generations (
    number bigint PRIMARY KEY, id text NOT NULL, digest text NOT NULL, manifest text NOT NULL);
CREATE TABLE IF NOT EXISTS current (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL REFERENCES generations, previous bigint REFERENCES generations);
CREATE TABLE IF NOT EXISTS segments (
    segment bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL UNIQUE,
    documents text[] NOT NULL, rows integer[] NOT NULL);
CREATE TABLE IF NOT EXISTS chunks (
    segment bigint REFERENCES segments ON DELETE CASCADE, row integer, chunk bytea NOT NULL,
    PRIMARY KEY (segment, row));
CREATE TABLE IF NOT EXISTS postings (
    term bigint, segment bigint REFERENCES segments ON DELETE CASCADE, held integer NOT NULL,
    rows bytea NOT NULL, frequencies bytea NOT NULL, lengths bytea NOT NULL,
    PRIMARY KEY (term, segment));
CREATE INDEX IF NOT EXISTS postings_of_segment ON postings (segment);
CREATE TABLE IF NOT EXISTS vectors (
    segment bigint REFERENCES segments ON DELETE CASCADE, row integer, list integer NOT NULL,
    vector halfvec NOT NULL, PRIMARY KEY (segment, row));
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE PLAIN;
CREATE INDEX IF NOT EXISTS vectors_of_list ON vectors (list, segment);
CREATE TABLE IF NOT EXISTS blobs (digest text PRIMARY KEY, data bytea NOT NULL);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;
"""
ROW = "SELECT g.id, p.id, g.digest, g.manifest, g.number FROM current c JOIN generations g USING (number)"
THERE = "SELECT count(*) FROM generations WHERE number = %s"
CURRENT = f"{ROW} LEFT JOIN generations p ON p.number = c.previous"


class PostgresEngine:
    """The index of one schema of a database."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        parts = urlsplit(address)
        given = dict(parse_qsl(parts.query))
        self.schema = given.pop("schema", SCHEMA)
        if not self.schema.isidentifier():
            raise NotAnIndex(f"{address}: a schema is named by letters, digits and _, not {self.schema!r}")
        given["options"] = f"-csearch_path={self.schema},public"
        query = urlencode(given, quote_via=quote)
        self.url = f"postgresql://{parts.netloc}{parts.path}?{query}"

    @contextmanager
    def cursor(self) -> Generator[Cursor[Any]]:
        """A cursor in a transaction, committed at the end. Raises EngineAway, NotAnIndex."""
        import psycopg
        from sqlalchemy.exc import DBAPIError

        try:
            with engine(self.url).begin() as connection:
                driver: Connection[Any] = connection.connection.driver_connection  # pyright: ignore[reportAssignmentType]
                with driver.cursor(binary=True) as cursor:
                    yield cursor
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise NotAnIndex(f"{self._address} holds no index; run `trivet rag index … --index URL`") from error
        except (psycopg.Error, DBAPIError) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> EngineAway:
        """What is wrong with the server, in a sentence without a password."""
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        what = "see that the server runs, and that the address and PGPASSWORD are right"
        return EngineAway(f"the index at {self._address} cannot be used: {reason}; {what}")

    def claim(self) -> None:
        """Make the tables where they are missing. Raises EngineAway."""
        with self.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"claim {self.schema}"])
            if cursor.execute("SELECT to_regclass('vectors_of_list')").fetchone() != (None,):
                return
            cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
            if cursor.fetchone() == (0,):
                raise EngineAway(f"{self._address}: this PostgreSQL has no pgvector; install it on the server")
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            cursor.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'.encode())
            cursor.execute(TABLES.encode(), binary=False)

    def pointer(self) -> Pointer:
        """Which generation readers open. Raises NotAnIndex, EngineAway."""
        return self._current()[0]

    def _current(self) -> tuple[Pointer, str, int]:
        """Which generation is current, its manifest and its number."""
        with self.cursor() as cursor:
            found = cursor.execute(CURRENT.encode()).fetchone()
        if found is None:
            raise NotAnIndex(f"{self._address} holds no finished index; run `trivet rag index … --index URL`")
        name, previous, digest, manifest, number = found
        return Pointer(generation=name, previous=previous, manifest=digest), manifest, number

    def open(self) -> EngineIndex:
        """The current generation, pinned. Raises NotAnIndex, DamagedIndex, EngineAway."""
        from storage.pg_search import PostgresGeneration

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
            kept = PostgresGeneration(self, pointer, manifest, segments=self._segments(manifest), close=pin.close)
            return EngineIndex(kept, self._folder, self._address)

    def _segments(self, manifest: Manifest) -> dict[str, int]:
        """Numbers of the segments of a generation, by digest."""
        digests = segments_of(manifest)
        with self.cursor() as cursor:
            found = cursor.execute("SELECT digest, segment FROM segments WHERE digest = ANY(%s)", [digests]).fetchall()
        if missing := set(digests) - {digest for digest, _ in found}:
            lacks = f"lacks {len(missing)} of its segments"
            raise DamagedIndex(f"the index at {self._address} {lacks}; run `trivet rag index` again to put them there")
        return dict(found)

    def _pin(self, number: int) -> Connection[Any] | None:
        """A connection that keeps a generation from being removed; None if it is gone."""
        import psycopg

        try:
            pin = psycopg.connect(self.url, autocommit=True, connect_timeout=10)
            locked = pin.execute("SELECT pg_try_advisory_lock_shared(hashtext(%s), %s::int)", [self.schema, number])
            if locked.fetchone() == (True,) and pin.execute(THERE, [number]).fetchone() == (1,):
                return pin
            pin.close()
        except psycopg.Error as error:
            raise self.unreachable(error) from error
        return None

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Alone among publishers of the schema; the lock ends with the connection."""
        import psycopg

        try:
            lock = psycopg.connect(self.url, autocommit=True, connect_timeout=10)
            lock.execute("SELECT pg_advisory_lock(hashtext(%s))", [f"publish {self.schema}"])
        except psycopg.Error as error:
            raise self.unreachable(error) from error
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

        with self.cursor() as cursor:
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
                with self.cursor() as cursor:
                    into(cursor, path_of(name_of(ref)))

    def _switch(self, data: str, digest: str, manifest: Manifest) -> Generation:
        self._segments(manifest)
        with self.cursor() as cursor:
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
            free = cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s), %s::int)", [self.schema, number])
            if free.fetchone() == (True,):
                cursor.execute("DELETE FROM generations WHERE number = %s", [number])
        kept = [Manifest.model_validate_json(data) for (data,) in cursor.execute("SELECT manifest FROM generations")]
        named = {digest for manifest in kept for digest in segments_of(manifest)}
        cursor.execute("DELETE FROM segments WHERE digest <> ALL(%s)", [sorted(named)])
        whole = {ref.digest for manifest in kept for ref in blobs_of(manifest)}
        cursor.execute("DELETE FROM blobs WHERE digest <> ALL(%s)", [sorted(whole)])

    def owners(self, segments: Sequence[int]) -> list[Owners]:
        """The documents of the rows of each segment."""
        with self.cursor() as cursor:
            found = cursor.execute("SELECT segment, documents, rows FROM segments WHERE segment = ANY(%s)", [segments])
            of = {segment: Owners(documents, rows) for segment, documents, rows in found}
        return [of[segment] for segment in segments]
