"""Sums over the tables, for a monitor: model calls, costs, open incidents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select, text

from storage.connections import Reconnecting
from storage.tables import eval_runs, model_failures, night_incidents, responses

SETTLED = text("now() - interval '30 seconds'")
"""A row may become visible a little later than its time says."""


class Calls(NamedTuple):
    """Answers of one model that the response store has got since it was looked at last."""

    backend: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    latency_s: float

    def plus(self, other: Calls) -> Calls:
        return Calls(
            self.backend,
            self.model,
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.latency_s + other.latency_s,
        )


class Totals:
    """Looks into one database, again and again; rows that were counted are not read again. Raises DatabaseUnavailable.

    locate: see Reconnecting.
    """

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)
        self._until: datetime | None = None
        self._calls: dict[tuple[str, str], Calls] = {}

    def calls(self) -> list[Calls]:
        """Model calls that were asked and paid for, over all time, whatever `trivet gc` has removed since."""
        until, new = self._database.run(self._new_calls)
        for one in new:
            known = self._calls.get(one[:2])
            self._calls[one[:2]] = known.plus(one) if known else one
        self._until = until
        return list(self._calls.values())

    def failures(self) -> dict[tuple[str, str], int]:
        """(Model, kind of error) → requests that failed."""
        query = select(model_failures.c.model, model_failures.c.error, func.sum(model_failures.c.count).label("count"))
        rows = self._database.rows(query.group_by(model_failures.c.model, model_failures.c.error))
        return {(row["model"], row["error"]): row["count"] for row in rows}

    def costs(self) -> dict[str, float]:
        """Kind of run → what all runs of it spent, in the currency of the prices."""
        query = select(eval_runs.c.kind, func.sum(eval_runs.c.cost).label("cost")).group_by(eval_runs.c.kind)
        return {row["kind"]: row["cost"] or 0.0 for row in self._database.rows(query)}

    def costs_by_day(self, since: datetime) -> dict[date, dict[str, float]]:
        """Day in UTC → kind of run → what runs that began on it spent, in the currency of the prices."""
        day, spent = func.date(func.timezone("UTC", eval_runs.c.started_at)), func.sum(eval_runs.c.cost)
        query = select(day.label("day"), eval_runs.c.kind, spent.label("cost"))
        query = query.where(eval_runs.c.started_at >= since, eval_runs.c.cost > 0).group_by(day, eval_runs.c.kind)
        found = dict[date, dict[str, float]]()
        for row in self._database.rows(query.order_by(day, eval_runs.c.kind)):
            found.setdefault(row["day"], {})[row["kind"]] = row["cost"]
        return found

    def open_incidents(self) -> dict[str, int]:
        """Suite of nights → incidents that are open; every suite that ever had one."""
        is_open = func.count().filter(night_incidents.c.status == "open").label("count")
        query = select(night_incidents.c.suite, is_open).group_by(night_incidents.c.suite)
        return {row["suite"]: row["count"] for row in self._database.rows(query)}

    def _new_calls(self, connection: Connection) -> tuple[datetime, list[Calls]]:
        until = connection.execute(select(SETTLED)).scalar_one()
        sums = (
            func.coalesce(func.sum(column), 0)
            for column in (responses.c.prompt_tokens, responses.c.completion_tokens, responses.c.latency_s)
        )
        query = select(responses.c.backend, responses.c.model, func.count(), *sums)
        query = query.where(responses.c.created_at <= until).group_by(responses.c.backend, responses.c.model)
        if self._until:
            query = query.where(responses.c.created_at > self._until)
        return until, [Calls(*row) for row in connection.execute(query)]
