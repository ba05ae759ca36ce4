"""The tables of an index in PostgreSQL, in a schema of their own, and how they are reached."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from storage.connections import engine
from storage.storage_errors import EngineAway, NotAnIndex

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


class PostgresTables:
    """The tables of one schema of a database."""

    def __init__(self, address: str) -> None:
        self.address = address
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
            raise NotAnIndex(f"{self.address} holds no index; run `trivet rag index … --index URL`") from error
        except (psycopg.Error, DBAPIError) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> EngineAway:
        """What is wrong with the server, in a sentence without a password."""
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        what = "see that the server runs, and that the address and PGPASSWORD are right"
        return EngineAway(f"the index at {self.address} cannot be used: {reason}; {what}")

    def claim(self) -> None:
        """Make the tables where they are missing. Raises EngineAway."""
        with self.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"claim {self.schema}"])
            if cursor.execute("SELECT to_regclass('vectors_of_list')").fetchone() != (None,):
                return
            cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
            if cursor.fetchone() == (0,):
                raise EngineAway(f"{self.address}: this PostgreSQL has no pgvector; install it on the server")
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            cursor.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'.encode())
            cursor.execute(TABLES.encode(), binary=False)
