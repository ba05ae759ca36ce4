"""Recorded answers take the place of a model's."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifacts
from storage.files import sha256_of
from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Response, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.model_spec import ModelSpec
from tasks.evaluation.running.replaying import recorded_of, repeats_in, replay
from tests.evaluation.sums import plan_of, write_benchmark


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_answers_come_in_the_order_of_the_items_and_cost_nothing(tmp_path: Path, artifacts: Artifacts) -> None:
    task = plan_of(write_benchmark(tmp_path / "own"), artifacts, n_repeat=2)
    recorded = written(tmp_path / "r.jsonl", *({"id": n, "responses": [f"{n}a", f"{n}b"]} for n in (2, 0, 1)))
    generated = replay(task, recorded, artifacts)
    [shard] = generated.shards
    kept = [(one.item, one.repeat, one.text) for one in read_lines(artifacts, shard, Response)]
    assert kept == [(str(n), repeat, f"{n}{'ab'[repeat]}") for n in range(3) for repeat in range(2)]
    assert (generated.responses, generated.usage) == (6, Usage())


def test_of_a_limited_task_the_other_answers_are_left_out(tmp_path: Path, artifacts: Artifacts) -> None:
    path = write_benchmark(tmp_path / "own")
    recorded = written(tmp_path / "r.jsonl", *({"id": n, "response": "0"} for n in range(3)))
    assert replay(plan_of(path, artifacts, limit=1), recorded, artifacts).responses == 1


def test_an_answer_to_no_item_is_named(tmp_path: Path, artifacts: Artifacts) -> None:
    recorded = written(tmp_path / "r.jsonl", {"id": 0, "response": "0"}, {"id": 7, "response": "0"})
    with pytest.raises(DataUnusable, match=r"line 2: the benchmark has no item '7'"):
        replay(plan_of(write_benchmark(tmp_path / "own"), artifacts), recorded, artifacts)


@pytest.mark.parametrize(
    ("row", "repeats"),
    [({"response": "a"}, 1), ({"responses": ["a", "b", "c"]}, 3), ({"turns": ["a", "b"]}, 1)],
)
def test_the_file_says_how_many_repeats_there_are(tmp_path: Path, row: dict[str, Any], repeats: int) -> None:
    assert repeats_in(written(tmp_path / "r.jsonl", row)) == repeats


@pytest.mark.parametrize("name", ["Sums.jsonl", "Sums.jsonl.gz"])
def test_a_folder_has_a_file_for_each_task(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    model = ModelSpec(backend="replay", args={"path": str(tmp_path)})
    assert recorded_of(model, "Sums") == tmp_path / name


def test_a_file_is_taken_for_any_task(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", {"id": 1, "response": "a"})
    assert recorded_of(ModelSpec(backend="replay", args={"path": str(path)}), "Sums") == path


def test_a_task_without_recorded_answers_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"no recorded answers to Sums: expected Sums\.jsonl there"):
        recorded_of(ModelSpec(backend="replay", args={"path": str(tmp_path)}), "Sums")


def test_replay_without_a_path_says_how_to_give_one() -> None:
    with pytest.raises(OptionUnusable, match="--model_args path=FOLDER"):
        recorded_of(ModelSpec(backend="replay"), "Sums")


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(b"x"))
    assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()
