"""Results of evaluations in the database: what was measured, on which data, with which settings, by which run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

from sqlalchemy import Connection, Table, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from storage import evaluation_queries as queries
from storage.evaluated import (
    Dataset,
    EvalSettings,
    Evaluated,
    Model,
    Result,
    Run,
    Sample,
    StoredScore,
    Task,
)
from storage.reconnecting import Reconnecting
from storage.records import Record
from storage.responses import escape, unescape
from storage.storage_errors import UnknownRun
from storage.tables import datasets, eval_results, eval_runs, eval_settings, eval_tasks, models, samples

__all__ = [
    "Dataset",
    "EvalSettings",
    "Evaluated",
    "Evaluations",
    "Model",
    "Result",
    "Run",
    "Sample",
    "StoredScore",
    "Task",
]

ROWS_PER_STATEMENT = 500
"""So many samples are in memory at once."""
SHORTEST_PREFIX = 6
NAMED = 5
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")


class Evaluations:
    """The evaluation tables; locate: gives the address of the database, called at the first use."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def write(self, evaluated: Sequence[Evaluated]) -> int:
        """Keep all or nothing, and count the rows that changed; what stands there already changes nothing.

        A row of the same run, task, data set and metric or item is replaced. Raises DatabaseUnavailable.
        """
        return self._database.run(lambda connection: sum([_write(connection, one) for one in evaluated]))

    def write_run(self, run: Run) -> int:
        """Keep what is said of the run itself, as when it ends. Raises DatabaseUnavailable."""
        return self._database.run(lambda connection: _write_run(connection, run))

    def runs(self, *, kind: str | None = None, model: str | None = None, limit: int = 50) -> list[Run]:
        """The latest runs, the last one first. Raises DatabaseUnavailable."""
        conditions = [eval_runs.c.kind == kind] if kind else []
        if model is not None:
            named = select(models.c.id).where(models.c.name == escape(model))
            conditions.append(eval_runs.c.model.in_(named))
        return self._database.run(lambda connection: queries.runs(connection, *conditions, limit=limit))

    def run(self, which: str) -> Run:
        """The run of this id, or of the id that begins with it (6 characters or more).

        Raises UnknownRun, DatabaseUnavailable.
        """
        exact = eval_runs.c.id == escape(which)
        if found := self._database.run(lambda connection: queries.runs(connection, exact, limit=1)):
            return found[0]
        if len(which) < SHORTEST_PREFIX or not RUN_ID.fullmatch(which):
            raise UnknownRun(f"no run has the id {which!r}; give {SHORTEST_PREFIX} characters or more; {self._known()}")
        begins = eval_runs.c.id.startswith(which, autoescape=True)
        found = self._database.run(lambda connection: queries.runs(connection, begins, limit=NAMED))
        if not found:
            raise UnknownRun(f"no run has an id that begins with {which}; {self._known()}")
        if len(found) > 1:
            named = ", ".join(run.id for run in found)
            raise UnknownRun(f"{len(found)} or more runs begin with {which}: {named}; give more of the id")
        return found[0]

    def read(self, run: str) -> list[Evaluated]:
        """What the run found, with all samples, an item per task and data set; none if it found nothing.

        Raises DatabaseUnavailable.
        """
        return self._database.run(lambda connection: _read(connection, run, with_samples=True))

    def task_results(self, run: str) -> list[Evaluated]:
        """What the run found, without samples. Raises DatabaseUnavailable."""
        return self._database.run(lambda connection: _read(connection, run, with_samples=False))

    def samples(self, run: str, task: str) -> Iterator[Sample]:
        """The samples of a task by item and repeat, some at a time. Raises DatabaseUnavailable."""
        after: tuple[str, int] | None = None
        while True:
            page = self._database.run(
                lambda connection, after=after: queries.samples_of(
                    connection, run, task, after=after, limit=ROWS_PER_STATEMENT
                )
            )
            yield from page
            if len(page) < ROWS_PER_STATEMENT:
                return
            after = (page[-1].item, page[-1].repeat)

    def sample(self, run: str, task: str, item: str) -> list[Sample]:
        """The repeats of one item; none where there is no such item. Raises DatabaseUnavailable."""
        return self._database.run(lambda connection: queries.samples_of(connection, run, task, item=item))

    def has(self, run: str, counts: Mapping[str, int]) -> bool:
        """True when the run is there with each of these tasks and its number of samples. Raises DatabaseUnavailable."""
        return self._database.run(lambda connection: queries.has(connection, run, counts))

    def scores(
        self, *, models: Sequence[str] | None = None, tasks: Sequence[str] | None = None, all_runs: bool = False
    ) -> list[StoredScore]:
        """Figures of models on benchmarks, by model, task, metric and part. Raises DatabaseUnavailable.

        models: by name; tasks: by name; None: all. Of several runs of the same model (name, revision and backend) on
        a task with the same settings the latest counts, one that was completed before one that failed; `all_runs`
        gives each. What still runs is left out.
        """
        return self._database.run(
            lambda connection: queries.scores(connection, models_named=models, tasks=tasks, all_runs=all_runs)
        )

    def evaluated_before(
        self,
        *,
        model_name: str,
        model_revision: str,
        backend: str,
        dataset_name: str,
        dataset_checksum: str,
        settings_digest: str,
    ) -> str | None:
        """The latest completed run of exactly this; None if there is none. Raises DatabaseUnavailable."""
        conditions = (
            models.c.name == escape(model_name),
            models.c.revision == escape(model_revision),
            models.c.backend == escape(backend),
            datasets.c.name == escape(dataset_name),
            datasets.c.checksum == dataset_checksum,
            eval_tasks.c.settings == settings_digest,
        )
        return self._database.run(lambda connection: queries.earlier_run(connection, *conditions))

    def previous(
        self, *, model_name: str, task: str, dataset_checksum: str, settings_digest: str, before: datetime
    ) -> str | None:
        """The last completed run before a time by the same model, of whatever revision. Raises DatabaseUnavailable."""
        conditions = (
            models.c.name == escape(model_name),
            eval_tasks.c.task == escape(task),
            datasets.c.checksum == dataset_checksum,
            eval_tasks.c.settings == settings_digest,
            eval_runs.c.started_at < before,
        )
        return self._database.run(lambda connection: queries.earlier_run(connection, *conditions))

    def _known(self) -> str:
        named = ", ".join(f"{run.id} ({run.model.name if run.model else run.kind})" for run in self.runs(limit=NAMED))
        return f"the latest are {named}" if named else "none has been kept yet"


def _write(connection: Connection, one: Evaluated) -> int:
    changed = _upsert(connection, eval_settings, [_settings(one.settings)], key=("digest",))
    changed += _write_run(connection, one.run)
    dataset, new = _identified(connection, datasets, one.dataset.model_dump(), key=("name", "checksum"))
    changed += new
    name = one.task.task if one.task else ""
    of_task = {"run": one.run.id, "task": name, "dataset": dataset}
    if one.task:
        row = of_task | {"settings": one.settings.digest} | _row(one.task)
        changed += _upsert(connection, eval_tasks, [row], key=("run", "task"))
    results = (of_task | {"settings": one.settings.digest} | result.model_dump() for result in one.results)
    changed += _upsert(connection, eval_results, results, key=("run", "task", "dataset", "metric", "part"))
    made = chain(one.samples, one.more_samples() if one.more_samples else ())
    items = (of_task | _row(sample) for sample in made)
    return changed + _upsert(connection, samples, items, key=("run", "task", "dataset", "item", "repeat"))


def _write_run(connection: Connection, run: Run) -> int:
    model, changed = None, 0
    if run.model:
        key = ("name", "revision", "backend")
        model, changed = _identified(connection, models, _row(run.model), key=key)
    row = _row(run) | {"model": model}
    return changed + _upsert(connection, eval_runs, [row], key=("id",))


def _row(value: Record) -> dict[str, Any]:
    """Its fields as columns take them; not as JSON, where pydantic gives up lone surrogates."""
    return {name: list(field) if isinstance(field, tuple) else field for name, field in value.model_dump().items()}


def _settings(settings: EvalSettings) -> dict[str, Any]:
    return {"digest": settings.digest, **settings.model_dump()}


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
        statement = insert(table).execution_options(preserve_rowcount=True)
        new = {name: statement.excluded[name] for name in group[0] if name not in key}
        if table is models:
            new = {name: func.coalesce(value, table.c[name]) for name, value in new.items()}
        differs = tuple_(*(table.c[name] for name in new)).is_distinct_from(tuple_(*new.values()))
        statement = statement.on_conflict_do_update(index_elements=list(key), set_=new, where=differs)
        changed += connection.execute(statement, group).rowcount
    return changed


def _read(connection: Connection, run: str, *, with_samples: bool) -> list[Evaluated]:
    made = queries.runs(connection, eval_runs.c.id == escape(run), limit=1)
    read: list[Evaluated] = []
    for found in queries.found_by(connection, run) if made else ():
        one = queries.evaluated(connection, made[0], found)
        if with_samples:
            rows = queries.samples_of(connection, run, unescape(found.task), dataset=found.dataset)
            one = one.model_copy(update={"samples": tuple(rows)})
        read.append(one)
    return read
