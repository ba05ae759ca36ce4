"""Alembic migrations of our tables; `storage.database.upgrade` runs them."""
