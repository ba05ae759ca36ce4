"""The tables as they are now; storage/migrations holds how they came to be."""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
)
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

chat_sessions = Table(
    "chat_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("title", Text),
    Column("index_path", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("chat_sessions_index_path_updated_at", "index_path", "updated_at"),
)
"""Conversations; the title is the first question, and none while nothing has been asked."""

chat_turns = Table(
    "chat_turns",
    metadata,
    Column("session_id", Text, ForeignKey("chat_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("question", Text, nullable=False),
    Column("answered", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
"""Their questions, numbered from 1, each with its whole answer."""

datasets = Table(
    "datasets",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("checksum", Text, CheckConstraint("checksum ~ '^[0-9a-f]{64}$'", name="datasets_checksum"), nullable=False),
    Column("count", Integer, nullable=False),
    UniqueConstraint("name", "checksum", name="datasets_name_checksum"),
)
"""Items that something was measured on; the same name with another content is another data set."""

eval_settings = Table(
    "eval_settings",
    metadata,
    Column("digest", Text, CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name="eval_settings_digest"), primary_key=True),
    Column("name", Text, nullable=False),
    Column("parameters", JSONB, nullable=False),
)
"""Everything besides model, index and data that can change a figure, under its SHA-256."""

eval_runs = Table(
    "eval_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True)),
    Column("version", Text, nullable=False),
    Column("git_commit", Text),
    Column("index_generation", Text),
    Column("index_digest", Text),
    Column("environment", JSONB, nullable=False),
    Index("eval_runs_kind_started_at", "kind", "started_at"),
)
"""One evaluation from start to end, and the index that it measured."""

eval_results = Table(
    "eval_results",
    metadata,
    Column("run", Text, ForeignKey("eval_runs.id", ondelete="CASCADE"), primary_key=True),
    Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("settings", Text, ForeignKey("eval_settings.digest"), nullable=False),
    Column("value", Double, nullable=False),
    Column("low", Double),
    Column("high", Double),
    Column("n", Integer, nullable=False),
    Index("eval_results_dataset_metric", "dataset", "metric"),
)
"""A figure with its interval; `part` is `kind=table` where it is of some of the items, and empty where it is of all."""

samples = Table(
    "samples",
    metadata,
    Column("run", Text, ForeignKey("eval_runs.id", ondelete="CASCADE"), primary_key=True),
    Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True),
    Column("item", Text, primary_key=True),
    Column("repeat", Integer, primary_key=True),
    Column("detail", JSONB, nullable=False),
)
"""What became of each item of a run."""
