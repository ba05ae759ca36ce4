"""The tables of the database; storage/migrations makes them, and views of them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = sa.MetaData()


def _required(kind: Any, *names: str, **options: Any) -> list[Column[Any]]:
    """Return the columns of one type that are never null."""
    return [Column(name, kind, nullable=False, **options) for name in names]


def _optional(kind: Any, *names: str) -> list[Column[Any]]:
    """Return the columns of one type that may be null."""
    return [Column(name, kind) for name in names]


def _created(*names: str) -> list[Column[Any]]:
    """Return columns of times that the database sets when the row is made."""
    return _required(sa.DateTime(timezone=True), *names, server_default=sa.func.now())


def _is_hex(column: str, name: str) -> sa.CheckConstraint:
    """Return the constraint that a column holds a SHA-256 in hex."""
    return sa.CheckConstraint(f"{column} ~ '^[0-9a-f]{{64}}$'", name=name)


def _run() -> Column[str]:
    """Return the key column for the run that a row belongs to; the row is deleted with the run."""
    return Column("run", Text, ForeignKey("eval_runs.id", ondelete="CASCADE"), primary_key=True)


def _of_run() -> list[Column[Any]]:
    """Return the first key columns of what a run found on a data set; `task` is empty in runs that measure an index."""
    task = Column("task", Text, primary_key=True, server_default="")
    return [_run(), task, Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True)]


responses = Table(
    "responses",
    metadata,
    Column("key", Text, _is_hex("key", "responses_key_hex"), primary_key=True),
    *_required(Text, "backend", "model"),
    *_required(JSONB, "request", "response"),
    *_optional(Integer, "prompt_tokens", "completion_tokens"),
    *_required(sa.Double, "latency_s"),
    *_created("created_at"),
    Index("responses_model_created_at", "model", "created_at"),
    Index("responses_created_at", "created_at", postgresql_using="brin"),  # small: rows lie in the order of time
)
"""Every answer of a model, under the SHA-256 of everything that could change it."""

chat_sessions = Table(
    "chat_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    *_optional(Text, "title"),
    *_required(Text, "index_path"),
    *_created("created_at", "updated_at"),
    Index("chat_sessions_index_path_updated_at", "index_path", "updated_at"),
)
"""Conversations; the title is the first question, and none while nothing has been asked."""

chat_turns = Table(
    "chat_turns",
    metadata,
    Column("session_id", Text, ForeignKey("chat_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    *_required(Text, "question"),
    *_required(JSONB, "answered"),
    *_created("created_at"),
)
"""The questions of conversations, numbered from 1 in each, with their whole answers."""

datasets = Table(
    "datasets",
    metadata,
    Column("id", Integer, sa.Identity(), primary_key=True),
    *_required(Text, "name", "source"),
    Column("checksum", Text, _is_hex("checksum", "datasets_checksum"), nullable=False),
    *_required(Integer, "count"),
    sa.UniqueConstraint("name", "checksum", name="datasets_name_checksum"),
)
"""Items that something was measured on; the same name with another content is another data set."""

eval_settings = Table(
    "eval_settings",
    metadata,
    Column("digest", Text, _is_hex("digest", "eval_settings_digest"), primary_key=True),
    *_required(Text, "name"),
    *_required(JSONB, "parameters"),
)
"""Everything besides model, index and data that can change a result, under its SHA-256."""

models = Table(
    "models",
    metadata,
    Column("id", Integer, sa.Identity(), primary_key=True),
    *_required(Text, "name", "revision", "backend"),
    *_required(sa.Boolean, "is_external"),
    *_optional(Text, "weights_location", "base_model", "git_commit"),
    *_optional(JSONB(none_as_null=True), "training_parameters"),  # else None is the null of JSON
    *_created("created_at"),
    sa.UniqueConstraint("name", "revision", "backend", name="models_name_revision_backend"),
)
"""The models that were measured; the same name with other weights, or behind another backend, is another model."""

eval_runs = Table(
    "eval_runs",
    metadata,
    Column("id", Text, primary_key=True),
    *_required(Text, "kind", "status", "version"),
    *_required(sa.DateTime(timezone=True), "started_at"),
    *_optional(sa.DateTime(timezone=True), "ended_at"),
    *_optional(Text, "git_commit", "index_generation", "index_digest"),
    *_required(JSONB, "environment"),
    Column("model", Integer, ForeignKey("models.id", name="eval_runs_model_fkey")),
    *_required(JSONB, "model_args", "config", "skipped", server_default="{}"),
    *_required(JSONB, "notes", server_default="[]"),
    *_optional(Integer, "calls"),
    *_optional(sa.Double, "cost"),
    Index("eval_runs_kind_started_at", "kind", "started_at"),
    Index("eval_runs_model_started_at", "model", "started_at"),
)
"""One evaluation from start to end, and the index or model that it measured."""

eval_tasks = Table(
    "eval_tasks",
    metadata,
    _run(),
    Column("task", Text, primary_key=True),
    Column("dataset", Integer, ForeignKey("datasets.id"), nullable=False),
    Column("settings", Text, ForeignKey("eval_settings.digest"), nullable=False),
    *_required(Text, "version", "family"),
    *_required(JSONB, "metrics", "counts", "usage", "notes", "artifacts"),
    *_optional(Text, "judge"),
    *_optional(JSONB(none_as_null=True), "judge_usage"),
    Index("eval_tasks_task_settings", "task", "settings"),
)
"""One row for each benchmark of a run; in `metrics` null stands for a value that eval_results holds."""

eval_results = Table(
    "eval_results",
    metadata,
    *_of_run(),
    Column("metric", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("settings", Text, ForeignKey("eval_settings.digest"), nullable=False),
    *_required(sa.Double, "value"),
    *_optional(sa.Double, "std_err", "low", "high"),
    *_required(Integer, "n"),
    *_required(sa.Boolean, "headline", server_default=sa.false()),
    *_required(sa.Boolean, "higher_is_better", server_default=sa.true()),
    Index("eval_results_dataset_metric", "dataset", "metric"),
)
"""A value with its interval; `part` is `kind=table` where it is of some of the items, and empty where it is of all."""

samples = Table(
    "samples",
    metadata,
    *_of_run(),
    Column("item", Text, primary_key=True),
    Column("repeat", Integer, primary_key=True),
    *_required(JSONB, "detail"),
    *_required(Text, "status", server_default="scored"),
    *_optional(sa.Double, "score"),
    *_optional(Text, "extracted", "gold", "item_group"),
    *_required(Text, "reason", server_default=""),
    *_required(JSONB, "figures", server_default="{}"),
    *_required(ARRAY(Text), "response_keys", server_default="{}"),
    *_required(sa.Boolean, "truncated", "missing", server_default=sa.false()),
    sa.CheckConstraint("status in ('scored', 'unscored')", name="samples_status"),
    Index("samples_response_keys", "response_keys", postgresql_using="gin"),  # finds rows by one of their keys
)
"""The verdict on each item of a run; `response_keys` lead to the response store."""

night_incidents = Table(
    "night_incidents",
    metadata,
    Column("id", Text, primary_key=True),
    *_required(Text, "suite", "of", "task", "metric", "kind", "status", "opened_run"),
    *_required(sa.DateTime(timezone=True), "opened_at", "baseline_at"),
    *_required(Text, "baseline_run", "word"),
    *_required(sa.Double, "baseline_value"),
    *_required(sa.Boolean, "higher_is_better"),
    *_optional(sa.DateTime(timezone=True), "accepted_at"),
    *_required(JSONB, "events"),
    sa.CheckConstraint("kind in ('drop', 'drift')", name="night_incidents_kind"),
    sa.CheckConstraint("status in ('open', 'back', 'accepted')", name="night_incidents_status"),
    Index("night_incidents_suite_opened_at", "suite", "opened_at"),
)
"""Scores of nights that got worse, from the night that saw it until they are back or accepted; `events` by night."""

night_pins = Table(
    "night_pins",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("suite", "of", "task")),
    *_required(Text, "run"),
    *_required(sa.DateTime(timezone=True), "at"),
)
"""Scores that later nights of a suite are compared with."""

lineage_steps = Table(
    "lineage_steps",
    metadata,
    Column("key", Text, primary_key=True),
    *_required(Text, "step", "run", "code", "parameters"),
    *_required(Integer, "version"),
    *_required(sa.DateTime(timezone=True), "at"),
    *_required(sa.Double, "seconds"),
)
"""Steps that ran, under their cache keys; `parameters` is JSON."""

lineage_edges = Table(
    "lineage_edges",
    metadata,
    Column("key", Text, primary_key=True),
    Column("item", Integer, primary_key=True),
    Column("made", sa.Boolean, primary_key=True),
    Column("digest", Text, primary_key=True),
    *_required(Text, "kind", "name"),
    Index("lineage_edges_digest_made", "digest", "made"),
)
"""The digests that each step used and made."""

lineage_collected = Table(
    "lineage_collected",
    metadata,
    Column("digest", Text, primary_key=True),
    *_required(sa.DateTime(timezone=True), "at"),
)
"""The digests that `trivet gc` removed, and when."""
