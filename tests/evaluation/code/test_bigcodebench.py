"""BigCodeBench on items of our own: what is asked, what is executed, and what a missing library does to a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import REMEDY, Tools, explain_missing
from tasks.evaluation.benchmarks.code.bigcodebench import BENCHMARKS, FOREIGN, STANDARD, BigCodeBench, build_program
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.evaluation.running.benchmark_data import Data

DATA = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
NAMED = {benchmark.name: benchmark for benchmark in BENCHMARKS}
PLACES = "BigCodeBench/90000"
PROGRAMS = Path(__file__).parents[2] / "samples" / "programs"
CASES = json.loads((PROGRAMS / "bigcodebench_programs.json").read_text("utf-8"))
"""Right answers in all forms, tricks, and bodies of test classes with whether they pass."""
COUNTED = """\
import re
from collections import Counter
def task_func(text, top=3):
    if top < 1:
        raise ValueError("top")
    counts = Counter(name.lower() for name in re.findall(r"@(\\w+)", text))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
"""


def items_of(name: str) -> dict[str, Item]:
    return {item.id: item for item in NAMED[name].items(DATA)}


def graded(name: str, answers: dict[str, str], tools: Tools) -> dict[str, Sample]:
    """Item → sample of the answer that is given to it."""
    items = items_of(name)
    pairs = [(items[item], Response(item=item, turns=(Reply(text=text),))) for item, text in answers.items()]
    return {sample.item: sample for sample in NAMED[name].grade(pairs, tools)}


def run(code: str, tools: Tools, item: str = PLACES, name: str = "BigCodeBench") -> Sample:
    return graded(name, {item: f"```python\n{code}\n```"}, tools)[item]


def test_a_task_is_asked_in_words_or_by_its_docstring() -> None:
    instruct = items_of("BigCodeBench")[PLACES].prompts
    complete = items_of("BigCodeBenchComplete")[PLACES].prompts
    first = (
        "Please provide a self-contained Python script that solves the following problem in a markdown code block:\n"
    )
    assert instruct[0].startswith(first + "Count the place names in a travel note")
    assert instruct[0].endswith("\ndef task_func(text, top=3):\n```\n")
    assert complete[0].startswith(
        first + "```\nimport re\nfrom collections import Counter\n\ndef task_func(text, top=3):\n"
    )
    assert complete[0].endswith('[(\'oslo\', 2)]\n    """\n```\n')


@pytest.mark.parametrize("name", list(NAMED))
def test_canonical_solutions_pass_and_those_without_a_library_stop_no_run(name: str, tools: Tools) -> None:
    items = items_of(name)
    answers = {item.id: str(NAMED[name].gold_response(item)) for item in items.values()}
    samples = graded(name, answers, tools)
    lacking = {item for item, sample in samples.items() if sample.status == "unscored"}
    assert {item: sample.reason for item, sample in samples.items() if sample.score == 0} == {}
    assert len(items) - len(lacking) >= 2
    assert list(NAMED[name].check(list(items.values()), tools)) == []


@pytest.mark.parametrize(
    ("name", "item", "library"),
    [("BigCodeBench", "BigCodeBench/90006", "natsort"), ("BigCodeBenchHard", "BigCodeBench/90103", "blake3")],
)
@pytest.mark.parametrize("answer", ["```python\ndef task_func(one):\n    return one\n```", "", "<think>never closed"])
def test_a_missing_library_is_reported_whatever_the_answer(
    name: str, item: str, library: str, answer: str, tools: Tools
) -> None:
    assert tools.sandbox is not None
    why = f"library {library} is not {REMEDY}"
    if explain_missing([library], tools.sandbox) != why:
        pytest.skip(f"this Python has {library}")
    samples = graded(name, {item: answer}, tools)
    assert (samples[item].status, samples[item].score, samples[item].reason) == ("unscored", None, why)
    metrics = NAMED[name].summarise(samples.values()).metrics
    assert metrics["num_unscored"] == 1


@pytest.mark.parametrize("answer", CASES["right"].values(), ids=CASES["right"])
def test_a_right_answer_passes_in_any_form(answer: str, tools: Tools) -> None:
    for name in ("BigCodeBench", "BigCodeBenchComplete"):
        sample = graded(name, {PLACES: answer}, tools)[PLACES]
        assert (sample.score, sample.reason) == (1.0, "ok")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (COUNTED.replace("-pair", "pair"), "AssertionError: 1 of 4 tests: test_counts_without_case"),
        ("def task_func(text, top=3):\n    return 1 / 0", "AssertionError: 4 of 4 tests: test_counts_without_case"),
        ("def task_func(text, top=3):\n    return []\nraise OSError('at once')", "OSError: at once"),
    ],
    ids=["one test", "all tests", "at import"],
)
def test_a_wrong_answer_says_which_tests_failed(code: str, why: str, tools: Tools) -> None:
    sample = run(code, tools)
    assert sample.score == 0.0
    assert sample.reason.startswith(why)


@pytest.mark.parametrize("code", CASES["tricks"].values(), ids=CASES["tricks"])
def test_a_trick_passes_no_test(code: str, tools: Tools) -> None:
    assert run(code, tools).score == 0.0


@pytest.mark.parametrize(("test", "passed"), CASES["tests"].values(), ids=CASES["tests"])
def test_tests_run_as_unittest_runs_them(test: str, passed: bool, tools: Tools) -> None:
    assert tools.sandbox is not None
    execution = tools.sandbox.run(build_program("", f"import unittest\nclass TestCases(unittest.TestCase):\n{test}\n"))
    assert execution.passed is passed, execution.stderr


def test_figures_stand_under_evalchemys_keys() -> None:
    samples = [
        Sample(item="BigCodeBench/1", score=1.0, reason="ok", group=STANDARD),
        Sample(item="BigCodeBench/2", score=0.0, reason="AssertionError", group=STANDARD),
        Sample(item="BigCodeBench/3", score=1.0, reason="ok", group=FOREIGN),
    ]
    summaries = {benchmark.name: benchmark.summarise(samples) for benchmark in BENCHMARKS}
    keys = {"BigCodeBench": "instruct", "BigCodeBenchComplete": "complete"} | {
        "BigCodeBenchHard": "instruct-hard", "BigCodeBenchHardComplete": "complete-hard"
    }  # fmt: skip
    assert all(summaries[name].metrics[f"{key}_pass@1"] == pytest.approx(2 / 3) for name, key in keys.items())
    parts = {one.part: one.value for one in summaries["BigCodeBench"].estimates}
    assert parts == {"": pytest.approx(2 / 3), f"group={FOREIGN}": 1.0, f"group={STANDARD}": 0.5}


def test_libraries_are_those_declared_and_those_that_solution_and_tests_import(tmp_path: Path) -> None:
    item = read(tmp_path, test="import numpy.linalg\nfrom faker import Faker\nclass TestCases: pass", libs="['json']")
    assert item.detail["libraries"] == ["faker", "json", "numpy"]
    assert item.group == FOREIGN
    assert read(tmp_path, libs=["json"]).group == STANDARD


def read(folder: Path, **changed: Any) -> Item:
    """An item whose fields are `changed`; one that is None is left out."""
    fields = {
        "task_id": "BigCodeBench/1",
        "instruct_prompt": "Do it.",
        "code_prompt": "def task_func():\n",
        "canonical_solution": "    return 1",
        "test": "class TestCases: pass",
        "entry_point": "task_func",
        "libs": "[]",
    } | changed
    row = {name: value for name, value in fields.items() if value is not None}
    (folder / "bigcodebench.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    return next(BigCodeBench("BigCodeBench", split="instruct", hard=False).items(Data(folder)))
