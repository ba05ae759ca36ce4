from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app

SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


@pytest.mark.parametrize("spelling", ["--data-dir", "--data_dir"])
def test_the_list_shows_what_is_at_hand(spelling: str) -> None:
    listed = json.loads(run("list", spelling, SAMPLES, "--json").stdout)["benchmarks"]
    by_name = {row["task"]: row for row in listed}
    assert by_name["AIME24"] | {"summary": ""} == {
        "task": "AIME24",
        "family": "math",
        "items": 8,
        "repeats": 10,
        "grader": "math",
        "data": "at hand",
        "summary": "",
        "note": "",
    }
    assert by_name["VizWiz"]["data"] == "missing"
    assert "real data not run" in by_name["HLE"]["note"]


def test_the_table_names_every_benchmark() -> None:
    shown = run("list").stdout
    assert all(name in shown for name in ("AIME24", "BigCodeBenchHardComplete", "on the hub", "lm-evaluation-harness"))
    assert "format checked, real data not run; judge openai:gpt-4-1106-preview" in shown  # a pipe has whole lines


def test_a_check_shows_the_first_prompt(tmp_path: Path) -> None:
    shown = run("list", "--check", "MATH500", "--data-dir", SAMPLES).stdout
    assert "  | Mark your solution with \\boxed\n" in shown
    assert "MATH500: 9 items, nothing is wrong" in shown


def test_a_check_names_each_problem_and_fails(tmp_path: Path) -> None:
    (tmp_path / "aime24.jsonl").write_text('{"id": 1, "problem": "?", "expected_answer": ""}\n' * 2)
    checked = run("list", "--check", "AIME24", "--data-dir", tmp_path)
    assert checked.exit_code == 1
    assert "item 1: 2 items have this id" in checked.stdout
    assert "item 1: its gold is empty" in checked.stdout


LISTED = {
    "prompt": "add() {\n", "test": "test", "task_id": "HumanEval_53_add", "canonical_solution": "    return 1\n",
    "code_prompt": "import json\ndef f():\n", "entry_point": "f",
}  # fmt: skip
PACKED: list[tuple[str, str, Any]] = [
    ("MultiPLE-sh", "multipl-e-sh.json", [LISTED]),
    ("HumanEval", "humaneval-python.jsonl", LISTED),
    ("BigCodeBench", "BigCodeBench-instruct.json", [LISTED | {"test": "class TestCases: pass"}]),
    ("BigCodeBenchHardComplete", "BigCodeBench-complete-hard.json", [LISTED | {"test": "class TestCases: pass"}]),
    ("MixEval", "multiple-choice.json", {"0": {"prompt": "?", "context": None, "options": ["a", "b"], "target": [1]}}),
]
"""Benchmark, name and content of the file as evalchemy packs it."""


@pytest.mark.parametrize(("name", "file", "content"), PACKED, ids=[name for name, _, _ in PACKED])
def test_a_file_as_evalchemy_packs_it_is_read_as_it_is(name: str, file: str, content: Any, tmp_path: Path) -> None:
    (tmp_path / file).write_text(json.dumps(content), "utf-8")
    checked = json.loads(run("list", "--check", name, "--data-dir", tmp_path, "--json").stdout)
    assert (checked["items"], checked["left_out"]) == (1, {})


def test_items_that_cannot_be_scored_here_are_counted_by_name(tmp_path: Path) -> None:
    rows = [
        {"question_id": n, "question": "?", "options": ["a", "b"][:many], "answer": "A", "category": "x"}
        for n, many in enumerate((2, 1, 2))
    ]
    (tmp_path / "mmlu_pro.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    checked = run("list", "--check", "MMLUPro", "--data-dir", tmp_path)
    assert checked.exit_code == 3
    assert "not scored here: 1: " in checked.stdout
    assert "MMLUPro: 2 items, 1 more are left out, nothing is wrong" in checked.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["list", "--check", "AIME2"], 2, "Did you mean"),
        (["list", "--check", "GPQADiamond", "--data-dir", "."], 2, "--data-dir"),
        (["list", "--check", "nowhere.yaml"], 2, "there is no such file"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(arguments: list[str], code: int, said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, said in result.output) == (code, True)
    assert "Traceback" not in result.output
