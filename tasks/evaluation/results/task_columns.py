"""Columns that a task has beside its score: an entry here appears in reports, exports and leaderboards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from storage.evaluated import StoredScore
from tasks.evaluation.evaluation_records import Counts, TaskResult, Usage

Value = int | float | None


class TaskColumn(NamedTuple):
    """A column, computed from what the database and the results file keep of a task."""

    name: str
    """Heading in tables, key in csv and JSON."""
    value: Callable[[Counts, Usage], Value]
    is_ranked: bool = False
    """Shown on leaderboards too."""
    is_defect: bool = False
    """A value above 0 is a warning."""


COLUMNS = (
    TaskColumn("items", lambda counts, _: counts.items),
    TaskColumn("samples", lambda counts, _: counts.samples),
    TaskColumn("unscored", lambda counts, _: counts.unscored, is_ranked=True, is_defect=True),
    TaskColumn("cut off", lambda counts, _: counts.truncated),
    TaskColumn("no answer", lambda counts, _: counts.missing),
    TaskColumn("tokens", lambda _, usage: usage.prompt_tokens + usage.completion_tokens),
)
RANKED = tuple(column for column in COLUMNS if column.is_ranked)


def columns_of(result: TaskResult) -> dict[str, Value]:
    """All columns of a task by name."""
    return {column.name: column.value(result.counts, result.usage) for column in COLUMNS}


def ranked_columns_of(score: StoredScore) -> dict[str, Value]:
    """The leaderboard's columns of a stored score by name."""
    counts, usage = Counts.model_validate(score.counts), Usage.model_validate(score.usage)
    return {column.name: column.value(counts, usage) for column in RANKED}


def shown(value: Value, *, thousands: str = "") -> str:
    """`value` as a cell of a table."""
    if value is None:
        return "–"
    return f"{value:{thousands}}" if isinstance(value, int) else f"{value:{thousands}.4g}"
