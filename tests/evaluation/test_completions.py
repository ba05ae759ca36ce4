"""Programs a line each, as openai/human-eval writes them, find their items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.replaying import read_recorded, recorded_responses

PYTHON = [Item(id=f"HumanEval/{n}", prompts=("?",), group="python") for n in range(3)]
SHELL = Item(id="HumanEval_0_x", prompts=("?",), group="sh")
SCRIPT = Item(id="js/HumanEval_0_x", prompts=("?",), group="js", detail={"task_id": "HumanEval_0_x"})
LEVEL = Item(id="9", prompts=("?",), group="easy")
ITEMS = [*PYTHON, SHELL, LEVEL]


def program(item: Any, text: Any = "    return 1\n", **fields: Any) -> dict[str, Any]:
    return {"task_id": item, "completion": text, **fields}


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def matched(folder: Path, *lines: dict[str, Any], items: list[Item] = ITEMS, partial: bool = False) -> list[Any]:
    recorded = read_recorded(written(folder, *lines))
    return [(one.item, one.repeat, one.text) for one in recorded_responses(items, recorded, partial=partial)]


def test_lines_of_one_item_are_its_repeats_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [program("HumanEval/1", "a"), program("HumanEval/0", "b"), program("HumanEval/1", "c")]
    assert matched(tmp_path, *lines) == [("HumanEval/0", 0, "b"), ("HumanEval/1", 0, "a"), ("HumanEval/1", 1, "c")]


@pytest.mark.parametrize("language", ["python", "py", "Python", None, ""])
def test_a_language_has_several_names_and_need_not_be_said(tmp_path: Path, language: str | None) -> None:
    assert matched(tmp_path, program("HumanEval/0", "a", language=language)) == [("HumanEval/0", 0, "a")]


@pytest.mark.parametrize(("language", "item"), [("sh", SHELL), ("bash", SHELL), ("js", SCRIPT), ("javascript", SCRIPT)])
def test_an_id_that_two_languages_have_is_told_apart_by_the_field(tmp_path: Path, language: str, item: Item) -> None:
    line = program("HumanEval_0_x", "a", language=language)
    assert matched(tmp_path, line, items=[SHELL, SCRIPT]) == [(item.id, 0, "a")]


@pytest.mark.parametrize(
    ("lines", "line", "why"),
    [
        ([program("HumanEval/0"), {"completion": "a"}], 2, "it has no task_id"),
        ([program("HumanEval/0"), {"task_id": "HumanEval/0", "response": "a"}], 2, "give all lines one shape"),
        ([program("HumanEval/0"), {"task_id": "HumanEval/1"}], 2, "it has no answer"),
        ([program("HumanEval/0", 5)], 1, "completion: expected a text, found int"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, lines: list[dict[str, Any]], line: int, why: str) -> None:
    with pytest.raises(DataUnusable) as caught:
        matched(tmp_path, *lines)
    assert str(caught.value).startswith(f"{tmp_path / 'samples.jsonl'}, line {line}: ")
    assert why in str(caught.value)


def test_of_a_part_of_the_items_the_other_programs_are_no_mistake(tmp_path: Path) -> None:
    lines = [program("HumanEval/0", "a"), program("HumanEval/2"), program("HumanEval_0_x")]
    assert matched(tmp_path, *lines, items=PYTHON[:1], partial=True) == [("HumanEval/0", 0, "a")]
