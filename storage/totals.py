"""Sums over the tables, for a monitor: model calls, costs, open incidents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select, text
from sqlalchemy.dialects.postgresql import insert

from storage.connections import Reconnecting
from storage.tables import call_totals, eval_runs, model_failures, night_incidents, responses

SETTLED = func.now() - text("interval '30 seconds'")
"""A row may become visible a little later than its time says."""
ADDING_LOCK = 0x7472_6977
"""Any number that all of us use for this and nobody else does."""


class Calls(NamedTuple):
    """Number, tokens and seconds of the calls that one model answered."""

    backend: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    latency_s: float


class Totals:
    """Looks into one database, again and again. locate: see Reconnecting. Every method raises DatabaseUnavailable."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def calls(self) -> list[Calls]:
        """Model calls that were asked and paid for, over all time, whatever `trivet gc` has removed since."""
        return self._database.run(add_up)

    def failures(self) -> dict[tuple[str, str], int]:
        """(Model, kind of error) → number of requests that failed, over all time."""
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


def add_up(connection: Connection) -> list[Calls]:
    """The sums, with the answers that came since they were made; those are not read again, by whomever."""
    connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": ADDING_LOCK})  # one adds at a time
    until = connection.execute(select(func.max(call_totals.c.until))).scalar_one()
    names = ("prompt_tokens", "completion_tokens", "latency_s")
    sums = (func.coalesce(func.sum(responses.c[name]), 0).label(name) for name in names)
    new = select(responses.c.backend, responses.c.model, func.count().label("calls"), *sums, SETTLED)
    new = new.where(responses.c.created_at <= SETTLED, *([responses.c.created_at > until] if until else []))
    added = insert(call_totals).from_select(list(call_totals.c), new.group_by(responses.c.backend, responses.c.model))
    more = {name: call_totals.c[name] + added.excluded[name] for name in ("calls", *names)}
    key = ("backend", "model")
    connection.execute(added.on_conflict_do_update(index_elements=key, set_=more | {"until": added.excluded.until}))
    return [Calls(*row) for row in connection.execute(select(*(call_totals.c[name] for name in Calls._fields)))]
