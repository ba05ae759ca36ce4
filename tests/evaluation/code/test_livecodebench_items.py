"""LiveCodeBench on problems of our own in the published schema: what is read and asked, and the figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.code.livecodebench import BENCHMARKS, LiveCodeBench, last_block
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item, Sample
from tasks.evaluation.running.benchmark_data import Data

FOLDER = Path(__file__).parents[2] / "samples" / "benchmarks"
V2, V5 = BENCHMARKS


def items_of(benchmark: LiveCodeBench) -> dict[str, Item]:
    return {item.id: item for item in benchmark.items(Data(FOLDER))}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\nfirst\n```\nbetter:\n```python\nlast\n```", "last"),
        ("```python\ncode\n```\nIt prints\n```\n5\n```", "code"),
        ("```text\nnotes\n```\n```py\ncode\n```\n```text\n5\n```", "code"),
        ("```python\ncode", "code"),
        ("```python\r\ncode\r\n```", "code"),
    ],
)
def test_the_code_is_the_last_block(answer: str, code: str) -> None:
    assert last_block(answer).strip() == code


def test_a_window_leaves_out_other_contests() -> None:
    assert list(items_of(V2)) == ["ferry_a", "9001_B", "boxes_f", "90001", "90002", "90003"]
    assert list(items_of(V5)) == ["clocks_a", "90004", "sums_e"]


def test_settings_are_those_of_evalchemy() -> None:
    assert [(one.name, one.repeats, one.sampling.temperature, one.sampling.max_tokens) for one in BENCHMARKS] == [
        ("LiveCodeBench", 6, 0.7, 32768),
        ("LiveCodeBenchv5", 3, 0.7, 32768),
    ]


def test_prompts_are_those_of_evalchemy() -> None:
    for items in (items_of(V2), items_of(V5)):
        for item in items.values():
            assert item.system is None
            assert "class Solution" not in item.prompts[0]
    assert (
        items_of(V2)["ferry_a"]
        .prompts[0]
        .startswith(
            "Generate an executable Python function generated from the given prompt. The function should take stdin as "
            "input and print the output. Simply call the function after the definition.A ferry takes at most C cars"
        )
    )
    assert (
        items_of(V5)["90004"]
        .prompts[0]
        .startswith(
            "Generate an executable Python function generated from the given prompt. Return the function body without "
            "invoking it at the final solution.Return the median of numbers."
        )
    )


def written(folder: Path, **changed: Any) -> Data:
    """A data file with the fourth sample, changed."""
    row = json.loads((FOLDER / "livecodebench_v2.jsonl").read_text().splitlines()[3])
    (folder / "livecodebench_v2.jsonl").write_text(json.dumps(row | changed) + "\n")
    return Data(folder)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"contest_date": None}, "`contest_date` must begin as 2024-05-31, found None"),
        ({"private_test_cases": "rubbish"}, "its tests cannot be used: neither JSON nor base64"),
        ({"metadata": "{}"}, "`metadata` is not JSON with its `func_name`"),
        ({"metadata": json.dumps({"func_name": "f(); import os"})}, "`func_name` must be the name of a function"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_line(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(DataUnusable, match=r"livecodebench_v2\.jsonl, line 1: ") as raised:
        list(V2.items(written(tmp_path, **changed)))
    assert why in str(raised.value)


def sample(item: str, repeat: int, score: float | None, group: str) -> Sample:
    status = "unscored" if score is None else "scored"
    return Sample(item=item, repeat=repeat, score=score, group=group, status=status, reason="so", extracted="code")


def test_figures_have_evalchemys_keys() -> None:
    samples = [
        *(sample("a", repeat, score, "easy") for repeat, score in enumerate([1, 1, 0])),
        *(sample("b", repeat, score, "hard") for repeat, score in enumerate([0, 1, 0])),
    ]
    found = V5.summarise(samples)
    assert found.metrics["accuracy_avg"] == found.metrics["pass@1"] == 0.5
    # by hand: repeats are solved by 1/2, 1 and 0; their standard deviation over n - 1 is 1/2
    assert found.metrics["accuracy_std_err"] == pytest.approx(0.5 / 3**0.5)
    assert found.metrics["accuracy_easy_avg"] == pytest.approx(2 / 3)
    assert found.metrics["accuracy_hard_avg"] == pytest.approx(1 / 3)
    assert found.metrics["accuracy_hard_std_err"] == pytest.approx(1 / 3)
    assert (found.metrics["num_total"], found.metrics["num_repeat"], found.metrics["solved_avg"]) == (2, 3, 1.0)
    assert found.metrics["run_stats"] == [
        {"repetition": number, "num_total": 2, "num_solved": solved, "accuracy": solved / 2}
        for number, solved in [(1, 1), (2, 2), (3, 0)]
    ]
    by_part = {one.part: one.value for one in found.estimates if one.metric == "pass@1"}
    assert by_part == {"": 0.5, "group=easy": pytest.approx(2 / 3), "group=hard": pytest.approx(1 / 3)}
    assert [one.metric for one in found.estimates if one.headline] == ["pass@1"]
