"""Deleted rows give their space back, unless somebody writes just then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage import embeddings
from storage.embeddings import give_space_back

ROWS = 1_000


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[Path]:
    """A database of four megabytes of which one row is left; somebody has it open in WAL mode, as a server does."""
    file = tmp_path / "prefect.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as server:
        server.execute("PRAGMA journal_mode = WAL")
        server.execute("CREATE TABLE runs (id INTEGER, told BLOB)")
        server.execute("BEGIN")
        server.executemany("INSERT INTO runs VALUES (?, zeroblob(4000))", [(number,) for number in range(ROWS)])
        server.execute("COMMIT")
        server.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        server.execute("DELETE FROM runs WHERE id > 0")
        yield file


def test_a_database_shrinks_while_a_server_has_it_open(emptied: Path) -> None:
    before = emptied.stat().st_size
    assert before > 4_000 * ROWS
    assert give_space_back(emptied) > 0.9 * before
    assert give_space_back(emptied) == 0
    with closing(sqlite3.connect(emptied)) as again:
        assert again.execute("SELECT id FROM runs").fetchall() == [(0,)]


def test_one_that_is_written_is_left_alone(emptied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "SPACE_WAIT_S", 0.1)
    with closing(sqlite3.connect(emptied, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO runs VALUES (7, NULL)")
        assert give_space_back(emptied) == 0
        writer.execute("COMMIT")
    assert give_space_back(emptied) > 0


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert give_space_back(tmp_path / "prefect.db") == 0
    assert list(tmp_path.iterdir()) == []
