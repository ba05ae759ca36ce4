"""HumanEval+ on items of our own, in the schema that the hub has it in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.code.answered import graded, opened_tools

BENCHMARK = find_benchmark("HumanEvalPlus")
ITEMS = {item.id: item for item in BENCHMARK.items(Data(Path(__file__).parents[2] / "samples" / "benchmarks"))}
REVERSED, SHARES, _ = ITEMS


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with opened_tools() as opened:
        yield opened


def test_canonical_solutions_pass_and_empty_bodies_do_not(tools: Tools) -> None:
    assert list(BENCHMARK.check(list(ITEMS.values()), tools)) == []


@pytest.mark.parametrize(
    ("item", "body", "score"),
    [
        (REVERSED, "    return int(str(number)[::-1])\n", 0),  # right on the inputs of HumanEval
        (REVERSED, "    return int(str(abs(number))[::-1]) * (1 if number > 0 else -1)\n", 1),
        (SHARES, "    return [amount / sum(amounts) for amount in amounts]\n", 1),
        (SHARES, "    return [round(amount / sum(amounts), 4) for amount in amounts]\n", 0),
    ],
)
def test_all_inputs_decide(item: str, body: str, score: int, tools: Tools) -> None:
    answer = f"{ITEMS[item].detail['prompt']}{body}"
    assert graded(BENCHMARK, [ITEMS[item]], {item: answer}, tools)[item].score == score


def test_evalpluss_own_file_is_refused_by_name(tmp_path: Path) -> None:
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "base_input": [[1]], "plus_input": [[2]]}
    (tmp_path / "HumanEvalPlus.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataUnusable, match="take the hub's evalplus/humanevalplus instead"):
        list(BENCHMARK.items(Data(tmp_path)))
