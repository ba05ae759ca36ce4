"""The evaluation tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """What was measured, on which data, with which settings, by which run."""
    _create_inputs()
    _create_runs()
    _create_results()
    _create_samples()


def downgrade() -> None:
    """Take them back."""
    for table in ("samples", "eval_results", "eval_runs", "eval_settings", "datasets"):
        op.drop_table(table)


def _create_inputs() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("checksum", sa.Text, _is_hex("checksum", "datasets_checksum"), nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", "checksum", name="datasets_name_checksum"),
    )
    op.create_table(
        "eval_settings",
        sa.Column("digest", sa.Text, _is_hex("digest", "eval_settings_digest"), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("parameters", JSONB, nullable=False),
    )


def _create_runs() -> None:
    op.create_table(
        "eval_runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("git_commit", sa.Text),
        sa.Column("index_generation", sa.Text),
        sa.Column("index_digest", sa.Text),
        sa.Column("environment", JSONB, nullable=False),
    )
    op.create_index("eval_runs_kind_started_at", "eval_runs", ["kind", "started_at"])


def _create_results() -> None:
    op.create_table(
        "eval_results",
        *_of_run(),
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("part", sa.Text, primary_key=True),
        sa.Column("settings", sa.Text, sa.ForeignKey("eval_settings.digest"), nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("low", sa.Double),
        sa.Column("high", sa.Double),
        sa.Column("n", sa.Integer, nullable=False),
    )
    op.create_index("eval_results_dataset_metric", "eval_results", ["dataset", "metric"])


def _create_samples() -> None:
    op.create_table(
        "samples",
        *_of_run(),
        sa.Column("item", sa.Text, primary_key=True),
        sa.Column("repeat", sa.Integer, primary_key=True),
        sa.Column("detail", JSONB, nullable=False),
    )


def _of_run() -> tuple[sa.Column[str], sa.Column[int]]:
    return (
        sa.Column("run", sa.Text, sa.ForeignKey("eval_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id"), primary_key=True),
    )


def _is_hex(column: str, name: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} ~ '^[0-9a-f]{{64}}$'", name=name)
