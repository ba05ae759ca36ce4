"""What must hold before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.artifacts import Artifacts
from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import PlannedTask, read_items
from tasks.evaluation.running.shard_grading import CHECKED_ITEMS, SHOWN_PROBLEMS, problems_of
from tests.evaluation.sums import plan_of, task_of, write_benchmark

SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"


def problems(path: Path, artifacts: Artifacts) -> list[str]:
    task = plan_of(path, artifacts)
    return problems_of(find_benchmark(str(path)), task, read_items(artifacts, task.items))


def test_a_sound_benchmark_has_no_problem(tmp_path: Path, artifacts: Artifacts) -> None:
    assert problems(write_benchmark(tmp_path), artifacts) == []


def test_golds_that_do_not_match_themselves_are_named(tmp_path: Path, artifacts: Artifacts) -> None:
    path = write_benchmark(tmp_path)
    rows = [{"id": n, "left": n, "right": n, "answer": "", "kind": "even"} for n in range(SHOWN_PROBLEMS + 3)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = problems(path, artifacts)
    assert found[0] == "item 0: its gold is empty"
    assert (len(found), found[-1]) == (SHOWN_PROBLEMS + 1, "and 3 more")


def test_of_a_large_benchmark_the_first_items_are_checked(artifacts: Artifacts) -> None:
    class Counting(BaseBenchmark):
        name = "Counting"

        def gold_response(self, item: Item) -> None:
            return None

    read = 0

    def items():
        nonlocal read
        while True:
            read += 1
            yield Item(id=str(read), prompts=("?",))

    assert problems_of(Counting(), task_of([], artifacts), items()) == []
    assert read == CHECKED_ITEMS


def judged(artifacts: Artifacts, judge: ModelSpec | None) -> tuple[BaseBenchmark, PlannedTask, list[Item]]:
    benchmark = find_benchmark("MTBench")
    items = list(benchmark.items(Data(SAMPLES)))
    return benchmark, task_of(items, artifacts, task="MTBench", judge=judge), items


def test_prompts_of_a_judge_are_rendered_without_asking(here: Path, artifacts: Artifacts) -> None:
    assert problems_of(*judged(artifacts, ModelSpec(backend="scripted"))) == []


def test_a_benchmark_without_its_judge_says_how_to_name_one(artifacts: Artifacts) -> None:
    with pytest.raises(PreflightFailed, match="MTBench is graded by a model; name it with --annotator_model"):
        problems_of(*judged(artifacts, None))
