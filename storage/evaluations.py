"""Results of evaluations in the database: what was measured, on which data, with which settings, by which run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue
from sqlalchemy import ColumnElement, Connection, Table, select
from sqlalchemy.dialects.postgresql import insert

from storage.reconnecting import Reconnecting
from storage.records import Record
from storage.responses import escape, unescape
from storage.tables import datasets, eval_results, eval_runs, eval_settings, samples

ROWS_PER_STATEMENT = 500
"""PostgreSQL takes at most 65,535 parameters."""


class _Row(Record):
    model_config = ConfigDict(allow_inf_nan=False)  # jsonb has no NaN


class Dataset(_Row):
    """Items that were measured on; another content is another data set, whatever its name."""

    name: str
    source: str
    """Where it came from: a path, a hub id."""
    checksum: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the items."""
    count: int = Field(ge=0)


class EvalSettings(_Row):
    """Everything besides model, index and data that can change a figure."""

    name: str
    parameters: dict[str, JsonValue]

    @property
    def digest(self) -> str:
        """Equal settings have equal digests."""
        plain = json.dumps([self.name, self.parameters], sort_keys=True, ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()


class Run(_Row):
    """One evaluation from start to end; written again under the same id, it replaces what it said before."""

    id: str
    kind: Literal["rag"]
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed"]
    version: str
    """Of Trivet."""
    git_commit: str | None = None
    index_generation: str | None = None
    index_digest: str | None = None
    environment: dict[str, JsonValue] = Field(default_factory=dict)
    """Embedder, tokenizer, folder of the index … for people who look."""


class Result(_Row):
    """A figure."""

    metric: str
    """`page.mrr@10`, `answers.number` …"""
    part: str = ""
    """Of which items: `kind=table`; empty for all."""
    value: float
    low: float | None = None
    high: float | None = None
    n: int = Field(ge=0)
    """Items that it is a mean of."""


class Sample(_Row):
    """What became of one item."""

    item: str
    repeat: int = Field(default=0, ge=0)
    detail: dict[str, JsonValue]


class Evaluated(_Row):
    """What one run found on one data set."""

    run: Run
    dataset: Dataset
    settings: EvalSettings
    results: tuple[Result, ...]
    samples: tuple[Sample, ...] = ()


class Evaluations:
    """The evaluation tables; locate: gives the address of the database, called at the first use."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def write(self, evaluated: Sequence[Evaluated]) -> None:
        """Keep all or nothing; a row of the same run, data set and metric or item is replaced.

        Raises DatabaseUnavailable.
        """
        self._database.run(lambda connection: [_write(connection, one) for one in evaluated])

    def runs(self, *, limit: int = 50) -> list[Run]:
        """The latest runs, the last one first. Raises DatabaseUnavailable."""
        query = select(eval_runs).order_by(eval_runs.c.started_at.desc(), eval_runs.c.id).limit(limit)
        rows = self._database.run(lambda connection: connection.execute(query).mappings().all())
        return [Run.model_validate(unescape({**row})) for row in rows]

    def read(self, run: str) -> list[Evaluated]:
        """What the run found, an item per data set; none if it found nothing. Raises DatabaseUnavailable."""
        columns = (eval_results.c.dataset, eval_results.c.settings)
        found = select(*columns).distinct().where(eval_results.c.run == escape(run)).order_by(eval_results.c.dataset)
        return self._database.run(
            lambda connection: [
                _read(connection, escape(run), dataset, settings)
                for dataset, settings in connection.execute(found).all()
            ]
        )


def _write(connection: Connection, one: Evaluated) -> None:
    stored = {"digest": one.settings.digest, **one.settings.model_dump()}
    _upsert(connection, eval_settings, [stored], key=("digest",))
    _upsert(connection, eval_runs, [one.run.model_dump()], key=("id",))
    dataset = _dataset(connection, one.dataset)
    of_run = {"run": one.run.id, "dataset": dataset}
    results = [of_run | {"settings": one.settings.digest} | result.model_dump() for result in one.results]
    _upsert(connection, eval_results, results, key=("run", "dataset", "metric", "part"))
    items = [of_run | sample.model_dump() for sample in one.samples]
    _upsert(connection, samples, items, key=("run", "dataset", "item", "repeat"))


def _dataset(connection: Connection, dataset: Dataset) -> int:
    _upsert(connection, datasets, [dataset.model_dump()], key=("name", "checksum"))
    found = select(datasets.c.id).where(
        datasets.c.name == escape(dataset.name), datasets.c.checksum == dataset.checksum
    )
    return connection.execute(found).scalar_one()


def _upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], *, key: Sequence[str]) -> None:
    """Insert `rows`, whose keys differ; where a row of the same `key` is there, it takes the other values."""
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        statement = insert(table).values([escape(row) for row in rows[start : start + ROWS_PER_STATEMENT]])
        changed = {name: statement.excluded[name] for name in rows[0] if name not in key}
        connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=changed))


def _read(connection: Connection, run: str, dataset: int, settings: str) -> Evaluated:
    def rows(table: Table, *conditions: ColumnElement[bool], without: Sequence[str] = ()) -> list[dict[str, Any]]:
        found = connection.execute(select(table).where(*conditions).order_by(*table.primary_key)).mappings()
        return [{name: unescape(value) for name, value in row.items() if name not in without} for row in found]

    def of_run(table: Table, without: Sequence[str]) -> list[dict[str, Any]]:
        return rows(table, table.c.run == run, table.c.dataset == dataset, without=without)

    (ran,) = rows(eval_runs, eval_runs.c.id == run)
    (measured_on,) = rows(datasets, datasets.c.id == dataset, without=("id",))
    (chosen,) = rows(eval_settings, eval_settings.c.digest == settings, without=("digest",))
    return Evaluated(
        run=Run.model_validate(ran),
        dataset=Dataset.model_validate(measured_on),
        settings=EvalSettings.model_validate(chosen),
        results=tuple(map(Result.model_validate, of_run(eval_results, ("run", "dataset", "settings")))),
        samples=tuple(map(Sample.model_validate, of_run(samples, ("run", "dataset")))),
    )
