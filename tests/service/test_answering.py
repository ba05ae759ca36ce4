"""A server that was away calls no run dead whose signs of life came meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from flows.service.answering import WAITS, forget_waits


def test_a_server_begins_with_no_waits(tmp_path: Path) -> None:
    file = tmp_path / "prefect.db"
    with sqlite3.connect(file) as database:
        database.execute(f"CREATE TABLE {WAITS} (id INTEGER)")
        database.execute("CREATE TABLE flow_run (id INTEGER)")
        database.executemany(f"INSERT INTO {WAITS} VALUES (?)", [(1,), (2,)])
        database.execute("INSERT INTO flow_run VALUES (1)")
    database.close()
    assert asyncio.run(forget_waits(f"sqlite+aiosqlite:///{file}")) == 2
    database = sqlite3.connect(file)
    assert database.execute(f"SELECT count(*) FROM {WAITS}").fetchone() == (0,)
    assert database.execute("SELECT count(*) FROM flow_run").fetchone() == (1,)
    database.close()


def test_the_first_start_has_nothing_to_forget(tmp_path: Path) -> None:
    assert asyncio.run(forget_waits(f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}")) == 0
