"""Calls by their time without reading all; their sums kept, so that a monitor that starts does not add them up anew."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """The sums begin empty: the first monitor adds up what is there."""
    # answers come in the order of their time: a range for each megabyte says where a day lies, in kilobytes
    op.execute("create index responses_created_at on responses using brin (created_at)")
    op.execute("""
        create table call_totals (
            backend text, model text, calls bigint not null, prompt_tokens bigint not null,
            completion_tokens bigint not null, latency_s double precision not null, until timestamptz not null,
            primary key (backend, model)
        )""")
