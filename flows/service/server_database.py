"""The database of Prefect's server: the user's, the first PostgreSQL here that has pg_trgm, else SQLite.

`python -m flows.service.server_database` keeps Prefect's PostgreSQL running, and is what the supervisor watches:
PostgreSQL itself daemonizes, and runs as another account under root.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from flows.running.settings import settings
from flows.service.api import Database
from flows.service.place import Place
from storage import files
from storage.embedded import Cluster
from storage.storage_errors import DatabaseUnavailable, WrongPostgresVersion

EXTENSION = "pg_trgm"
"""PostgreSQL extension that Prefect's tables need."""
VARIABLES = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
LOOK_S = 1.0
"""Seconds between two checks whether PostgreSQL still runs."""


def cluster_of(place: Place) -> Cluster:
    """Return Prefect's PostgreSQL; that of Trivet's own tables is another, which lacks pg_trgm."""
    return Cluster(place.database, extension=EXTENSION)


def choose_database(place: Place, environment: Mapping[str, str]) -> Database:
    """Return the running database of the server; a home keeps its first choice. Raises DatabaseUnavailable."""
    if variable := next(filter(environment.get, VARIABLES), None):
        url = environment[variable]
        kind = "sqlite" if url.startswith("sqlite") else "postgresql"
        return Database(kind=kind, kept=False, why=f"{variable} names it", url=url)
    file = Path(environment.get("PREFECT_HOME") or place.home / "prefect") / "prefect.db"  # that of commands
    cluster = cluster_of(place)
    begun = cluster.status().state != "absent"
    if file.exists() and not begun:
        return _open_sqlite(file, f"the runs of this home are in it; to change, stop the service and move {file} away")
    if not begun and not cluster.programs():
        why = f"no PostgreSQL with {EXTENSION} is installed (Debian and Ubuntu: apt install postgresql)"
        return _open_sqlite(file, why)
    try:
        url = cluster.start().replace("postgresql://", "postgresql+asyncpg://", 1)  # the driver of Prefect's server
        why = f"this system's PostgreSQL {cluster.status().major} has {EXTENSION}"
        if file.exists():
            why += f"; runs of commands without the service are in {file}"
        return Database(kind="postgresql", kept=True, why=why, url=url)
    except DatabaseUnavailable as error:
        if begun or isinstance(error, WrongPostgresVersion):
            raise
        return _open_sqlite(file, f"the PostgreSQL of this system does not start: {error}")


def _open_sqlite(file: Path, why: str) -> Database:
    files.make_folder(file.parent)
    file.touch(mode=0o600)  # SQLite gives the files beside it the same mode
    return Database(kind="sqlite", kept=False, why=why, url=f"sqlite+aiosqlite:///{file}")


def main() -> None:
    """Restart PostgreSQL whenever it has ended; on SIGTERM, shut it down."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    cluster = cluster_of(Place(settings().home))
    while not stopping.is_set():
        if cluster.status().pid is None:
            cluster.start()
            print(f"PostgreSQL runs, pid {cluster.status().pid}", flush=True)
        stopping.wait(LOOK_S)
    cluster.stop()


if __name__ == "__main__":
    main()
