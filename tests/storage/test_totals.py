"""Sums for a monitor, by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.connections import connected, engine, locate, upgrade
from storage.evaluated import Dataset, EvalSettings, Evaluated, Run
from storage.evaluations import Evaluations
from storage.responses import Responses, StoredResponse
from storage.totals import Calls, Totals

pytestmark = pytest.mark.postgres


def answer(model: str, tokens: int | None, seconds: float) -> StoredResponse:
    return StoredResponse(
        backend="openai",
        model=model,
        request=None,
        response="an answer",
        prompt_tokens=tokens,
        completion_tokens=tokens and 2 * tokens,
        latency_s=seconds,
    )


def let_settle(url: str) -> None:
    """A minute passes for all answers."""
    with connected(engine(url)) as connection:
        connection.execute(text("update responses set created_at = created_at - interval '1 minute'"))


def test_calls_are_added_up_and_none_is_counted_twice(running: Path) -> None:
    url = locate(None, running)
    upgrade(url)
    store = Responses(lambda: url)
    store.put_many({"a" * 64: answer("m", 10, 0.5), "b" * 64: answer("m", None, 1.0), "c" * 64: answer("n", 1, 2.0)})
    assert Totals(lambda: url).calls() == []  # of the last seconds others may still come
    let_settle(url)
    first = {("openai", "m"): Calls("openai", "m", 2, 10, 20, 1.5), ("openai", "n"): Calls("openai", "n", 1, 1, 2, 2.0)}
    totals = Totals(lambda: url)
    assert {one[:2]: one for one in totals.calls()} == first
    assert {one[:2]: one for one in totals.calls()} == first
    store.put_many({"d" * 64: answer("m", 5, 0.5)})
    with connected(engine(url)) as connection:
        connection.execute(text("update responses set created_at = now() - interval '30 seconds' where key like 'd%'"))
    more = Calls("openai", "m", 3, 15, 30, 2.0)
    assert {one[:2]: one for one in totals.calls()} == first | {("openai", "m"): more}
    assert store.prune(before=datetime.now(UTC) - timedelta(seconds=45), dry_run=True) == 3
    assert store.prune(before=datetime.now(UTC) - timedelta(seconds=45), dry_run=False) == 3
    assert set(store.many(["a" * 64, "d" * 64])) == {"d" * 64}
    assert {one[:2]: one for one in Totals(lambda: url).calls()} == first | {("openai", "m"): more}


def test_failures_are_counted_by_model_and_error(running: Path) -> None:
    url = locate(None, running)
    store = Responses(lambda: url)
    for model, error in (("m", "TransientModelError"), ("m", "TransientModelError"), ("m", "RequestRefused")):
        store.note_failure(model, error)
    assert Totals(lambda: url).failures() == {("m", "TransientModelError"): 2, ("m", "RequestRefused"): 1}


def test_costs_by_kind_of_run(running: Path) -> None:
    url = locate(None, running)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    for name, cost in (("one", 0.25), ("two", 0.5), ("free", None)):
        run = Run(id=name, kind="benchmark", started_at=at, status="completed", version="1", cost=cost)
        data = Dataset(name="d", source="here", checksum="0" * 64, count=1)
        Evaluations(lambda: url).write(
            [Evaluated(run=run, dataset=data, settings=EvalSettings(name="t", parameters={}), results=())]
        )
    assert Totals(lambda: url).costs() == {"benchmark": 0.75}
    assert Totals(lambda: url).open_incidents() == {}
