"""MultiPL-E by table: each language that is here executes a function of our own in the published schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.humaneval import BENCHMARKS, LANGUAGES, MultiPLE, read_own_solutions
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.benchmark_data import Data
from tasks.sandbox.languages import find_language, why_unavailable
from tests.evaluation.code.answered import graded

MULTIPLE = [one for one in BENCHMARKS if isinstance(one, MultiPLE)]
BY_EXTENSION = {one.extension: one for one in MULTIPLE}
NAME = "HumanEval_53_add"
CALL = "candidate(2, 3)"
PROGRAMS = Path(__file__).parents[2] / "samples" / "programs"
ROWS: dict[str, tuple[str, str, list[str]]] = json.loads((PROGRAMS / "multipl_e_rows.json").read_text("utf-8"))
"""Extension → prompt, tests and stops in the shape of its translator (nuprl/MultiPL-E, dataset_builder)."""
WHOLE: dict[str, str] = json.loads((PROGRAMS / "multipl_e_answers.json").read_text("utf-8"))
"""Extension → a whole program with the function."""


def item_of(extension: str, folder: Path) -> tuple[MultiPLE, Item]:
    """The benchmark of a language, and an item of it."""
    prompt, tests, stops = ROWS[extension]
    row = {"name": NAME, "language": extension, "prompt": prompt, "tests": tests, "stop_tokens": stops}
    (folder / f"humaneval_{extension}.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    benchmark = BY_EXTENSION[extension]
    (item,) = benchmark.items(Data(folder))
    return benchmark, item


def test_the_table_is_of_known_languages_and_each_has_a_solution_of_ours() -> None:
    assert sorted(LANGUAGES) == sorted(ROWS)
    assert all(find_language(extension).name == name for extension, name in LANGUAGES.items())
    assert all(NAME in read_own_solutions(extension) for extension in LANGUAGES)
    assert [(one.name, one.files[0].config) for one in MULTIPLE][:2] == [
        ("MultiPLE-sh", "humaneval-sh"),
        ("MultiPLE-js", "humaneval-js"),
    ]


@pytest.mark.parametrize("extension", ROWS)
def test_our_solution_passes_or_the_check_says_what_is_missing(extension: str, tools: Tools, tmp_path: Path) -> None:
    benchmark, item = item_of(extension, tmp_path)
    problems = list(benchmark.check([item], tools))
    if why := why_unavailable(find_language(extension)):
        assert problems == [f"none of 1 items can be scored here: programs of {extension} cannot be run here: {why}"]
    else:
        assert problems == []


@pytest.mark.machine
@pytest.mark.parametrize("extension", ROWS)
def test_a_wrong_function_fails(extension: str, tools: Tools, tmp_path: Path) -> None:
    if why := why_unavailable(find_language(extension)):
        pytest.skip(why)
    benchmark, item = item_of(extension, tmp_path)
    body = read_own_solutions(extension)[NAME].replace("+", "-")
    sample = graded(benchmark, [item], {item.id: f"```{extension}\n{body}```"}, tools)[item.id]
    assert sample.score == 0
    assert sample.reason


@pytest.mark.machine
@pytest.mark.parametrize(("extension", "code"), WHOLE.items(), ids=WHOLE)
def test_a_whole_function_in_a_fence_passes(extension: str, code: str, tools: Tools, tmp_path: Path) -> None:
    if why := why_unavailable(find_language(extension)):
        pytest.skip(why)
    benchmark, item = item_of(extension, tmp_path)
    assert graded(benchmark, [item], {item.id: f"Here:\n```{extension}\n{code}\n```\n"}, tools)[item.id].score == 1
