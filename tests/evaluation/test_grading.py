"""A shard of responses, each graded beside its item."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.evaluation.record_lines import read_lines, write_lines
from tasks.evaluation.running.shard_grading import beside, score_shard
from tests.evaluation.sums import plan_of, write_benchmark


def items(*ids: str) -> list[Item]:
    return [Item(id=id, prompts=("?",)) for id in ids]


def responses(*ids: str) -> list[Response]:
    return [Response(item=id, turns=(Reply(text=id),)) for id in ids]


def paired(of: list[Item], said: list[Response]) -> list[tuple[str, str]]:
    return [(item.id, response.item) for item, response in beside(of, said)]


@given(st.lists(st.integers(0, 3), max_size=20))
def test_whatever_is_missing_the_rest_is_paired(counts: list[int]) -> None:
    said = [str(number) for number, count in enumerate(counts) for _ in range(count)]
    assert paired(items(*map(str, range(len(counts)))), responses(*said)) == [(id, id) for id in said]


def test_a_shard_is_graded_in_its_order(tmp_path: Path, artifacts: Artifacts) -> None:
    task = plan_of(write_benchmark(tmp_path / "own"), artifacts)
    answers = {"0": r"It is \boxed{0}.", "1": r"It is \boxed{3}.", "2": "<think>"}
    said = [Response(item=id, turns=(Reply(text=text, key="k" * 64),)) for id, text in answers.items()]
    scored = score_shard(write_lines(artifacts, "responses", said), task, artifacts, None)
    samples = read_lines(artifacts, scored.samples, Sample)
    graded = [(one.item, one.score, one.extracted, one.missing, one.group) for one in samples]
    assert graded == [("0", 1.0, "0", False, "even"), ("1", 0.0, "3", False, "odd"), ("2", 0.0, None, True, "even")]
    assert score_shard(write_lines(artifacts, "responses", said), task, artifacts, None) == scored
