"""Pages of samples: those of a run by kind, and those on which two runs differ; counted and cut by the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Select, func, select, tuple_

from storage.connections import Reconnecting
from storage.evaluated import SAMPLE_COLUMNS, Sample
from storage.responses import escape, unescape, unescape_row
from storage.tables import eval_results, eval_tasks, samples

SampleKind = Literal["all", "wrong", "unscored", "truncated", "missing"]
KEY_COLUMNS = ("run", "task", "dataset", "settings")
KINDS: dict[SampleKind, ColumnElement[bool]] = {
    "all": sa.true(),
    "wrong": (samples.c.status == "scored") & (samples.c.score < 1),
    "unscored": samples.c.status == "unscored",
    "truncated": samples.c.truncated,
    "missing": samples.c.missing,
}
"""Kind → its samples; `wrong` is less than a full score."""


class After(NamedTuple):
    """The last sample of the page before, after which the next one begins."""

    item: str
    repeat: int


class Flip(NamedTuple):
    """An item on which two runs differ; scores are means over repeats."""

    item: str
    before: float
    after: float
    answer_before: str | None
    """The answer extracted from the first repeat of the earlier run."""
    answer_after: str | None
    gold: str | None


class Pairs(NamedTuple):
    """Number `n` of items that have these two scores, means over repeats, in two runs."""

    before: float
    after: float
    n: int


class SamplePages:
    """Samples in the database. locate: see Reconnecting. Every method raises DatabaseUnavailable."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def page(
        self, run: str, task: str, *, kind: SampleKind, after: After | None, most: int, since: str = ""
    ) -> list[Sample]:
        """Return the samples by item and repeat, from the one after `after` on.

        since: another run; only those whose score or extracted answer is another one there.
        """
        query = select(samples).where(*_task_conditions(samples, run, task), KINDS[kind])
        if since:
            before = samples.alias("before")
            score, extracted = before.c.score, before.c.extracted
            same_repeat = before.c.item == samples.c.item, before.c.repeat == samples.c.repeat
            moved = score.is_distinct_from(samples.c.score) | extracted.is_distinct_from(samples.c.extracted)
            query = query.where(sa.exists().where(*_task_conditions(before, since, task), *same_repeat, moved))
        if after:
            last = tuple_(sa.literal(escape(after.item), sa.Text), sa.literal(after.repeat, sa.Integer))
            query = query.where(tuple_(samples.c.item, samples.c.repeat) > last)
        rows = self._database.rows(query.order_by(samples.c.item, samples.c.repeat).limit(most))
        return list(map(sample_of, rows))

    def comparable(self, run: str) -> set[str]:
        """Return IDs of the other runs that share a task with this one, whatever their settings."""
        tasks = select(eval_tasks.c.task).where(eval_tasks.c.run == escape(run))
        query = select(eval_tasks.c.run).where(eval_tasks.c.task.in_(tasks), eval_tasks.c.run != escape(run)).distinct()
        return {unescape(row["run"]) for row in self._database.rows(query)}

    def pairs(self, first: str, second: str, task: str) -> list[Pairs]:
        """Count how often each pair of scores occurs among the items that both runs scored."""
        paired = _pair_scores(first, second, task)
        scores = paired.c.before, paired.c.after
        query = select(*scores, func.count().label("n")).group_by(*scores).order_by(*scores)
        return [Pairs(**row) for row in self._read_grouped(query)]

    def flips(self, first: str, second: str, task: str, *, worse: bool, start: int, most: int) -> list[Flip]:
        """Return items whose score in the second run is lower (`worse`) or higher, the largest change first."""
        paired = _pair_scores(first, second, task)
        query = (
            select(paired)
            .where(paired.c.after < paired.c.before if worse else paired.c.after > paired.c.before)
            .order_by(func.abs(paired.c.after - paired.c.before).desc(), paired.c.item)
            .offset(start)
            .limit(most)
        )
        rows = self._read_grouped(query)
        items = [row["item"] for row in rows]
        answers_before, answers_after = (self._answers(run, task, items) for run in (first, second))
        nothing = (None, None)
        return [
            Flip(
                item=unescape(row["item"]),
                before=row["before"],
                after=row["after"],
                answer_before=answers_before.get(row["item"], nothing)[0],
                answer_after=answers_after.get(row["item"], nothing)[0],
                gold=answers_after.get(row["item"], nothing)[1] or answers_before.get(row["item"], nothing)[1],
            )
            for row in rows
        ]

    def _read_grouped(self, query: Select[Any]) -> list[sa.RowMapping]:
        """Return the rows of a query that groups many items, which the usual 4 MB would have sorted on disk."""

        def read(connection: sa.Connection) -> list[sa.RowMapping]:
            connection.execute(sa.text("set local work_mem = '128MB'"))
            return list(connection.execute(query).mappings())

        return self._database.run(read)

    def _answers(self, run: str, task: str, items: list[str]) -> dict[str, tuple[str | None, str | None]]:
        """Return extracted answer and gold of the first repeat of each item."""
        query = (
            select(samples.c.item, samples.c.extracted, samples.c.gold)
            .where(samples.c.run == escape(run), samples.c.task == escape(task), samples.c.item.in_(items))
            .order_by(samples.c.item, samples.c.repeat.desc())  # the first repeat last: it stays in the dict
        )
        rows = self._database.rows(query) if items else []
        return {row["item"]: (unescape(row["extracted"]), unescape(row["gold"])) for row in rows}


def sample_of(row: sa.RowMapping) -> Sample:
    """Return the sample in a row of the table."""
    fields = {column: field for field, column in SAMPLE_COLUMNS.items()}
    values = unescape_row(row, *KEY_COLUMNS)
    return Sample.model_validate({fields.get(name, name): value for name, value in values.items()})


def _task_conditions(table: sa.FromClause, run: str, task: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of a task's samples; the data set as a value lets the primary key give the order."""
    dataset_ids = (
        select(results.c.dataset).where(results.c.run == escape(run), results.c.task == escape(task)).limit(1)
        for results in (eval_tasks, eval_results)  # selectors have results and no task
    )
    dataset = func.coalesce(*(dataset_id.scalar_subquery() for dataset_id in dataset_ids))
    return table.c.run == escape(run), table.c.task == escape(task), table.c.dataset == dataset


def _pair_scores(first: str, second: str, task: str) -> sa.Subquery:
    """Return the subquery of the mean scores of each item that both runs scored.

    One pass over the samples: a join of two runs becomes a nested loop where the database has no statistics yet.
    """
    before, after = (func.avg(samples.c.score).filter(samples.c.run == escape(run)) for run in (first, second))
    query: Select[Any] = (
        select(samples.c.item, before.label("before"), after.label("after"))
        .where(samples.c.run.in_([escape(first), escape(second)]), samples.c.task == escape(task))
        .where(samples.c.status == "scored", samples.c.score.is_not(None))
        .group_by(samples.c.item)
        .having(before.is_not(None) & after.is_not(None))
    )
    return query.subquery()
