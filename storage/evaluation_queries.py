"""Reading the evaluation tables: functions of a connection that storage.evaluations runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    RowMapping,
    Select,
    Subquery,
    Table,
    Text,
    func,
    literal,
    select,
    tuple_,
    union,
)

from storage.evaluated import Dataset, EvalSettings, Evaluated, Model, Result, Run, Sample, StoredScore, Task
from storage.responses import escape, unescape
from storage.tables import datasets, eval_results, eval_runs, eval_settings, eval_tasks, models, samples

KEY_COLUMNS = ("run", "task", "dataset", "settings")


class Found(NamedTuple):
    """Names what one run found on one data set."""

    task: str
    dataset: int
    settings: str


def runs(connection: Connection, *conditions: ColumnElement[bool], limit: int) -> list[Run]:
    """Runs with their models, the last one first."""
    query = select(eval_runs).where(*conditions).order_by(eval_runs.c.started_at.desc(), eval_runs.c.id).limit(limit)
    rows = connection.execute(query).mappings().all()
    known = _models(connection, {row["model"] for row in rows if row["model"] is not None})
    return [Run.model_validate(_plain(row) | {"model": known.get(row["model"])}) for row in rows]


def found_by(connection: Connection, run: str) -> list[Found]:
    """What there is of a run, by task and data set."""
    columns = ("task", "dataset", "settings")
    figures = select(*(eval_results.c[name] for name in columns)).where(eval_results.c.run == escape(run))
    tasks = select(*(eval_tasks.c[name] for name in columns)).where(eval_tasks.c.run == escape(run))
    return sorted(Found(*row) for row in connection.execute(union(figures, tasks)))


def evaluated(connection: Connection, run: Run, found: Found) -> Evaluated:
    """What a run found on one data set, without its samples."""
    of_run = {"run": escape(run.id), "task": found.task}
    (measured_on,) = _rows(connection, datasets, {"id": found.dataset}, without=("id",))
    (chosen,) = _rows(connection, eval_settings, {"digest": found.settings}, without=("digest",))
    figures = _rows(connection, eval_results, {**of_run, "dataset": found.dataset}, without=KEY_COLUMNS)
    task = _rows(connection, eval_tasks, of_run, without=("run", "dataset", "settings"))
    return Evaluated(
        run=run,
        dataset=Dataset.model_validate(measured_on),
        settings=EvalSettings.model_validate(chosen),
        results=tuple(map(Result.model_validate, figures)),
        task=Task.model_validate(task[0]) if task else None,
    )


def samples_of(
    connection: Connection,
    run: str,
    task: str,
    *,
    dataset: int | None = None,
    item: str | None = None,
    after: tuple[str, int] | None = None,
    limit: int | None = None,
) -> list[Sample]:
    """Samples by item and repeat. after: the item and repeat of the last one that is known already."""
    place = tuple_(samples.c.item, samples.c.repeat)
    query = select(samples).where(samples.c.run == escape(run), samples.c.task == escape(task))
    if dataset is not None:
        query = query.where(samples.c.dataset == dataset)
    if item is not None:
        query = query.where(samples.c.item == escape(item))
    if after is not None:
        query = query.where(place > tuple_(literal(escape(after[0]), Text), literal(after[1], Integer)))
    rows = connection.execute(query.order_by(samples.c.item, samples.c.repeat).limit(limit)).mappings()
    return [Sample.model_validate(_plain(row, without=KEY_COLUMNS)) for row in rows]


def has(connection: Connection, run: str, counts: Mapping[str, int]) -> bool:
    """True when the run is there with each of these tasks and its number of samples."""
    kept = func.count(samples.c.item)
    same = (samples.c.run == eval_tasks.c.run) & (samples.c.task == eval_tasks.c.task)
    query = select(eval_tasks.c.task, kept).outerjoin(samples, same).where(eval_tasks.c.run == escape(run))
    found = {unescape(task): count for task, count in connection.execute(query.group_by(eval_tasks.c.task))}
    there = connection.execute(select(eval_runs.c.id).where(eval_runs.c.id == escape(run))).first()
    return there is not None and all(found.get(task) == count for task, count in counts.items())


def scores(
    connection: Connection, *, models_named: Sequence[str] | None, tasks: Sequence[str] | None, all_runs: bool
) -> list[StoredScore]:
    """Figures of models; of several runs of a model on a task with the same settings, the latest complete one."""
    place = func.row_number().over(partition_by=_SAME, order_by=_LATER).label("place")
    ranked = select(eval_tasks.c.run, eval_tasks.c.task, place).select_from(eval_tasks.join(eval_runs).join(models))
    ranked = ranked.where(eval_runs.c.status != "running")
    if models_named is not None:
        ranked = ranked.where(models.c.name.in_(escape(list(models_named))))
    if tasks is not None:
        ranked = ranked.where(eval_tasks.c.task.in_(escape(list(tasks))))
    query = _score_columns(ranked.subquery(), all_runs=all_runs)
    rows = connection.execute(query).mappings()
    return [StoredScore.model_validate(_plain(row)) for row in rows]


def earlier_run(connection: Connection, *conditions: ColumnElement[bool]) -> str | None:
    """Id of the latest completed run of a model on a task that fits."""
    query = select(eval_runs.c.id).join(models).join(eval_tasks).join(datasets)
    query = query.where(eval_runs.c.status == "completed", *conditions)
    return unescape(connection.execute(query.order_by(eval_runs.c.started_at.desc()).limit(1)).scalar())


_SAME = (models.c.id, eval_tasks.c.task, eval_tasks.c.settings)
_LATER = (
    (eval_runs.c.status == "completed").desc(),
    func.coalesce(eval_runs.c.ended_at, eval_runs.c.started_at).desc(),
    eval_runs.c.id,
)


def _score_columns(wanted: Subquery, *, all_runs: bool) -> Select[Any]:
    figures = eval_results.c
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
            *(eval_tasks.c.counts, eval_tasks.c.usage, eval_runs.c.ended_at),
            *(figures[name] for name in Result.model_fields),
        )
        .select_from(wanted)
        .join(eval_tasks, (eval_tasks.c.run == wanted.c.run) & (eval_tasks.c.task == wanted.c.task))
        .join(eval_runs, eval_runs.c.id == eval_tasks.c.run)
        .join(models, models.c.id == eval_runs.c.model)
        .join(datasets, datasets.c.id == eval_tasks.c.dataset)
        .join(eval_results, (figures.run == eval_tasks.c.run) & (figures.task == eval_tasks.c.task))
        .order_by(models.c.name, models.c.id, eval_tasks.c.task, figures.metric, figures.part, eval_runs.c.started_at)
    )
    return query if all_runs else query.where(wanted.c.place == 1)


def _models(connection: Connection, ids: Iterable[int]) -> dict[int, Model]:
    rows = connection.execute(select(models).where(models.c.id.in_(list(ids)))).mappings().all()
    return {row["id"]: Model.model_validate(_plain(row, without=("id", "created_at"))) for row in rows}


def _rows(
    connection: Connection, table: Table, fits: Mapping[str, Any], *, without: Sequence[str]
) -> list[dict[str, Any]]:
    query = select(table).where(*(table.c[name] == value for name, value in fits.items())).order_by(*table.primary_key)
    return [_plain(row, without=without) for row in connection.execute(query).mappings()]


def _plain(row: RowMapping, *, without: Sequence[str] = ()) -> dict[str, Any]:
    return {name: unescape(value) for name, value in row.items() if name not in without}
