from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.replaying import read_recorded, recorded_responses

ONE, TWO = Item(id="1", prompts=("?",)), Item(id="2", prompts=("?", "And?"))


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def repeats_by_id(path: Path) -> dict[str, list[list[str]]]:
    return {item: line.repeats for item, [line] in read_recorded(path).items()}


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ({"id": 1, "response": "a"}, [["a"]]),
        ({"id": "1", "responses": ["a", "b"]}, [["a"], ["b"]]),
        ({"unique_id": "1", "turns": ["a", "b"]}, [["a", "b"]]),
        ({"question_id": 1, "responses": [["a", "b"], ["c", "d"]]}, [["a", "b"], ["c", "d"]]),
        ({"id": 1, "response": None}, [[]]),
        ({"id": 1, "response": ""}, [[""]]),
        ({"id": 1, "response": "x \ud83d y"}, [["x \ufffd y"]]),
    ],
)
def test_a_line_holds_an_answer_repeats_or_turns(
    tmp_path: Path, line: dict[str, Any], answers: list[list[str]]
) -> None:
    assert repeats_by_id(written(tmp_path, line)) == {"1": answers}


def test_lines_without_ids_are_in_the_order_of_the_items(tmp_path: Path) -> None:
    assert repeats_by_id(written(tmp_path, {"response": "a"}, {"response": "b"})) == {"0": [["a"]], "1": [["b"]]}


@pytest.mark.parametrize(
    ("lines", "line", "why"),
    [
        ([{"id": 1, "response": "a"}, {"id": "1", "response": "b"}], 2, "stands on line 1 already"),
        ([{"id": 1, "response": "a"}, {"response": "b"}], 2, "it has no id"),
        ([{"id": 1, "response": "a"}, {"id": 2, "responses": ["b"]}], 2, "give all lines one shape"),
        ([{"id": 1, "answer": "a"}], 1, "it has no answer"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, lines: list[dict[str, Any]], line: int, why: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(DataUnusable) as caught:
        read_recorded(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert why in str(caught.value)


def test_responses_come_in_the_order_of_the_items_with_their_repeats(tmp_path: Path) -> None:
    recorded = read_recorded(written(tmp_path, {"id": 2, "responses": ["c", "d"]}, {"id": 1, "responses": ["a", "b"]}))
    two = TWO.model_copy(update={"prompts": ("?",)})
    got = [(one.item, one.repeat, one.text) for one in recorded_responses([ONE, two], recorded)]
    assert got == [("1", 0, "a"), ("1", 1, "b"), ("2", 0, "c"), ("2", 1, "d")]


def test_too_many_turns_are_named(tmp_path: Path) -> None:
    recorded = read_recorded(written(tmp_path, {"id": 1, "turns": ["a", "b"]}))
    with pytest.raises(DataUnusable, match=r"line 1: 2 turns, and item '1' asks 1"):
        list(recorded_responses([ONE], recorded))


def test_an_answer_to_an_item_that_is_not_there_is_named(tmp_path: Path) -> None:
    recorded = read_recorded(written(tmp_path, {"id": 1, "response": "a"}, {"id": "zwei", "response": "b"}))
    with pytest.raises(DataUnusable, match="line 2: the benchmark has no item 'zwei'; its first is '1'"):
        list(recorded_responses([ONE], recorded))
