"""Writes what runs found into the evaluation tables, and counts the rows that changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, Table, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from storage.evaluated import SAMPLE_COLUMNS, Evaluated, Run, without_figures
from storage.records import Record
from storage.responses import escape
from storage.tables import datasets, eval_results, eval_runs, eval_settings, eval_tasks, models, samples

ROWS_PER_STATEMENT = 500  # most samples in memory at once


def write(connection: Connection, one: Evaluated) -> int:
    settings = {"digest": one.settings.digest, **one.settings.model_dump()}
    changed = _upsert(connection, eval_settings, [settings], key=("digest",))
    changed += write_run(connection, one.run)
    dataset, new = _identified(connection, datasets, one.dataset.model_dump(), key=("name", "checksum"))
    changed += new
    name = one.task.task if one.task else ""
    of_task = {"run": one.run.id, "task": name, "dataset": dataset}
    if one.task:
        row = of_task | {"settings": one.settings.digest} | _row(one.task)
        row["metrics"] = without_figures(one.task.metrics, one.results)
        changed += _upsert(connection, eval_tasks, [row], key=("run", "task"))
    results = (of_task | {"settings": one.settings.digest} | result.model_dump() for result in one.results)
    changed += _upsert(connection, eval_results, results, key=("run", "task", "dataset", "metric", "part"))
    made = chain(one.samples, one.more_samples() if one.more_samples else ())
    items = (
        of_task | {SAMPLE_COLUMNS.get(name, name): value for name, value in _row(sample).items()} for sample in made
    )
    return changed + _upsert(connection, samples, items, key=("run", "task", "dataset", "item", "repeat"))


def write_run(connection: Connection, run: Run) -> int:
    model, changed = None, 0
    if run.model:
        key = ("name", "revision", "backend")
        model, changed = _identified(connection, models, _row(run.model), key=key)
    row = _row(run) | {"model": model}
    return changed + _upsert(connection, eval_runs, [row], key=("id",))


def _row(value: Record) -> dict[str, Any]:
    """Its fields as columns take them; not as JSON, where pydantic gives up lone surrogates."""
    return {name: list(field) if isinstance(field, tuple) else field for name, field in value.model_dump().items()}


def _identified(connection: Connection, table: Table, row: dict[str, Any], *, key: Sequence[str]) -> tuple[int, int]:
    """The number of the row under its natural key, and how many rows changed for it."""
    changed = _upsert(connection, table, [row], key=key)
    same = (table.c[name] == escape(row[name]) for name in key)
    return connection.execute(select(table.c.id).where(*same)).scalar_one(), changed


def _upsert(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]], *, key: Sequence[str]) -> int:
    """Insert `rows`; where one of the same `key` is there, it takes the other values. Gives how many rows changed.

    A value that is not known (None) leaves a known one of a model as it was: others may have said more of it.
    """
    changed, remaining = 0, iter(rows)
    while group := [escape(dict(row)) for row in islice(remaining, ROWS_PER_STATEMENT)]:
        distinct = {tuple(row[name] for name in key): row for row in group}  # the last of equal ones stays
        statement = insert(table).from_select(list(group[0]), _rows_of(table, list(group[0])))
        new = {name: statement.excluded[name] for name in group[0] if name not in key}
        if table is models:
            new = {name: func.coalesce(value, table.c[name]) for name, value in new.items()}
        differs = tuple_(*(table.c[name] for name in new)).is_distinct_from(tuple_(*new.values()))
        statement = statement.on_conflict_do_update(index_elements=list(key), set_=new, where=differs)
        told = {"rows": json.dumps([*distinct.values()], default=str)}
        changed += connection.execute(statement.execution_options(preserve_rowcount=True), told).rowcount
    return changed


def _rows_of(table: Table, names: Sequence[str]) -> Select[Any]:
    """One parameter for any number of rows: a third of the time that one for each value takes."""
    rows = sa.text(f"json_populate_recordset(cast(null as {table.name}), cast(:rows as json))")
    return select(*map(sa.literal_column, names)).select_from(rows)
