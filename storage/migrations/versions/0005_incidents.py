"""Nights: figures that got worse until they are back or accepted, and the figures that people pinned."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Two new tables."""
    op.execute("""
        create table night_incidents (
            id text primary key, suite text not null, "of" text not null, task text not null, metric text not null,
            kind text not null constraint night_incidents_kind check (kind in ('drop', 'drift')),
            status text not null constraint night_incidents_status check (status in ('open', 'back', 'accepted')),
            opened_run text not null, opened_at timestamptz not null,
            baseline_run text not null, baseline_value double precision not null, baseline_at timestamptz not null,
            higher_is_better boolean not null, word text not null, accepted_at timestamptz, events jsonb not null
        )""")
    op.create_index("night_incidents_suite_opened_at", "night_incidents", ["suite", "opened_at"])
    op.execute("""
        create table night_pins (
            suite text, "of" text, task text, run text not null, at timestamptz not null,
            primary key (suite, "of", task)
        )""")
