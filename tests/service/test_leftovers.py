"""A server that was away calls no live run dead, waits for the dead, ends no limited run, and keeps no slot taken."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from flows.service.run_server import LIMITS, RENEWED, WAITS, repair
from flows.service.supervising import LEASES

SILENCE = timedelta(seconds=75)
FREE, HELD, DECAYS = UUID(int=1), UUID(int=2), UUID(int=3)
TABLES = f"""
CREATE TABLE {WAITS} (id CHAR(36), bucketing_key JSON, start DATETIME, "end" DATETIME, count INTEGER);
CREATE TABLE {LIMITS} (id CHAR(36), active_slots INTEGER, slot_decay_per_second FLOAT);
CREATE TABLE flow_run (id CHAR(36), state_type VARCHAR);
"""
"""What Prefect's tables have of these."""


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[Any]:
    """Prefect's own, in a folder."""
    from prefect.server.concurrency.lease_storage import get_concurrency_lease_storage
    from prefect.settings import temporary_settings

    with temporary_settings({"home": tmp_path, "server.concurrency.lease_storage": LEASES}):
        yield get_concurrency_lease_storage()


@pytest.fixture
def database(tmp_path: Path, leases: Any) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "prefect.db", isolation_level=None)) as database:
        database.executescript(TABLES)
        yield database


def begin(folder: Path) -> None:
    asyncio.run(repair(f"sqlite+aiosqlite:///{folder / 'prefect.db'}"))


def test_the_wait_for_a_running_run_begins_anew_and_others_are_forgotten(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    running, completed = str(uuid4()), str(uuid4())
    database.executemany("INSERT INTO flow_run VALUES (?, ?)", [(running, "RUNNING"), (completed, "COMPLETED")])
    then = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=9)
    for run in (running, completed):
        key = f'["prefect.flow-run.{run}"]'
        database.execute(f"INSERT INTO {WAITS} VALUES (?, ?, ?, ?, 1)", (run, key, f"{then}", f"{then + SILENCE}"))

    before = datetime.now(UTC)
    begin(tmp_path)

    [(run, start, end, count)] = database.execute(f'SELECT id, start, "end", count FROM {WAITS}').fetchall()
    began = datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert (run, count) == (running, 0)
    assert before <= began <= datetime.now(UTC)
    assert datetime.fromisoformat(end).replace(tzinfo=UTC) - began == SILENCE


def test_slots_without_a_lease_are_free_and_leases_hold_on(
    tmp_path: Path, database: sqlite3.Connection, leases: Any
) -> None:
    """A lease that ran out while the server was away could not be renewed: its holder may live."""
    from prefect.server.concurrency.lease_storage import ConcurrencyLimitLeaseMetadata

    limits = [(str(FREE), 3, 0.0), (str(HELD), 3, 0.0), (str(DECAYS), 3, 0.5)]
    database.executemany(f"INSERT INTO {LIMITS} VALUES (?, ?, ?)", limits)
    for ttl in (timedelta(minutes=1), timedelta(minutes=-1)):
        asyncio.run(leases.create_lease([HELD], ttl, ConcurrencyLimitLeaseMetadata(slots=1)))

    before = datetime.now(UTC)
    begin(tmp_path)

    assert database.execute(f"SELECT active_slots FROM {LIMITS} ORDER BY id").fetchall() == [(0,), (2,), (3,)]
    assert asyncio.run(leases.read_expired_lease_ids()) == []
    ids = asyncio.run(leases.read_active_lease_ids())
    assert [asyncio.run(leases.read_lease(each)).expiration >= before + RENEWED for each in ids] == [True, True]


@pytest.mark.timeout(30)
def test_a_lock_of_the_killed_server_is_nobodys(tmp_path: Path, database: sqlite3.Connection, leases: Any) -> None:
    """After a restart of the machine its pid may be another's, and Prefect takes that for the server."""
    asyncio.run(leases.create_lease([HELD], timedelta(minutes=1)))
    (tmp_path / "concurrency_leases" / "expirations.lock").write_text(str(os.getppid()))
    begin(tmp_path)
    assert database.execute(f"SELECT count(*) FROM {LIMITS}").fetchone() == (0,)


def test_the_first_start_has_nothing_to_put_right(tmp_path: Path) -> None:
    begin(tmp_path)
    with closing(sqlite3.connect(tmp_path / "prefect.db")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == []
