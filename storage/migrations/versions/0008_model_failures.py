"""Failed requests to models, counted by the hour."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """A new table."""
    op.execute("""
        create table model_failures (
            model text, error text, hour timestamptz, count integer not null, primary key (model, error, hour)
        )""")
