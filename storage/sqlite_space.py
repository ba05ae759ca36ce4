"""SQLite files keep the space of rows that were deleted, until they are written anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

WAIT_S = 10.0
"""For other processes that write; one that never stops keeps its space until the next time."""


def give_space_back(file: Path) -> int:
    """Write a database anew without what was deleted; bytes that came free. 0: nothing did, or others are writing."""
    if not file.exists():
        return 0
    before = file.stat().st_size
    try:
        with closing(sqlite3.connect(file, timeout=WAIT_S, isolation_level=None)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # in WAL mode the file shrinks only now
    except sqlite3.OperationalError:
        return 0
    return max(0, before - file.stat().st_size)
