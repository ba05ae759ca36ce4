"""Addresses and migrations."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from storage import connections
from storage.storage_errors import DatabaseUnavailable
from storage.tables import metadata


@pytest.mark.postgres
def test_upgrade_brings_an_empty_database_to_the_head(url: str) -> None:
    assert connections.revisions(url).current is None
    assert connections.upgrade(url).current == connections.revisions(url).head
    assert connections.upgrade(url) == connections.revisions(url)


@pytest.mark.postgres
def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    connections.upgrade(url)
    with connections.connected(connections.engine(url)) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.postgres
def test_tables_of_a_newer_and_of_an_early_version_are_refused(url: str) -> None:
    head = connections.upgrade(url).head
    for revision in ("9999", "0008"):
        with connections.connected(connections.engine(url)) as connection:
            connection.execute(text("update alembic_version set version_num = :at"), {"at": revision})
        with pytest.raises(DatabaseUnavailable, match=f"{revision}.*install the version that made them"):
            connections.upgrade(url)
    with connections.connected(connections.engine(url)) as connection:
        connection.execute(text("update alembic_version set version_num = :head"), {"head": head})


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_of_postgres_is_understood(scheme: str) -> None:
    assert connections.address(f"{scheme}://me@host/name").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("url", ["mysql://me:secret@host/name", "secret", "sqlite:///secret.db"])
def test_another_database_is_refused_without_showing_the_address(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="postgresql://") as caught:
        connections.address(url)
    assert "secret" not in str(caught.value)
