"""An index in PostgreSQL with pgvector: `postgresql://user@host:5432/database?schema=NAME`.

    blobs        the files of segments but their vectors, and the centres, by digest
    segments     a number for the vectors of each segment, by digest
    vectors      (segment, row) → a halfvec, and the list of the centre that it is nearest to
    generations  manifests; `current` says which one readers open

The server ranks vectors, and filters before it ranks. Files are fetched when they are needed, into the folder that
stands for the address, and mapped there as those of an index folder are.

A segment is put in a transaction of its own, and only once: it is named by its content. A publisher holds an advisory
lock of the schema, a reader a shared one of its version; both end with their connection. What neither the current
nor the previous version names, nor one that is read, is removed by the next publisher.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from storage import files
from storage.arrays import map_arrays
from storage.connections import engine
from storage.index import FILES, Generation, Index, Manifest, Pointer, has_content, name_of
from storage.records import Ref
from storage.storage_errors import DamagedIndex, EngineAway, NotAnIndex
from storage.vectors import NOTHING, Centres, Nearest, require_dimension

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

SCHEMA = "trivet_index"
"""Schema of the tables if the address names none."""
# PLAIN keeps a vector in its row, where the default would move a long one out (TOAST); EXTERNAL does not compress
TABLES = """
CREATE TABLE IF NOT EXISTS generations (
    number bigint PRIMARY KEY, id text NOT NULL, digest text NOT NULL, manifest text NOT NULL);
CREATE TABLE IF NOT EXISTS current (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL REFERENCES generations, previous bigint REFERENCES generations);
CREATE TABLE IF NOT EXISTS segments (
    segment bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS vectors (
    segment bigint REFERENCES segments ON DELETE CASCADE, row integer, list integer NOT NULL,
    vector halfvec NOT NULL, PRIMARY KEY (segment, row));
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE PLAIN;
CREATE INDEX IF NOT EXISTS vectors_of_list ON vectors (list, segment);
CREATE TABLE IF NOT EXISTS blobs (digest text PRIMARY KEY, data bytea NOT NULL);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;
"""
CURRENT = """
SELECT g.id, p.id, g.digest, g.manifest, g.number FROM current c JOIN generations g USING (number)
LEFT JOIN generations p ON p.number = c.previous
"""

MORE = 32
"""Candidates besides the `k` that are wanted: they are found with the query in half precision, and ordered without."""
SEARCHED = "unnest(%(segments)s::bigint[], %(allowed)s::int4multirange[]) WITH ORDINALITY AS s(segment, allowed, at)"
NEAREST = """
SELECT at, row, -(vector::vector <#> %(query)s::vector) AS score FROM (
    SELECT s.at, v.row, v.vector FROM {source}
    ORDER BY v.vector <#> %(query)s::vector::halfvec, s.at, v.row LIMIT %(candidates)s) AS candidate
ORDER BY score DESC, at, row LIMIT %(k)s
"""
EVERYWHERE = NEAREST.format(source=f"{SEARCHED} JOIN vectors v USING (segment)")
NEARBY = NEAREST.format(
    source=f"{SEARCHED} JOIN vectors v ON v.segment = s.segment AND v.list = ANY(%(lists)s::integer[])"
)
# OFFSET 0 keeps the planner from reading all vectors and joining the ranges to them
AMONG = NEAREST.format(
    source=f"{SEARCHED} CROSS JOIN LATERAL unnest(s.allowed) AS span CROSS JOIN LATERAL (SELECT row, vector "
    "FROM vectors WHERE segment = s.segment AND row >= lower(span) AND row < upper(span) OFFSET 0) AS v"
)
RECONSTRUCTED = """
SELECT halfvec_send(v.vector)
FROM unnest(%s::bigint[], %s::integer[]) WITH ORDINALITY AS r(segment, row, at) JOIN vectors v USING (segment, row)
ORDER BY r.at
"""
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # signature, flags, length of an extension (manual, COPY)
COPY_TRAILER = b"\xff\xff"


class PostgresEngine:
    """The index that one schema of a PostgreSQL database holds."""

    def __init__(self, address: str, folder: Path) -> None:
        """folder: stands for `address` (storage.engines); holds fetched files. Raises NotAnIndex for a wrong schema."""
        self.address, self.folder = address, folder
        parts = urlsplit(address)
        parameters = dict(parse_qsl(parts.query))
        self.schema = parameters.pop("schema", SCHEMA)
        if not self.schema.isidentifier():
            raise NotAnIndex(f"{address}: a schema is named by letters, digits and _, not {self.schema!r}")
        parameters["options"] = f"-csearch_path={self.schema},public"
        query = urlencode(parameters, quote_via=quote)  # %20, since libpq takes a plus for a plus
        self.url = f"postgresql://{parts.netloc}{parts.path}?{query}"

    def claim(self) -> None:
        """Make schema, tables and the extension pgvector where they are missing. Raises EngineAway."""
        with self.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"claim {self.schema}"])
            # all tables are made in one transaction, so one name stands for them
            if cursor.execute("SELECT to_regclass('vectors_of_list')").fetchone() != (None,):
                return
            cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
            if cursor.fetchone() == (0,):
                raise EngineAway(f"{self.address}: this PostgreSQL has no pgvector; install it on the server")
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            cursor.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'.encode())
            cursor.execute(TABLES.encode(), binary=False)  # binary results allow one statement a time

    def pointer(self) -> Pointer:
        """Read which index version readers open. Raises NotAnIndex, EngineAway."""
        return self._current()[0]

    def open(self) -> PostgresIndex:
        """Open the current version and pin it. Raises NotAnIndex, DamagedIndex, EngineAway."""
        while True:
            pointer, data, number = self._current()
            pin = self._pin(number)
            if pin is None:
                continue  # switched, and being removed at this moment
            try:
                manifest = Manifest.model_validate_json(data)
                return PostgresIndex(self, pointer, manifest, segments=self._segments(manifest), unpin=pin.close)
            except ValidationError as error:
                pin.close()
                raise NotAnIndex(f"{self.address} is of another version; index again with this one") from error
            except DamagedIndex:
                pin.close()
                raise

    def publish(self, manifest: Manifest, path_of: Callable[[str], Path]) -> Generation:
        """Store a manifest's missing files and make it current, unless equal content is. Raises EngineAway.

        path_of: where the file of a name in the manifest lies.
        """
        data = manifest.pack()
        digest = hashlib.sha256(data).hexdigest()
        with self._sole_publisher():
            with self.cursor() as cursor:
                present = set(cursor.execute("SELECT digest FROM segments UNION SELECT digest FROM blobs").fetchall())
            for ref in manifest.refs:
                if (ref.digest,) not in present:
                    path = path_of(name_of(ref))
                    with self.cursor() as cursor:
                        if ref.kind == "segment-vectors":
                            _put_vectors(cursor, path, ref.digest)
                        else:
                            cursor.execute("INSERT INTO blobs VALUES (%s, %s)", [ref.digest, path.read_bytes()])
            self._segments(manifest)  # all are there
            with self.cursor() as cursor:
                cursor.execute("ANALYZE segments, vectors")  # else plans are those of empty tables
                before = cursor.execute(CURRENT.encode()).fetchone()
                if before is not None and before[2] == digest:
                    self._sweep(cursor)
                    return Generation(id=before[0], digest=digest, created=False)
                [number] = cursor.execute("SELECT coalesce(max(number), 0) + 1 FROM generations").fetchone() or (1,)
                name = f"{number:06d}-{digest[:12]}"
                row = [number, name, digest, data.decode()]
                cursor.execute("INSERT INTO generations VALUES (%s, %s, %s, %s)", row)
                cursor.execute(
                    "INSERT INTO current (number, previous) VALUES (%s, %s) "
                    "ON CONFLICT (one) DO UPDATE SET number = excluded.number, previous = excluded.previous",
                    [number, before and before[4]],
                )
                self._sweep(cursor)
            return Generation(id=name, digest=digest, created=True)

    def blob(self, digest: str) -> bytes | None:
        """Return the content of the file with this digest; None where the database has none. Raises EngineAway."""
        with self.cursor() as cursor:
            row = cursor.execute("SELECT data FROM blobs WHERE digest = %s", [digest]).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def cursor(self) -> Generator[Cursor[Any]]:
        """Yield a cursor in a transaction, committed at the end. Raises EngineAway, NotAnIndex."""
        import psycopg
        from sqlalchemy.exc import DBAPIError

        try:
            with engine(self.url).begin() as connection:
                driver: Connection[Any] = connection.connection.driver_connection  # pyright: ignore[reportAssignmentType]
                with driver.cursor(binary=True) as cursor:
                    yield cursor
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise NotAnIndex(f"{self.address} holds no index; run `trivet rag index … --index URL`") from error
        except (psycopg.Error, DBAPIError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> EngineAway:
        """Return an error that names what is wrong with the server, without a password."""
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        remedy = "see that the server runs, and that the address and PGPASSWORD are right"
        return EngineAway(f"the index at {self.address} cannot be used: {reason}; {remedy}")

    def _current(self) -> tuple[Pointer, str, int]:
        """Return the current version's pointer, its manifest as JSON and its number. Raises NotAnIndex without one."""
        with self.cursor() as cursor:
            row = cursor.execute(CURRENT.encode()).fetchone()
        if row is None:
            raise NotAnIndex(f"{self.address} holds no finished index; run `trivet rag index … --index URL`")
        name, previous, digest, manifest, number = row
        return Pointer(generation=name, previous=previous, manifest=digest), manifest, number

    def _segments(self, manifest: Manifest) -> list[int]:
        """Return the numbers of a version's segments. Raises DamagedIndex where one, or a file, is missing."""
        digests = {ref.digest for ref in manifest.refs}
        with self.cursor() as cursor:
            query = "SELECT digest, segment FROM segments WHERE digest = ANY(%s)"
            numbers = dict(cursor.execute(query, [sorted(digests)]).fetchall())
            query = "SELECT digest FROM blobs WHERE digest = ANY(%s)"
            blobs = {digest for (digest,) in cursor.execute(query, [sorted(digests)])}
        if missing := digests - numbers.keys() - blobs:
            lacks = f"lacks {len(missing)} files of its segments"
            raise DamagedIndex(f"the index at {self.address} {lacks}; run `trivet rag index` again to put them there")
        return [numbers[part.vectors.digest] for part in manifest.parts]

    def _connect(self) -> Connection[Any]:
        """Return a connection of its own, whose end frees the locks that it holds. Raises psycopg.Error."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True, connect_timeout=10)

    def _pin(self, number: int) -> Connection[Any] | None:
        """Return a connection that keeps a version from being removed; None if it is gone. Raises EngineAway."""
        import psycopg

        try:
            pin = self._connect()
            lock = "SELECT pg_try_advisory_lock_shared(hashtext(%s), %s::int)"
            locked = pin.execute(lock, [self.schema, number]).fetchone() == (True,)
            rows = pin.execute("SELECT count(*) FROM generations WHERE number = %s", [number])
            if locked and rows.fetchone() == (1,):
                return pin
            pin.close()
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        return None

    @contextmanager
    def _sole_publisher(self) -> Generator[None]:
        """Wait for the lock of the schema's publishers; hold it until block or connection ends. Raises EngineAway."""
        import psycopg

        try:
            lock = self._connect()
            lock.execute("SELECT pg_advisory_lock(hashtext(%s))", [f"publish {self.schema}"])
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        with lock:
            yield

    def _sweep(self, cursor: Cursor[Any]) -> None:
        """Remove versions that nobody keeps or reads, and what no version names any more."""
        old = cursor.execute(
            "SELECT number FROM generations WHERE NOT EXISTS "
            "(SELECT FROM current c WHERE generations.number IN (c.number, c.previous))"
        ).fetchall()
        for (number,) in old:
            lock = "SELECT pg_try_advisory_xact_lock(hashtext(%s), %s::int)"
            if cursor.execute(lock, [self.schema, number]).fetchone() == (True,):
                cursor.execute("DELETE FROM generations WHERE number = %s", [number])
        rows = cursor.execute("SELECT manifest FROM generations")
        manifests = [Manifest.model_validate_json(data) for (data,) in rows]
        digests = sorted({ref.digest for manifest in manifests for ref in manifest.refs})
        cursor.execute("DELETE FROM segments WHERE digest <> ALL(%s)", [digests])
        cursor.execute("DELETE FROM blobs WHERE digest <> ALL(%s)", [digests])


class PostgresIndex(Index):
    """An open index version whose files and vectors are in PostgreSQL."""

    def __init__(
        self,
        engine: PostgresEngine,
        pointer: Pointer,
        manifest: Manifest,
        *,
        segments: Sequence[int],
        unpin: Callable[[], None],
    ) -> None:
        """segments: numbers of the parts' vectors in the database. unpin: lets the version be removed."""
        self._engine, self._segments, self._unpin = engine, segments, unpin
        self._folder = engine.folder
        self.generation, self.digest, self.manifest = pointer.generation, pointer.manifest, manifest
        self._checking, self._sound = Lock(), {name_of(part.vectors) for part in manifest.parts}
        self._sweep()

    @cached_property
    def vectors(self) -> PostgresVectors:
        """Search by vectors, ranked by the server."""
        return PostgresVectors(self._engine, self.manifest, self._segments, self.centres)

    def _check_file(self, ref: Ref) -> None:
        """Fetch a file of the version unless it was fetched whole. Raises DamagedIndex."""
        path = self._folder / name_of(ref)
        if not has_content(path, ref):
            data = self._engine.blob(ref.digest)
            if data is None or hashlib.sha256(data).hexdigest() != ref.digest:
                damage = f"{'lacks' if data is None else 'has another'} {ref.kind}"
                where = f"version {self.generation} at {self._engine.address}"
                raise DamagedIndex(f"{where} {damage}; run `trivet rag index` again to replace it")
            files.write(path, data, durable=False)

    def _sweep(self) -> None:
        """Remove fetched files of other versions; a reader that still needs one fetches it again."""
        folder = self._folder / FILES
        for path in folder.iterdir() if folder.is_dir() else ():
            if f"{FILES}/{path.name}" not in self.manifest.files:
                path.unlink(missing_ok=True)


class PostgresVectors:
    """Dense search by pgvector, exact; in the lists of the nearest centres where the index has centres.

    A filter is a flag per row here, and an int4multirange for each segment there.
    """

    def __init__(
        self, engine: PostgresEngine, manifest: Manifest, segments: Sequence[int], centres: Centres | None
    ) -> None:
        self._engine, self._segments = engine, segments
        self._firsts, self.size, self.dimension = manifest.firsts, manifest.chunks, manifest.dimension
        self._centres = centres if centres is not None and len(centres.vectors) else None

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """Return at most `k` nearest rows, exact with `allowed` (row flags); raises ValueError: another dimension."""
        require_dimension(query, self)
        if k < 1 or not self.size:
            return NOTHING
        plain = "[" + ",".join(map(repr, query.astype(np.float64).tolist())) + "]"
        values: dict[str, Any] = {"query": plain, "k": k, "candidates": k + MORE}
        if allowed is not None:
            ranges = ranges_of(allowed, self._firsts)
            spans = [
                "{" + ",".join(f"[{first},{end})" for first, end in part_ranges) + "}"
                for part_ranges in ranges.values()
            ]
            values |= {"segments": [self._segments[number] for number in ranges], "allowed": spans}
            return self._rank(AMONG, values, self._firsts[list(ranges)])
        values |= {"segments": self._segments, "allowed": [None] * len(self._segments)}
        if self._centres is not None:
            near = self._rank(NEARBY, values | {"lists": self._centres.near(query).tolist()}, self._firsts)
            if len(near.rows) >= min(k, self.size):  # else the probed lists hold too few
                return near
        return self._rank(EVERYWHERE, values, self._firsts)

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of `rows`, (len(rows), dimension), in their order."""
        if not len(rows):
            return np.empty((0, self.dimension), np.float32)
        parts = self._firsts.searchsorted(rows, "right") - 1
        rows_in_part = (rows - self._firsts[parts]).tolist()
        with self._engine.cursor() as cursor:
            segments = [self._segments[number] for number in parts.tolist()]
            fetched = cursor.execute(RECONSTRUCTED, [segments, rows_in_part]).fetchall()
        sent = b"".join(data[4:] for (data,) in fetched)  # each begins with its dimension
        return np.frombuffer(sent, ">f2").astype(np.float32).reshape(len(rows), self.dimension)

    def _rank(self, query: str, values: dict[str, Any], firsts: NDArray[np.int64]) -> Nearest:
        """Return the rows that a query ranks. firsts: row at which each of the segments that it searches starts."""
        with self._engine.cursor() as cursor:
            matches = cursor.execute(query.encode(), values).fetchall()
        rows = [int(firsts[number - 1]) + row for number, row, _ in matches]
        return Nearest(np.array(rows, np.int64), np.array([score for _, _, score in matches], np.float32))


def ranges_of(allowed: NDArray[np.bool_], firsts: NDArray[np.int64]) -> dict[int, list[tuple[int, int]]]:
    """Return flagged rows as ranges (first, end) within each segment, by its number; segments without any are left out.

    firsts: row at which each segment starts, and where the last one ends.
    """
    bounds = np.flatnonzero(np.diff(allowed.astype(np.int8), prepend=0, append=0))
    cuts = np.unique(np.concatenate([bounds, firsts]))  # a range ends with its segment
    starts, ends = cuts[:-1], cuts[1:]
    inside = allowed[starts] if len(starts) else np.empty(0, np.bool_)
    ranges: dict[int, list[tuple[int, int]]] = {}
    for first, end in zip(starts[inside].tolist(), ends[inside].tolist(), strict=True):
        part = int(firsts.searchsorted(first, "right")) - 1
        ranges.setdefault(part, []).append((first - int(firsts[part]), end - int(firsts[part])))
    return ranges


def _put_vectors(cursor: Cursor[Any], path: Path, digest: str) -> None:
    """Insert a segment's vectors by a binary COPY, in the order of their lists: arrays go as they are."""
    arrays = map_arrays(path)
    vectors: NDArray[np.float16] = arrays["vectors"]
    into = "INSERT INTO segments (digest) VALUES (%s) RETURNING segment"
    [segment] = cursor.execute(into, [digest]).fetchone() or (0,)
    starts = arrays.get("starts")
    lists = 0 if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    # big-endian, each field behind its length; a halfvec is its dimension, two unused bytes and the values
    fields = [("fields", ">i2"), ("s", ">i4"), ("segment", ">i8"), ("r", ">i4"), ("row", ">i4"), ("l", ">i4")]
    fields += [("list", ">i4"), ("v", ">i4"), ("dimension", ">i2"), ("unused", ">i2")]
    packed = np.zeros(len(vectors), np.dtype([*fields, ("vector", ">f2", (vectors.shape[1],))]))
    packed["fields"], packed["s"], packed["r"], packed["l"] = 4, 8, 4, 4
    packed["segment"], packed["row"], packed["list"] = segment, arrays.get("order", arrays["ids"]), lists
    packed["v"], packed["dimension"], packed["vector"] = 4 + 2 * vectors.shape[1], vectors.shape[1], vectors
    with cursor.copy("COPY vectors (segment, row, list, vector) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(COPY_HEADER + packed.tobytes() + COPY_TRAILER)
