"""The response store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Every answer of a model, under the key of what was asked."""
    is_hex = sa.CheckConstraint("key ~ '^[0-9a-f]{64}$'", name="responses_key_hex")
    op.create_table(
        "responses",
        sa.Column("key", sa.Text, is_hex, primary_key=True),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("request", JSONB, nullable=False),
        sa.Column("response", JSONB, nullable=False),
        sa.Column("prompt_tokens", sa.Integer),
        sa.Column("completion_tokens", sa.Integer),
        sa.Column("latency_s", sa.Double, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_index("responses_model_created_at", "responses", ["model", "created_at"])


def downgrade() -> None:
    """Take it back."""
    op.drop_table("responses")
