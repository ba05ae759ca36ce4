"""CodeForces on problems of our own in the published schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.contests import FORCES
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.code.answered import graded

SAMPLES = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
LANTERNS = "input()\nprint(input().split().count('1'))"


def fenced(code: str) -> str:
    return f"I count.\n```python\n{code}\n```"


def test_problems_are_shown_as_pages_in_the_words_of_evalchemy() -> None:
    first, _ = FORCES.items(SAMPLES)
    assert first.prompts[0].startswith("You are a coding expert. Given a competition-level coding problem")
    assert first.prompts[0].endswith(
        "Simply call the function after the definition.\n\n<html><body><h1>Lanterns</h1><div>Time limit per test: 1.0 s"
        "</div><h2>Description</h2><div>A street has $n$ lanterns. How many are lit?</div><h2>Input Format</h2>"
        "<div>A number n, then n digits 0 or 1.</div><h2>Output Format</h2><div>The number of lanterns that are lit."
        "</div><h2>Example</h2><h3>Input</h3><div>3\n1 0 1\n</div><h3>Output</h3><div>2\n</div><h2>Note</h2>"
        "<div>All may be dark.</div></body></html>"
    )


@pytest.mark.parametrize(
    ("answer", "score", "reason"),
    [
        pytest.param(fenced(LANTERNS), 1.0, "passed 3 tests", id="right"),
        pytest.param(f"```\nprint(2)\n```\nno:\n{fenced(LANTERNS)}", 1.0, "passed 3 tests", id="last block"),
        pytest.param(fenced("input()\nprint('2')"), 0.0, "test 2: wrong answer: '2', expected '0'", id="wrong"),
        pytest.param(fenced("1 / 0"), 0.0, "test 1", id="raises"),
        pytest.param(LANTERNS, 0.0, "there is no code block", id="no block"),
    ],
)
def test_programs_pass_where_all_tests_do(answer: str, score: float, reason: str, tools: Tools) -> None:
    sample = graded(FORCES, list(FORCES.items(SAMPLES)), {"9001/A": answer}, tools)["9001/A"]
    assert sample.score == score
    assert reason in sample.reason


def test_figures_by_difficulty_are_means_over_repeats() -> None:
    scores = {("a", "Easy"): (1, 1, 0), ("b", "Hard"): (0, 0, 0)}
    samples = [
        Sample(item=item, group=group, repeat=repeat, status="scored", score=float(score))
        for (item, group), all_scores in scores.items()
        for repeat, score in enumerate(all_scores)
    ]
    metrics = FORCES.summarise(samples).metrics
    assert metrics["accuracy_avg"] == pytest.approx(1 / 3)
    assert metrics["accuracy_Easy_avg"] == pytest.approx(2 / 3)
    assert metrics["accuracy_Hard_avg"] == 0
    assert metrics["pass@1"] == pytest.approx(1 / 3)
    assert "accuracy_Medium_avg" not in metrics


def test_problems_that_interact_or_have_no_tests_are_left_out(tmp_path: Path) -> None:
    rows = list(SAMPLES.rows(FORCES.files[0]))
    talks, bare = rows[0] | {"interaction_format": "Ask."}, rows[1] | {"official_tests": None}
    (tmp_path / "codeforces.jsonl").write_text(f"{json.dumps(talks)}\n{json.dumps(bare)}\n", "utf-8")
    assert list(FORCES.items(Data(tmp_path))) == []


def test_a_test_without_output_is_named(tmp_path: Path) -> None:
    row = {"id": "1", "title": "t", "time_limit": 1, "official_tests": [{"input": "1"}]}
    (tmp_path / "codeforces.jsonl").write_text(json.dumps(row), "utf-8")
    data = Data(tmp_path)
    assert list(FORCES.items(data)) == []
    assert "line 1: `official_tests`: `input` and `output` must be texts" in data.left_out["1"]
