"""The tables as they are now; storage/migrations holds how they came to be."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, DateTime, Double, Index, Integer, MetaData, Table, Text, func
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData()

responses = Table(
    "responses",
    metadata,
    Column("key", Text, CheckConstraint("key ~ '^[0-9a-f]{64}$'", name="responses_key_hex"), primary_key=True),
    Column("backend", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("request", JSONB, nullable=False),
    Column("response", JSONB, nullable=False),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("latency_s", Double, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("responses_model_created_at", "model", "created_at"),
)
"""Every answer of a model, under the SHA-256 of everything that could change it."""
