"""Programs a line each, as openai/human-eval writes them, find their items."""

from __future__ import annotations

import gzip
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


def test_a_program_stays_as_it_is_to_the_last_blank(tmp_path: Path) -> None:
    assert matched(tmp_path, program("HumanEval/0")) == [("HumanEval/0", 0, "    return 1\n")]


def test_a_packed_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(program("HumanEval/0", "a")).encode()))
    assert [one.text for one in recorded_responses(ITEMS, read_recorded(path))] == ["a"]


def test_other_fields_are_left_unread(tmp_path: Path) -> None:
    line = program("HumanEval/0", "a", id=77, result="failed: ", passed=False, completion_id=3)
    assert matched(tmp_path, line) == [("HumanEval/0", 0, "a")]


def test_no_program_is_a_missed_answer(tmp_path: Path) -> None:
    recorded = read_recorded(written(tmp_path, program("HumanEval/0", None)))
    [response] = recorded_responses(ITEMS, recorded)
    assert response.missed == "0 of 1 turns are recorded"


@pytest.mark.parametrize("language", ["python", "py", "Python", None, ""])
def test_a_language_has_several_names_and_need_not_be_said(tmp_path: Path, language: str | None) -> None:
    assert matched(tmp_path, program("HumanEval/0", "a", language=language)) == [("HumanEval/0", 0, "a")]


@pytest.mark.parametrize(("language", "item"), [("sh", SHELL), ("bash", SHELL), ("js", SCRIPT), ("javascript", SCRIPT)])
def test_an_id_that_two_languages_have_is_told_apart_by_the_field(tmp_path: Path, language: str, item: Item) -> None:
    line = program("HumanEval_0_x", "a", language=language)
    assert matched(tmp_path, line, items=[SHELL, SCRIPT]) == [(item.id, 0, "a")]


def test_an_id_that_two_languages_have_needs_the_field(tmp_path: Path) -> None:
    with pytest.raises(DataUnusable, match=r"samples\.jsonl, line 2: several languages have an item of this id"):
        matched(tmp_path, program("js/HumanEval_0_x"), program("HumanEval_0_x"), items=[SHELL, SCRIPT])


def test_where_items_are_of_no_language_the_field_is_left_unread(tmp_path: Path) -> None:
    assert matched(tmp_path, program(9, "a", language="python")) == [("9", 0, "a")]


@pytest.mark.parametrize(
    ("lines", "line", "why"),
    [
        (
            [program("HumanEval/0"), program("HumanEval/9")],
            2,
            "the benchmark has no item 'HumanEval/9'; its first is 'HumanEval/0'",
        ),
        (
            [program("HumanEval/0"), program("HumanEval/1", language="sh")],
            2,
            "its language is 'sh', and item 'HumanEval/1' is one of python",
        ),
        ([program("HumanEval_0_x", language="klingon")], 1, "its language is 'klingon', and item"),
        ([program("HumanEval/0"), {"completion": "a"}], 2, "it has no task_id"),
        ([program("HumanEval/0"), {"task_id": "HumanEval/0", "response": "a"}], 2, "give all lines one shape"),
        ([program("HumanEval/0", response="a")], 1, "response and completion"),
        ([program("HumanEval/0"), {"task_id": "HumanEval/1"}], 2, "it has no answer"),
        ([program("HumanEval/0", 5)], 1, "completion: expected a text, found int"),
        ([program("HumanEval/0", ["a"])], 1, "completion: expected a text, found list"),
        ([program("HumanEval/0", language=3)], 1, "language: expected a name such as python, found int"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, lines: list[dict[str, Any]], line: int, why: str) -> None:
    with pytest.raises(DataUnusable) as caught:
        matched(tmp_path, *lines)
    assert str(caught.value).startswith(f"{tmp_path / 'samples.jsonl'}, line {line}: ")
    assert why in str(caught.value)


def test_what_is_no_json_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, program("HumanEval/0"))
    path.write_text(path.read_text() + '{"task_id": "HumanEval/1", "comp')
    with pytest.raises(DataUnusable, match=r"samples\.jsonl, line 2: not JSON"):
        read_recorded(path)


def test_of_a_part_of_the_items_the_other_programs_are_no_mistake(tmp_path: Path) -> None:
    lines = [program("HumanEval/0", "a"), program("HumanEval/2"), program("HumanEval_0_x")]
    assert matched(tmp_path, *lines, items=PYTHON[:1], partial=True) == [("HumanEval/0", 0, "a")]


def test_programs_of_another_benchmark_are_a_mistake_in_part_too(tmp_path: Path) -> None:
    with pytest.raises(DataUnusable, match="no item 'Mbpp/2'"):
        matched(tmp_path, program("Mbpp/2"), items=PYTHON[:1], partial=True)


@pytest.mark.parametrize(
    ("languages", "repeats"), [([None], 1), ([None, None], 2), (["sh", "bash", "js"], 2), (["sh", None, "js"], 2)]
)
def test_the_most_programs_of_an_item_are_the_repeats(
    tmp_path: Path, languages: list[str | None], repeats: int
) -> None:
    lines = [program("HumanEval/0"), *(program("HumanEval_0_x", language=language) for language in languages)]
    recorded = read_recorded(written(tmp_path, *lines))
    assert recorded.repeats == repeats
