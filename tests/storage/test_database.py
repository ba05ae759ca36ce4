"""Addresses and migrations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from storage import database
from storage.embedded import Cluster
from storage.errors import DatabaseUnavailable
from storage.tables import metadata


@pytest.fixture
def url(running: Path) -> Iterator[str]:
    address = Cluster(running).start()
    yield address
    database.engine(address).dispose()


@pytest.mark.postgres
def test_upgrade_brings_an_empty_database_to_the_head(url: str) -> None:
    assert database.revisions(url).current is None
    assert database.upgrade(url).current == database.revisions(url).head
    assert database.upgrade(url) == database.revisions(url)


@pytest.mark.postgres
def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    database.upgrade(url)
    with database.connected(database.engine(url)) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.postgres
def test_tables_of_a_newer_version_are_refused(url: str) -> None:
    head = database.upgrade(url).head
    with database.connected(database.engine(url)) as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(DatabaseUnavailable, match=r"9999.*newer version"):
        database.upgrade(url)
    with database.connected(database.engine(url)) as connection:
        connection.execute(text("update alembic_version set version_num = :head"), {"head": head})


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_of_postgres_is_understood(scheme: str) -> None:
    assert database.address(f"{scheme}://me@host/name").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("url", ["mysql://me:secret@host/name", "secret", "sqlite:///secret.db"])
def test_another_database_is_refused_without_showing_the_address(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="postgresql://") as caught:
        database.address(url)
    assert "secret" not in str(caught.value)
