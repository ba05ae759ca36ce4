"""Connections to PostgreSQL and to SQLite files, and the state of PostgreSQL's tables."""

from __future__ import annotations

import atexit
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, Executable, RowMapping, Select, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError

from storage import files
from storage.embedded import Cluster
from storage.records import Record
from storage.storage_errors import DatabaseUnavailable, StoreUnreachable

Result = TypeVar("Result")

CONNECT_S = 10  # after which a server that does not answer counts as away
WAIT_FOR_WRITERS_S = 30.0
UPGRADE_LOCK = 0x7472_6976  # "triv": any number that all of us use and nobody else does


class Revisions(Record):
    """Which migration a database has, and which this installation has."""

    current: str | None
    """Revision of the tables in the database; None for a database without our tables."""
    head: str


def locate(database_url: str | None, home: Path) -> str:
    """Return the configured address, or that of the home's server, which it starts. Raises DatabaseUnavailable."""
    return database_url or Cluster(home).start()


def address(url: str) -> URL:
    """Return `url` for SQLAlchemy with psycopg 3. Raises DatabaseUnavailable when it is not PostgreSQL's."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise DatabaseUnavailable(
            "DATABASE_URL is not an address; expected postgresql://user:password@host:5432/name"
        ) from None  # the cause's text would show the password
    if parsed.drivername.split("+")[0] not in ("postgresql", "postgres"):
        raise DatabaseUnavailable(
            f"DATABASE_URL names {parsed.drivername}; only PostgreSQL is supported: postgresql://user:password@host/name"
        )
    return parsed.set(drivername="postgresql+psycopg")


@cache
def engine(url: str) -> Engine:
    """Return the process's one pool for `url`; connections that died are replaced. Raises DatabaseUnavailable."""
    database = create_engine(address(url), pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_S})
    atexit.register(database.dispose)
    return database


def upgrade(url: str) -> Revisions:
    """Bring the tables to this installation's revision; two at once wait for each other. Raises DatabaseUnavailable."""
    with connected(engine(url)) as connection:
        connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": UPGRADE_LOCK})
        own_revisions = {script.revision for script in _scripts().walk_revisions()}
        current = MigrationContext.configure(connection).get_current_revision()
        if current is not None and current not in own_revisions:
            raise DatabaseUnavailable(
                f"the tables are at revision {current}, which this version of Trivet does not know; "
                "install the version that made them, or name an empty database"
            )
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return revisions(url)


def revisions(url: str) -> Revisions:
    """Return the revision of the tables at `url` and ours. Raises DatabaseUnavailable."""
    with connected(engine(url)) as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    head = _scripts().get_current_head()
    assert head is not None  # the folder of migrations is part of the package
    return Revisions(current=current, head=head)


def server_major(url: str) -> int:
    """Return the major version of the server at `url`. Raises DatabaseUnavailable."""
    with connected(engine(url)) as connection:
        return int(connection.execute(text("show server_version_num")).scalar_one()) // 10000


@contextmanager
def connected(pool: Engine) -> Generator[Connection]:
    """Yield a connection in a transaction, committed at the end, undone by any error. Raises DatabaseUnavailable."""
    try:
        with pool.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise unavailable(pool, error) from error


def unavailable(pool: Engine, error: DBAPIError) -> DatabaseUnavailable:
    """Return a DatabaseUnavailable with the first line of `error` and the remedy; shows no password."""
    reason = str(error.orig or error).strip().splitlines()[0]
    where = pool.url.render_as_string(hide_password=True)
    return DatabaseUnavailable(f"{where} cannot be used: {reason}; see that the server runs and DATABASE_URL is right")


def _config() -> Config:
    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))  # ConfigParser interpolates %(name)s
    return config


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


class Reconnecting:
    """Transactions on a database, from any thread. locate: gives its address, anew when the server has gone away."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._locate = locate
        self._opening = Lock()
        self._engine: Engine | None = None

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Return what `work` gives in a transaction, once more if a connection is lost. Raises DatabaseUnavailable."""
        opened = self._open()
        try:
            with opened.begin() as connection:
                return work(connection)
        except (OperationalError, InterfaceError):  # the connection was lost, or the server is starting
            with self._opening:
                if self._engine is opened:
                    opened.dispose()
                    self._engine = None
        except DBAPIError as error:
            raise unavailable(opened, error) from error
        with connected(self._open()) as connection:
            return work(connection)

    def rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        """Run a query through `run` and return all of its rows."""
        return self.run(lambda connection: connection.execute(query).mappings().all())

    def _open(self) -> Engine:
        """Return the engine; at the first use it is made, and the tables are upgraded. Raises DatabaseUnavailable."""
        with self._opening:
            if self._engine is None:
                url = self._locate()
                upgrade(url)
                self._engine = engine(url)
            return self._engine


class SqliteFile:
    """Transactions on an SQLite file that any number of threads and processes of one machine share."""

    def __init__(self, path: Path, schema: Sequence[Executable] = (), *, remedy: str) -> None:
        """schema: statements that make what is missing when the file is opened. remedy: ends the errors."""
        self.path = path
        self._schema, self._remedy = schema, remedy
        self._opening = Lock()
        self._engine: Engine | None = None

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Return the result of `work` in a transaction of its own. Raises StoreUnreachable."""
        try:
            with self._opening:
                self._engine = self._engine or self._open()
            with self._engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            self.close()
            raise StoreUnreachable(f"{self.path} cannot be used ({error.orig}); {self._remedy}") from error

    def close(self) -> None:
        """Close the connections to the file; the next transaction opens it again."""
        with self._opening:
            if self._engine:
                self._engine.dispose()
            self._engine = None

    def _open(self) -> Engine:
        """Return an engine on the file, made with its tables if need be. Raises StoreUnreachable, DBAPIError."""
        files.make_folder(self.path.parent)
        with files.reachable(self.path):
            self.path.touch(mode=0o600)  # SQLite gives the files beside it the same mode
        database = create_engine(f"sqlite:///{self.path}", connect_args={"timeout": WAIT_FOR_WRITERS_S})
        event.listen(database, "connect", lambda connection, _: _write_ahead(connection))
        with database.begin() as connection:
            for statement in self._schema:
                connection.execute(statement)
        return database


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a file to the write-ahead log; tries again while others do, for 30 s. Raises sqlite3.OperationalError."""
    # NORMAL: kill -9 loses nothing, a power cut perhaps the last rows
    connection.execute("PRAGMA synchronous=NORMAL")
    deadline = time.monotonic() + WAIT_FOR_WRITERS_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
