"""HumanEval+ on items of our own in both published schemas: base and plus, tolerances, what passes, what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.code.answered import graded, opened_tools

BENCHMARK = find_benchmark("HumanEvalPlus")
SAMPLES = Path(__file__).parents[2] / "samples" / "benchmarks"
ITEMS = {item.id: item for item in BENCHMARK.items(Data(SAMPLES))}
REVERSED, SHARES, DIAGONAL, ROTATED, EXTREMES, MIDDLE = (f"HumanEval/{number}" for number in range(900, 906))


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with opened_tools() as opened:
        yield opened


def sample(item: str, answer: str, tools: Tools) -> Sample:
    return graded(BENCHMARK, [ITEMS[item]], {item: answer}, tools)[item]


def test_both_schemas_are_read() -> None:
    assert ["test" in item.detail for item in ITEMS.values()] == [False] * 5 + [True]
    assert ITEMS[REVERSED].detail["plus_input"] == "[[0], [-120], [1000000000000000000001]]"
    assert ITEMS[DIAGONAL].detail["atol"] == 0.001
    assert {item.group for item in ITEMS.values()} == {"python"}


def test_canonical_solutions_pass_and_empty_bodies_do_not(tools: Tools) -> None:
    assert list(BENCHMARK.check(list(ITEMS.values()), tools)) == []


@pytest.mark.parametrize(
    ("item", "body", "passed"),
    [
        (REVERSED, "    return int(str(number)[::-1])\n", (1, 0)),
        (REVERSED, "    return number\n", (0, 0)),
        (SHARES, "    return [amount / sum(amounts) for amount in amounts]\n", (1, 1)),
        (SHARES, "    return [round(amount / sum(amounts), 8) for amount in amounts]\n", (1, 1)),
        (SHARES, "    return [round(amount / sum(amounts), 4) for amount in amounts]\n", (1, 0)),
        (DIAGONAL, "    return round(math.sqrt(width**2 + height**2), 3)\n", (1, 1)),
        (ROTATED, "    items.insert(0, items.pop())\n    return items\n", (1, 0)),
        (
            ROTATED,
            "    steps = steps % len(items) if items else 0\n    return items[-steps:] + items[:-steps]\n",
            (1, 1),
        ),
        (EXTREMES, "    return min(values), max(values)\n", (1, 0)),
        (EXTREMES, "    return [min(values), max(values)] if values else [None, None]\n", (0, 0)),
    ],
)
def test_base_and_plus_are_told_apart(item: str, body: str, passed: tuple[int, int], tools: Tools) -> None:
    found = sample(item, f"{ITEMS[item].detail['prompt']}{body}", tools)
    assert (found.values["base"], found.values["plus"], found.score) == (*passed, passed[1])


@pytest.mark.parametrize(("root", "score"), [("-1.0", 1), ("1.0", 1), ("0.5", 0)])
def test_any_root_is_a_zero(root: str, score: int, tools: Tools, tmp_path: Path) -> None:
    row = {
        "task_id": "HumanEval/32",
        "prompt": '\ndef find_zero(xs: list):\n    """Some x where the polynomial of these factors is 0."""\n',
        "entry_point": "find_zero",
        "canonical_solution": "    return 1.0\n",
        "base_input": [[[-1, 0, 1]]],
        "plus_input": [[[-2, 0, 2]]],
        "atol": 0.0001,
    }
    (tmp_path / "HumanEvalPlus.jsonl").write_text(json.dumps(row) + "\n")
    items = list(BENCHMARK.items(Data(tmp_path)))
    assert graded(BENCHMARK, items, {"HumanEval/32": f"    return {root}\n"}, tools)["HumanEval/32"].score == score


def test_base_has_its_own_figure(tools: Tools) -> None:
    answers = {
        REVERSED: "    return int(str(number)[::-1])\n",
        EXTREMES: "    return None\n",
        SHARES: "    return [amount / sum(amounts) for amount in amounts]\n",
        ROTATED: "",
    }
    summary = BENCHMARK.summarise(graded(BENCHMARK, list(ITEMS.values()), answers, tools).values())
    assert {name: value for name, value in summary.metrics.items() if "pass@" in name} == {
        "pass@1": 0.25,
        "python_pass@1": 0.25,
        "base_pass@1": 0.5,
    }
    assert [one.metric for one in summary.estimates if one.headline] == ["pass@1"]
    (base,) = [one for one in summary.estimates if one.metric == "base_pass@1"]
    assert (base.value, base.part, base.n) == (0.5, "", 4)
