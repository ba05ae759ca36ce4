"""The response store."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Every answer of a model, under the key of what was asked."""
    op.execute("""
        create table responses (
            key text primary key constraint responses_key_hex check (key ~ '^[0-9a-f]{64}$'),
            backend text not null, model text not null,
            request jsonb not null, response jsonb not null,
            prompt_tokens integer, completion_tokens integer, latency_s double precision not null,
            created_at timestamptz not null default now()
        )""")
    op.create_index("responses_model_created_at", "responses", ["model", "created_at"])
