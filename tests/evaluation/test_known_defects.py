"""Items that public reports show to be broken: scored as published, marked, and repaired beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.benchmark_registry import list_benchmarks
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.known_defects import find_defect, read_defects
from tests.command import run_here

PARAGRAPHS = [{"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "snow"}]
INSTRUCTIONS = ["length_constraints:nth_paragraph_first_word"]
QUESTION: dict[str, Any] = {"question": "?", "options": ["a", "b", "c"], "category": "x"}


def scored(folder: Path, task: str, file: str, rows: list[dict[str, Any]], answers: dict[str, str]) -> dict[str, Any]:
    """The metrics of recorded answers."""
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    lines = [json.dumps({"id": item, "response": answer}) + "\n" for item, answer in answers.items()]
    (folder / "r.jsonl").write_text("".join(lines), "utf-8")
    done = run_here("eval", "score", folder / "r.jsonl", "--task", task, "--data-dir", folder, "--json")
    assert done.code == 0, done.stderr
    return done.json["results"][task]


def test_each_entry_has_its_address_and_a_benchmark_of_ours() -> None:
    names = [*list_benchmarks(), "MultiPLE-*"]
    assert {name for entry in read_defects() for name in entry.benchmarks} <= set(names)
    assert len(read_defects()) >= 40


@pytest.mark.shared
@pytest.mark.parametrize("name", ["AIME25", "GSM8K", "HumanEval", "IFEval", "MBPP", "MMLUStem", "MTBench"])
def test_each_entry_finds_its_item_in_the_published_data(shared: Path, name: str) -> None:
    items = list(list_benchmarks()[name].items(Data(shared / "benchmarks")))
    for entry in (entry for entry in read_defects() if name in entry.benchmarks):
        concerned = {item.id for item in items if entry.concerns(name, item)}
        # of the translations of HumanEval, the data has some
        assert len(concerned) == 1 if entry.prompt else concerned or "*" in entry.items[0], entry


@pytest.mark.parametrize(
    ("benchmark", "item", "has_defect"),
    [
        ("HumanEval", Item(id="HumanEval/4", prompts=("?",)), False),
        ("MultiPLE-lua", Item(id="lua/HumanEval_140_fix_spaces", prompts=("?",)), True),
        ("MMLUPro", Item(id="5457", prompts=("?",), gold="B"), True),
        ("MMLUPro", Item(id="5457", prompts=("?",), gold="A"), False),
        ("IFEval", Item(id="1", prompts=("Use only one bullet point about it, in a few bullet points.",)), True),
        ("IFEval", Item(id="1", prompts=("Use exactly one bullet point.",)), False),
    ],
)
def test_a_defect_is_that_of_the_item_as_it_was_reported(benchmark: str, item: Item, has_defect: bool) -> None:
    assert (find_defect(benchmark, item) is not None) == has_defect


def test_a_wrong_label_counts_as_published_and_beside_it_by_the_right_one(tmp_path: Path) -> None:
    rows = [QUESTION | {"question_id": 5457, "answer": "B"}, QUESTION | {"question_id": 1, "answer": "C"}]
    metrics = scored(tmp_path, "MMLUPro", "mmlu_pro.jsonl", rows, {"5457": "The answer is (A).", "1": "Answer: C"})
    repaired = metrics["repaired"]
    assert (metrics["accuracy"], repaired["value"], repaired["difference"]) == (0.5, 1.0, 0.5)
    assert "https://github.com/TIGER-AI-Lab/MMLU-Pro/issues/16" in repaired["items"]["5457"]


def test_a_checker_that_errs_is_shown_beside_one_that_does_not_and_a_contradiction_left_out(tmp_path: Path) -> None:
    contradiction = "Write exactly one bullet point. Add a few bullet points."
    bullets = {"instruction_id_list": ["detectable_format:number_bullet_lists"], "kwargs": [{"num_bullets": 1}]}
    rows = [
        {"key": 1, "prompt": "Two paragraphs.", "instruction_id_list": INSTRUCTIONS, "kwargs": PARAGRAPHS},
        {"key": 2, "prompt": "Two paragraphs.", "instruction_id_list": INSTRUCTIONS, "kwargs": PARAGRAPHS},
        {"key": 3, "prompt": contradiction} | bullets,
    ]
    answers = {"1": "\n\nIce.\n\n\n\nSnow falls.", "2": "\n\nIce.\n\n\n\nRain falls.", "3": "* a\n* b"}
    metrics = scored(tmp_path, "IFEval", "ifeval.jsonl", rows, answers)
    assert (metrics["prompt_level_strict"], metrics["repaired"]["value"]) == (0.0, 0.5)
    assert list(metrics["repaired"]["items"]) == ["1", "2", "3"]


def test_without_a_defect_nothing_is_said(tmp_path: Path) -> None:
    rows = [QUESTION | {"question_id": 1, "answer": "C"}]
    assert "repaired" not in scored(tmp_path, "MMLUPro", "mmlu_pro.jsonl", rows, {"1": "Answer: C"})
