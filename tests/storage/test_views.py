"""Views for analysts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from storage import connections
from storage.embedded import Cluster
from storage.evaluated import Sample
from storage.evaluations import Evaluations
from storage.responses import Responses, StoredResponse
from tests.storage.test_evaluation_scores import evaluated, model, run

pytestmark = pytest.mark.postgres
KEYS = ("1" * 64, "2" * 64)
ANSWERED = {
    KEYS[0]: StoredResponse(
        backend="hf", model="a@r1", request={}, response={}, prompt_tokens=10, completion_tokens=5, latency_s=0.5
    )
}


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    address = Cluster(home).start()
    yield address
    connections.engine(address).dispose()


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with connections.connected(connections.engine(url)) as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def test_analysts_find_scores_items_calls_and_costs(url: str) -> None:
    store = Evaluations(lambda: url)
    sample = Sample(item="1", detail={}, score=1.0, extracted="4", gold="4", keys=KEYS)
    old, last, other = (
        run("old-run", model("a")),
        run("last-run", model("a"), minutes=5).model_copy(update={"calls": 3, "cost": 0.25}),
        run("other-run", model("b"), minutes=1),
    )
    store.write([evaluated(old, value=0.9), evaluated(last, value=0.5, samples=(sample,)), evaluated(other, value=0.7)])
    Responses(lambda: url).put_many(ANSWERED)

    board = rows(url, "select rank, model, score, run, settings ->> 'temperature' as t from leaderboard order by rank")
    assert board == [
        {"rank": 1, "model": "b", "score": 0.7, "run": "other-run", "t": "0.7"},
        {"rank": 2, "model": "a", "score": 0.5, "run": "last-run", "t": "0.7"},
    ]
    assert rows(url, "select model, item, score, calls from items") == [
        {"model": "a", "item": "1", "score": 1.0, "calls": 2}
    ]
    assert rows(url, "select number, model, prompt_tokens from calls order by number") == [
        {"number": 1, "model": "a@r1", "prompt_tokens": 10},
        {"number": 2, "model": None, "prompt_tokens": None},
    ]
    costs = rows(url, "select role, answered_by, calls, run_calls, run_cost from costs where run = 'last-run'")
    assert sorted(costs, key=lambda one: one["role"]) == [
        {"role": "judge", "answered_by": "openai:grader", "calls": 1, "run_calls": 3, "run_cost": 0.25},
        {"role": "model", "answered_by": "a", "calls": 3, "run_calls": 3, "run_cost": 0.25},
    ]
    assert (store.run("last-run").calls, store.run("last-run").cost) == (3, 0.25)


def test_every_column_of_a_view_says_what_it_is(url: str) -> None:
    connections.upgrade(url)
    columns = rows(
        url,
        "select c.relname || '.' || a.attname as name, col_description(c.oid, a.attnum) as comment from pg_class c "
        "join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 where c.relkind = 'v' "
        "and c.relnamespace = 'public'::regnamespace".replace("::", r"\:\:"),
    )
    assert {one["name"].partition(".")[0] for one in columns} == {"leaderboard", "items", "calls", "costs"}
    assert [one["name"] for one in columns if not one["comment"]] == []


def test_samples_are_found_by_an_answer_without_reading_all(url: str) -> None:
    connections.upgrade(url)
    with connections.connected(connections.engine(url)) as connection:
        connection.execute(text("set local enable_seqscan = off"))
        plan = connection.execute(text(f"explain select item from samples where response_keys @> '{{{KEYS[0]}}}'"))
        assert "samples_response_keys" in " ".join(plan.scalars())


def test_a_figure_is_kept_once_and_read_as_it_was_written(url: str) -> None:
    store = Evaluations(lambda: url)
    written = evaluated(run("a-run-1", model("a")))
    store.write([written])
    assert rows(url, "select metrics from eval_tasks") == [{"metrics": {"accuracy": None, "run_stats": [{"n": 1}]}}]
    [read] = store.read("a-run-1")
    assert read.task == written.task
    assert store.write([written]) == 0
