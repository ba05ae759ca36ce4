"""Alembic's entry: runs on the connection that `storage.connections.upgrade` hands over."""

from alembic import context

from storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
