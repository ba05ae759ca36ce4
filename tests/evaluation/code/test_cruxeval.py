"""CruxEval on items of our own and on the published ones: what is asked, which answers are right, which are tricks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.cruxeval import BENCHMARKS, extract_answer
from tasks.evaluation.evaluation_records import Item, Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.code.answered import graded

SAMPLES = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
THINKING, DIRECT = BENCHMARKS
ITEMS = list(THINKING.items(SAMPLES))
BY_ID = {item.id: item for item in ITEMS}
TURNED = "sample_1"
"""def f(text, times): turns a text by so many letters; f('harbour', 2) == 'rbourha'."""
PROGRAMS = Path(__file__).parents[2] / "samples" / "programs"
ANSWERS = json.loads((PROGRAMS / "cruxeval_answers.json").read_text("utf-8"))
"""Right and wrong answers to this function, tricks among them; and responses with the answer in them."""


def sample_of(item: Item, answer: str, tools: Tools) -> Sample:
    return graded(THINKING, [item], {item.id: f"[ANSWER]\n{answer}\n[/ANSWER]"}, tools)[item.id]


def item_of(code: str, given: str, output: str, part: str) -> Item:
    return BY_ID[f"{TURNED}/{part}"].model_copy(update={"detail": {"code": code, "input": given, "output": output}})


def test_each_function_is_asked_for_an_input_and_for_an_output() -> None:
    assert [(item.id, item.group) for item in ITEMS[:3]] == [
        ("sample_0/input", "input"),
        ("sample_0/output", "output"),
        ("sample_1/input", "input"),
    ]
    assert len(ITEMS) == 16
    assert (THINKING.sampling.temperature, THINKING.sampling.max_tokens, THINKING.repeats) == (0.2, 2048, 1)


@pytest.mark.parametrize(
    ("benchmark", "part", "begins", "ends"),
    [
        (THINKING, "input", "You will be given a function f", "\nassert f(??) == 'rbourha'\n[/PYTHON]\n[THOUGHT]\n"),
        (THINKING, "output", "You are given a Python", "\nassert f('harbour', 2) == ??\n[/PYTHON]\n[THOUGHT]\n"),
        (DIRECT, "input", "You will be given a function f", "\nassert f(??) == 'rbourha'\n[/PYTHON]\n[ANSWER]\n"),
        (DIRECT, "output", "You are given a Python", "\nassert f('harbour', 2) == ??\n[/PYTHON]\n[ANSWER]\n"),
    ],
    ids=["input", "output", "input at once", "output at once"],
)
def test_the_question_is_the_last_of_the_prompt(benchmark: Any, part: str, begins: str, ends: str) -> None:
    (item,) = [item for item in benchmark.items(SAMPLES) if item.id == f"{TURNED}/{part}"]
    assert item.prompts[0].startswith(begins)
    assert item.prompts[0].endswith(f"[/ANSWER]\n\n[PYTHON]\n{item.detail['code']}{ends}")


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_the_answers_of_the_data_are_right(benchmark: Any, tools: Tools) -> None:
    assert list(benchmark.check(list(benchmark.items(SAMPLES)), tools)) == []


def test_a_sandbox_in_which_the_data_does_not_hold_is_found_out(tools: Tools) -> None:
    other = item_of("def f(x):\n    return x", "1", "2", "output")
    (problem,) = THINKING.check([other], tools)
    assert "AssertionError: the data does not hold here" in problem


@pytest.mark.parametrize(
    ("asked", "answer"), [(asked, answer) for asked in ("output", "input") for answer in ANSWERS[f"right {asked}"]]
)
def test_a_right_answer(asked: str, answer: str, tools: Tools) -> None:
    assert sample_of(BY_ID[f"{TURNED}/{asked}"], answer, tools).score == 1.0


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(asked, answer) for asked in ("output", "input") for answer in ANSWERS[f"wrong {asked}"]],
    ids=ascii,
)
def test_a_wrong_answer(asked: str, answer: str, tools: Tools) -> None:
    sample = sample_of(BY_ID[f"{TURNED}/{asked}"], answer, tools)
    assert (sample.status, sample.score, sample.missing) == ("scored", 0.0, not answer)


def test_an_input_may_use_the_values_of_the_program(tools: Tools) -> None:
    item = BY_ID["sample_7/input"]
    assert sample_of(item, "assert f([15, 1], limits) == 0.5", tools).score == 1.0
    assert sample_of(item, "assert f([15, 1], bounds) == 0.5", tools).score == 0.0


@pytest.mark.parametrize(("response", "answer"), ANSWERS["responses"].values(), ids=ANSWERS["responses"])
def test_where_the_answer_stands(response: str, answer: str) -> None:
    assert extract_answer(response).strip() == answer


def test_figures_carry_evalchemys_names(tools: Tools) -> None:
    answers = {f"{TURNED}/input": "[ANSWER]f('harbour', 2)[/ANSWER]", f"{TURNED}/output": "[ANSWER]1[/ANSWER]"}
    found = THINKING.summarise(graded(THINKING, ITEMS, answers, tools).values())
    assert (found.metrics["input_pass@1"], found.metrics["output_pass@1"], found.metrics["pass@1"]) == (1.0, 0.0, 0.5)


@pytest.mark.shared
def test_of_the_published_functions_all_answers_are_right(shared: Path, tools: Tools) -> None:
    items = list(THINKING.items(Data(shared / "benchmarks")))
    answers = {item.id: THINKING.gold_response(item) or "" for item in items}
    right = graded(THINKING, items, answers, tools)
    assert (passed(right, "input"), passed(right, "output")) == (800, 800)
    assert {sample.status for sample in right.values()} == {"scored"}


def passed(samples: dict[str, Sample], part: str) -> int:
    return sum(sample.score == 1 for sample in samples.values() if sample.group == part)
