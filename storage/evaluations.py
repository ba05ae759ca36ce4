"""Results of evaluations in the database: what was measured, on which data, with which settings, by which run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from storage.connections import Reconnecting
from storage.evaluated import (
    SAMPLE_COLUMNS,
    SHOWN_CHARS,
    Dataset,
    EvalSettings,
    Evaluated,
    Graded,
    Model,
    Result,
    Run,
    Sample,
    StoredScore,
    Task,
    with_values,
    without_values,
)
from storage.records import Record
from storage.responses import escape, unescape, unescape_row
from storage.storage_errors import UnknownRun
from storage.tables import datasets, eval_results, eval_runs, eval_settings, eval_tasks, models, samples

SHORTEST_PREFIX = 6  # characters of an id
ROWS_PER_STATEMENT = 500  # most samples in memory at once
LISTED_RUNS = 5  # runs that an error names
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")
GRADED_PER_PAGE = 5_000
KEY_COLUMNS = ("run", "task", "dataset", "settings")
ORDER = (samples.c.dataset, samples.c.item, samples.c.repeat)
SampleKind = Literal["all", "wrong", "unscored", "refused", "too long", "truncated", "missing"]
_OUTCOME = sa.func.coalesce(samples.c.detail["outcome"].astext, "")
KINDS: dict[SampleKind, ColumnElement[bool]] = {
    "all": sa.true(),
    "wrong": (samples.c.status == "scored") & (samples.c.score < 1),
    "unscored": (samples.c.status == "unscored") & _OUTCOME.not_in(("refused", "too_long")),
    "refused": (samples.c.status == "unscored") & (_OUTCOME == "refused"),
    "too long": (samples.c.status == "unscored") & (_OUTCOME == "too_long"),
    "truncated": samples.c.truncated,
    "missing": samples.c.missing,
}
"""Kind → its samples; `wrong` is less than a full score; the three without one are apart, as in `Sample.outcome`."""


class After(NamedTuple):
    """The last sample of the page before, after which the next one begins."""

    item: str
    repeat: int


class RunScore(NamedTuple):
    """A score of a run on a task, with what tells whether another one is comparable."""

    metric: str
    part: str
    value: float
    std_err: float | None
    low: float | None
    high: float | None
    n: int
    headline: bool
    higher_is_better: bool
    checksum: str
    """SHA-256 of the data set's items, hex."""
    settings: str
    """Digest of the evaluation settings, hex."""
    revision: str = ""
    """Revision of the model, by which two sets of weights under one name are told apart; empty if unknown."""

    @property
    def comparable_by(self) -> tuple[str, str, str]:
        """Data, settings and metric: scores are comparable where these are equal."""
        return self.checksum, self.settings, self.metric


class Evaluations:
    """The evaluation tables. locate: see Reconnecting. Every method raises DatabaseUnavailable."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def write(self, evaluated: Sequence[Evaluated]) -> int:
        """Keep all or nothing, and return how many rows changed.

        A row of the same run, task, data set and metric or item is replaced; an equal one counts as unchanged.
        """
        return self._database.run(lambda connection: sum([_write(connection, evaluation) for evaluation in evaluated]))

    def write_run(self, run: Run) -> int:
        """Write the row of the run itself, as when it ends; return how many rows changed."""
        return self._database.run(lambda connection: _write_run(connection, run))

    def runs(self, *, kind: str | None = None, model: str | None = None, limit: int = 50) -> list[Run]:
        """Return the latest runs, the last one first, at most `limit`."""
        conditions = [eval_runs.c.kind == kind] if kind else []
        if model is not None:
            model_ids = select(models.c.id).where(models.c.name == escape(model))
            conditions.append(eval_runs.c.model.in_(model_ids))
        return self._runs(*conditions, limit=limit)

    def run(self, which: str) -> Run:
        """Return the run of this id, or of the id that begins with it (6 characters or more). Raises UnknownRun."""
        if runs := self._runs(eval_runs.c.id == escape(which), limit=1):
            return runs[0]
        if len(which) < SHORTEST_PREFIX or not RUN_ID.fullmatch(which):
            raise UnknownRun(
                f"no run has the id {which!r}; give {SHORTEST_PREFIX} characters or more; {self._latest_runs()}"
            )
        runs = self._runs(eval_runs.c.id.startswith(which, autoescape=True), limit=LISTED_RUNS)
        if not runs:
            raise UnknownRun(f"no run has an id that begins with {which}; {self._latest_runs()}")
        if len(runs) > 1:
            ids = ", ".join(run.id for run in runs)
            raise UnknownRun(f"{len(runs)} or more runs begin with {which}: {ids}; give more of the id")
        return runs[0]

    def comparable(self, run: str) -> set[str]:
        """Return IDs of the other runs that share a task with this one, whatever their settings."""
        tasks = select(eval_tasks.c.task).where(eval_tasks.c.run == escape(run))
        query = select(eval_tasks.c.run).where(eval_tasks.c.task.in_(tasks), eval_tasks.c.run != escape(run)).distinct()
        return {unescape(row["run"]) for row in self._database.rows(query)}

    def task_results(self, run: str) -> list[Evaluated]:
        """Return a run's results without samples, one value per task and data set, sorted; none for an unknown run."""
        return self._database.run(lambda connection: [*_read_results(connection, run)])

    def scores_of(self, runs: Collection[str], *, metrics: Collection[str]) -> dict[tuple[str, str], list[RunScore]]:
        """Return each task's headline and scores over all items by these metrics, by run and task; no unknown runs."""
        table, run_ids = eval_results.c, sa.literal(escape(list(runs)), sa.ARRAY(sa.Text))
        whole = (table.part == "") & table.metric.in_(escape(list(metrics)))
        columns = [table[name] for name in RunScore._fields if name not in ("checksum", "settings", "revision")]
        columns += [datasets.c.checksum, table.settings, func.coalesce(models.c.revision, "")]
        query = select(table.run, table.task, *columns).join(datasets)
        query = query.join(eval_runs, eval_runs.c.id == table.run).outerjoin(models, models.c.id == eval_runs.c.model)
        query = query.where(table.run == sa.any_(run_ids), table.headline | whole)
        by_task = dict[tuple[str, str], list[RunScore]]()
        plain = cache(unescape)  # a few words stand in thousands of rows
        rows = self._database.run(lambda connection: connection.execute(query).all())
        for run, task, metric, part, *rest, revision in rows:
            score = RunScore._make((plain(metric), plain(part), *rest, plain(revision)))
            by_task.setdefault((plain(run), plain(task)), []).append(score)
        return by_task

    def samples(self, run: str, task: str) -> Iterator[Sample]:
        """Yield the samples of a task by data set, item and repeat, read in pages."""
        return map(sample_of, self._pages(run, task, samples.c, rows=ROWS_PER_STATEMENT))

    def graded(self, run: str, task: str) -> Iterator[Graded]:
        """Yield the verdict on each sample of a task, without the fields that explain it; in the order of `samples`."""
        texts = (samples.c.extracted, samples.c.gold)
        beginnings = (func.left(column, SHOWN_CHARS + 1).label(column.name) for column in texts)
        columns = [*ORDER, *(samples.c[name] for name in ("status", "score", "missing")), *beginnings]
        for row in self._pages(run, task, columns, rows=GRADED_PER_PAGE):
            item, extracted, gold = unescape(row["item"]), unescape(row["extracted"]), unescape(row["gold"])
            yield Graded(item, row["status"], row["score"], extracted, gold, row["missing"])

    def sample_page(
        self, run: str, task: str, *, kind: SampleKind, after: After | None, most: int, words: str = ""
    ) -> list[Sample]:
        """Return up to `most` samples past `after`, of a kind and of the first data set, with `words` in any case."""
        first = _select_samples(run, task, [samples.c.dataset]).limit(1).scalar_subquery()
        query = _select_samples(run, task).where(samples.c.dataset == first, KINDS[kind]).limit(most)
        if words:
            sample_text = sa.func.concat_ws("\n", samples.c.item, samples.c.extracted, samples.c.gold, samples.c.reason)
            query = query.where(sample_text.icontains(escape(words), autoescape=True))
        if after:
            last = sa.literal(escape(after.item), sa.Text), sa.literal(after.repeat, sa.Integer)
            query = query.where(tuple_(samples.c.item, samples.c.repeat) > tuple_(*last))
        return [sample_of(row) for row in self._database.rows(query)]

    def _pages(self, run: str, task: str, columns: Iterable[ColumnElement[Any]], *, rows: int) -> Iterator[RowMapping]:
        """Yield samples in their order, read in pages of so many rows. columns: those of ORDER must be among them."""
        query = page_query = _select_samples(run, task, columns).limit(rows)
        while True:
            page = self._database.rows(page_query)
            yield from page
            if len(page) < rows:
                return
            # the primary key leads straight to those behind the last one
            last = tuple_(*(sa.literal(page[-1][column.name], column.type) for column in ORDER))
            page_query = query.where(tuple_(*ORDER) > last)

    def sample(self, run: str, task: str, item: str) -> list[Sample]:
        """Return the repeats of one item, in order; none where there is no such item."""
        query = _select_samples(run, task).where(samples.c.item == escape(item))
        return [sample_of(row) for row in self._database.rows(query)]

    def has(self, run: str, counts: Mapping[str, int]) -> bool:
        """Return whether the run is there with each of these tasks and its number of samples; it may have others."""
        of_task = (samples.c.run == eval_tasks.c.run) & (samples.c.task == eval_tasks.c.task)
        query = select(eval_runs.c.id, eval_tasks.c.task, func.count(samples.c.item).label("kept"))
        query = query.outerjoin(eval_tasks, eval_tasks.c.run == eval_runs.c.id).outerjoin(samples, of_task)
        query = query.where(eval_runs.c.id == escape(run)).group_by(eval_runs.c.id, eval_tasks.c.task)
        counted = {unescape(row["task"]): row["kept"] for row in self._database.rows(query)}
        return bool(counted) and all(counted.get(task) == count for task, count in counts.items())

    def scores(
        self, *, models: Sequence[str] | None = None, tasks: Sequence[str] | None = None, all_runs: bool = False
    ) -> list[StoredScore]:
        """Return the headlines of models on benchmarks, by model and task.

        models, tasks: names; None: all. Of several runs of the same model (name, revision and backend) on a task with
        the same settings the latest counts, completed ones before failed ones; `all_runs` gives each that has ended.
        """
        rows = self._database.rows(_select_scores(models, tasks, all_runs))
        return [StoredScore.model_validate(unescape_row(row)) for row in rows]

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
        """Return the ID of the latest completed run of exactly this model, data and settings; None if there is none."""
        return self._latest(
            models.c.name == escape(model_name),
            models.c.revision == escape(model_revision),
            models.c.backend == escape(backend),
            datasets.c.name == escape(dataset_name),
            datasets.c.checksum == dataset_checksum,
            eval_tasks.c.settings == settings_digest,
        )

    def previous(
        self, *, model_name: str, task: str, dataset_checksum: str, settings_digest: str, before: datetime
    ) -> str | None:
        """Return the ID of the last completed run that began before a time, of any revision of the model, or None."""
        return self._latest(
            models.c.name == escape(model_name),
            eval_tasks.c.task == escape(task),
            datasets.c.checksum == dataset_checksum,
            eval_tasks.c.settings == settings_digest,
            eval_runs.c.started_at < before,
        )

    def _latest(self, *conditions: ColumnElement[bool]) -> str | None:
        """Return the id of the latest completed run that meets the conditions; None if there is none."""
        query = select(eval_runs.c.id).join(models).join(eval_tasks).join(datasets)
        query = query.where(eval_runs.c.status == "completed", *conditions)
        rows = self._database.rows(query.order_by(eval_runs.c.started_at.desc()).limit(1))
        return unescape(rows[0]["id"]) if rows else None

    def _runs(self, *conditions: ColumnElement[bool], limit: int) -> list[Run]:
        return self._database.run(lambda connection: _read_runs(connection, *conditions, limit=limit))

    def _latest_runs(self) -> str:
        runs = self.runs(limit=LISTED_RUNS)
        names = ", ".join(f"{run.id} ({run.model.name if run.model else run.kind})" for run in runs)
        return f"the latest are {names}" if names else "none has been kept yet"


def sample_of(row: RowMapping) -> Sample:
    """Return the sample in a row of the table."""
    fields = {column: field for field, column in SAMPLE_COLUMNS.items()}
    values = unescape_row(row, *KEY_COLUMNS)
    return Sample.model_validate({fields.get(name, name): value for name, value in values.items()})


def _read_runs(connection: Connection, *conditions: ColumnElement[bool], limit: int) -> list[Run]:
    """Return the runs with their models, the last one first."""
    query = select(eval_runs).where(*conditions).order_by(eval_runs.c.started_at.desc(), eval_runs.c.id).limit(limit)
    rows = connection.execute(query).mappings().all()
    measured = [row["model"] for row in rows if row["model"] is not None]
    model_rows = connection.execute(select(models).where(models.c.id.in_(measured))).mappings()
    model_of = {row["id"]: Model.model_validate(unescape_row(row, "id", "created_at")) for row in model_rows}
    return [Run.model_validate(unescape_row(row) | {"model": model_of.get(row["model"])}) for row in rows]


def _read_results(connection: Connection, run: str) -> Iterator[Evaluated]:
    """Yield the results of a run without samples, by task and data set."""
    # rows of the run by task, data set and settings; texts as they are stored
    results_by_key = dict[tuple[str, int, str], list[RowMapping]]()
    tasks_by_key = dict[tuple[str, int, str], list[RowMapping]]()
    for table, rows in ((eval_results, results_by_key), (eval_tasks, tasks_by_key)):
        query = select(table).where(table.c.run == escape(run)).order_by(*table.primary_key)
        for row in connection.execute(query).mappings():
            rows.setdefault((row["task"], row["dataset"], row["settings"]), []).append(row)
    keys = sorted(results_by_key.keys() | tasks_by_key.keys())
    runs = _read_runs(connection, eval_runs.c.id == escape(run), limit=1)
    data = _rows_by_key(connection, datasets.c.id, {dataset for _, dataset, _ in keys})
    settings_of = _rows_by_key(connection, eval_settings.c.digest, {settings for *_, settings in keys})
    for key in keys:
        _, dataset, settings = key
        results = [Result.model_validate(unescape_row(row, *KEY_COLUMNS)) for row in results_by_key.get(key, ())]
        task_rows = (unescape_row(row, "run", "dataset", "settings") for row in tasks_by_key.get(key, ()))
        tasks = [Task.model_validate(row) for row in task_rows]
        yield Evaluated(
            run=runs[0],
            dataset=Dataset.model_validate(data[dataset]),
            settings=EvalSettings.model_validate(settings_of[settings]),
            results=tuple(results),
            task=with_values(tasks[0], results) if tasks else None,
        )


def _rows_by_key(connection: Connection, column: sa.Column[Any], values: Collection[Any]) -> dict[Any, dict[str, Any]]:
    """Return the rows of the table of a column, by its value, without it."""
    query = select(column.table).where(column.in_(values))
    return {row[column.name]: unescape_row(row, column.name) for row in connection.execute(query).mappings()}


def _select_samples(run: str, task: str, columns: Iterable[ColumnElement[Any]] = samples.c) -> Select[Any]:
    """Return the query of a task's samples, by data set, item and repeat."""
    query = select(*columns).where(samples.c.run == escape(run), samples.c.task == escape(task))
    return query.order_by(*ORDER)


def _select_scores(model_names: Sequence[str] | None, tasks: Sequence[str] | None, all_runs: bool) -> Select[Any]:
    """Return the query of headlines: of a model's runs on a task with the same settings, the one that counts."""
    # as `scores` promises: the latest counts, completed ones before failed ones
    same_work = (models.c.id, eval_tasks.c.task, eval_tasks.c.settings)
    ended = func.coalesce(eval_runs.c.ended_at, eval_runs.c.started_at)
    later = ((eval_runs.c.status == "completed").desc(), ended.desc(), eval_runs.c.id)
    place = func.row_number().over(partition_by=same_work, order_by=later).label("place")
    ranked = select(eval_tasks.c.run, eval_tasks.c.task, place).select_from(eval_tasks.join(eval_runs).join(models))
    ranked = ranked.where(eval_runs.c.status != "running")
    if model_names is not None:
        ranked = ranked.where(models.c.name.in_(escape(list(model_names))))
    if tasks is not None:
        ranked = ranked.where(eval_tasks.c.task.in_(escape(list(tasks))))
    latest, results = ranked.subquery(), eval_results.c
    query = (
        select(
            eval_runs.c.id.label("run"),
            eval_runs.c.status,
            models.c.name.label("model"),
            models.c.revision,
            models.c.backend,
            eval_tasks.c.task,
            datasets.c.checksum.label("dataset_checksum"),
            eval_tasks.c.settings.label("settings_digest"),
            eval_settings.c.parameters.label("settings"),
            *(eval_tasks.c.counts, eval_tasks.c.usage, eval_runs.c.ended_at),
            *(results[name] for name in Result.model_fields),
        )
        .select_from(latest)
        .join(eval_tasks, (eval_tasks.c.run == latest.c.run) & (eval_tasks.c.task == latest.c.task))
        .join(eval_runs, eval_runs.c.id == eval_tasks.c.run)
        .join(models, models.c.id == eval_runs.c.model)
        .join(datasets, datasets.c.id == eval_tasks.c.dataset)
        .join(eval_settings, eval_settings.c.digest == eval_tasks.c.settings)
        .join(eval_results, (results.run == eval_tasks.c.run) & (results.task == eval_tasks.c.task))
        .where(results.headline, results.part == "")
        .order_by(models.c.name, models.c.id, eval_tasks.c.task, results.metric, eval_runs.c.started_at)
    )
    return query if all_runs else query.where(latest.c.place == 1)


def _write(connection: Connection, evaluation: Evaluated) -> int:
    """Write a task of a run with its samples, and return how many rows changed."""
    settings = {"digest": evaluation.settings.digest, **evaluation.settings.model_dump()}
    changed = _upsert(connection, eval_settings, [settings], key=("digest",))
    changed += _write_run(connection, evaluation.run)
    dataset, new = _upsert_identified(connection, datasets, evaluation.dataset.model_dump(), key=("name", "checksum"))
    changed += new
    name = evaluation.task.task if evaluation.task else ""
    of_task = {"run": evaluation.run.id, "task": name, "dataset": dataset}
    with_settings = of_task | {"settings": evaluation.settings.digest}
    if evaluation.task:
        row = with_settings | _column_values(evaluation.task)
        row["metrics"] = without_values(evaluation.task.metrics, evaluation.results)
        changed += _upsert(connection, eval_tasks, [row], key=("run", "task"))
    results = (with_settings | result.model_dump() for result in evaluation.results)
    changed += _upsert(connection, eval_results, results, key=("run", "task", "dataset", "metric", "part"))
    all_samples = chain(evaluation.samples, evaluation.more_samples() if evaluation.more_samples else ())
    items = (
        of_task | {SAMPLE_COLUMNS.get(name, name): value for name, value in _column_values(sample).items()}
        for sample in all_samples
    )
    return changed + _upsert(connection, samples, items, key=("run", "task", "dataset", "item", "repeat"))


def _write_run(connection: Connection, run: Run) -> int:
    """Write a run and its model, if it names one, and return how many rows changed."""
    model, changed = None, 0
    if run.model:
        key = ("name", "revision", "backend")
        model, changed = _upsert_identified(connection, models, _column_values(run.model), key=key)
    row = _column_values(run) | {"model": model}
    return changed + _upsert(connection, eval_runs, [row], key=("id",))


def _column_values(value: Record) -> dict[str, Any]:
    """Return a value's fields as columns take them; not as JSON, where pydantic gives up lone surrogates."""
    return {name: list(field) if isinstance(field, tuple) else field for name, field in value.model_dump().items()}


def _upsert_identified(
    connection: Connection, table: Table, row: dict[str, Any], *, key: Sequence[str]
) -> tuple[int, int]:
    """Insert or update the row with this natural key; return its id, and how many rows changed for it."""
    changed = _upsert(connection, table, [row], key=key)
    conditions = (table.c[name] == escape(row[name]) for name in key)
    return connection.execute(select(table.c.id).where(*conditions)).scalar_one(), changed


def _upsert(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]], *, key: Sequence[str]) -> int:
    """Insert `rows`; where one of the same `key` is there, it takes the other values. Return how many rows changed.

    A value that is not known (None) leaves a known one of a model as it was: others may have said more of it.
    """
    changed, remaining = 0, iter(rows)
    while group := [escape(dict(row)) for row in islice(remaining, ROWS_PER_STATEMENT)]:
        distinct = {tuple(row[name] for name in key): row for row in group}  # the last of equal ones stays
        # one parameter for any number of rows: a third of the time that one for each value takes
        source = sa.text(f"json_populate_recordset(cast(null as {table.name}), cast(:rows as json))")
        selected = select(*map(sa.literal_column, group[0])).select_from(source)
        statement = insert(table).from_select(list(group[0]), selected)
        new = {name: statement.excluded[name] for name in group[0] if name not in key}
        if table is models:
            new = {name: func.coalesce(value, table.c[name]) for name, value in new.items()}
        differs = tuple_(*(table.c[name] for name in new)).is_distinct_from(tuple_(*new.values()))
        statement = statement.on_conflict_do_update(index_elements=list(key), set_=new, where=differs)
        parameters = {"rows": json.dumps([*distinct.values()], default=str)}
        statement = statement.execution_options(preserve_rowcount=True)  # else SQLAlchemy counts no inserted rows
        changed += connection.execute(statement, parameters).rowcount
    return changed
