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


def test_analysts_find_items_calls_and_costs(url: str) -> None:
    store = Evaluations(lambda: url)
    sample = Sample(item="1", detail={}, score=1.0, extracted="4", gold="4", keys=KEYS)
    last = run("last-run", model("a"), minutes=5).model_copy(update={"calls": 3, "cost": 0.25})
    store.write([evaluated(last, value=0.5, samples=(sample,))])
    Responses(lambda: url).put_many(ANSWERED)

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
    [read] = store.task_results("a-run-1")
    assert read.task == written.task
    assert store.write([written]) == 0
