"""The evaluation tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage import connections
from storage.embedded import Cluster
from storage.evaluations import Dataset, EvalSettings, Evaluated, Evaluations, Result, Run, Sample

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def run(id: str = "r1", *, status: str = "completed", minutes: int = 0) -> Run:
    return Run.model_validate(
        {
            "id": id,
            "kind": "rag",
            "started_at": NOON + timedelta(minutes=minutes),
            "ended_at": NOON + timedelta(minutes=minutes + 1),
            "status": status,
            "version": "0.1.0",
            "index_generation": "000001-aaaaaaaaaaaa",
            "index_digest": "a" * 64,
            "environment": {"embedder": "minilm"},
        }
    )


def evaluated(made: Run, *, value: float = 0.5, dataset: str = "own", items: int = 2) -> Evaluated:
    return Evaluated(
        run=made,
        dataset=Dataset(name=dataset, source="questions.jsonl", checksum="b" * 64, count=items),
        settings=EvalSettings(name="rag", parameters={"strategy": "rrf", "bm25_weight": 1.0}),
        results=(
            Result(metric="page.hit@5", value=value, low=0.25, high=0.75, n=items),
            Result(metric="page.hit@5", part="kind=table", value=1.0, n=1),
        ),
        samples=tuple(Sample(item=f"q-{number:04d}", detail={"page": {"hit@5": 1.0}}) for number in range(items)),
    )


@pytest.fixture(scope="module")
def evaluations(running: Path) -> Iterator[Evaluations]:
    url = Cluster(running).start()
    yield Evaluations(lambda: url)
    connections.engine(url).dispose()


@pytest.mark.postgres
def test_what_was_written_is_read(evaluations: Evaluations) -> None:
    written = evaluated(run("whole"))
    evaluations.write([written])
    assert evaluations.read("whole") == [written]


@pytest.mark.postgres
def test_a_run_that_is_written_again_takes_the_later_values(evaluations: Evaluations) -> None:
    evaluations.write([evaluated(run("again", status="running"), value=0.1)])
    evaluations.write([evaluated(run("again"), value=0.9)])
    (read,) = evaluations.read("again")
    assert (read.run.status, read.results[0].value) == ("completed", 0.9)


@pytest.mark.postgres
def test_what_postgres_cannot_hold_comes_back_whole(evaluations: Evaluations) -> None:
    sample = Sample(item="a\x00b", detail={"answer\ud800": "x\x00"})
    written = evaluated(run("nul\x00"), dataset="own\x00").model_copy(update={"samples": (sample,)})
    evaluations.write([written])
    (read,) = evaluations.read("nul\x00")
    assert (read.run.id, read.dataset.name, read.samples) == ("nul\x00", "own\x00", (sample,))


def test_equal_settings_have_equal_digests_whatever_their_order() -> None:
    one = EvalSettings(name="rag", parameters={"a": 1, "b": [1.5, None]})
    other = EvalSettings(name="rag", parameters={"b": [1.5, None], "a": 1})
    assert one.digest == other.digest != EvalSettings(name="rag", parameters={"a": 2}).digest
