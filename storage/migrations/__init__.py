"""Alembic migrations of our tables; `storage.connections.upgrade` runs them."""
