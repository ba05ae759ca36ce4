"""Judgments that people labelled: how they are read, and how far a judge's reply agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.grading.judge_questions import LabelsUnusable, agreement, read_questions, verdict_in


def write(folder: Path, *rows: Any) -> Path:
    file = folder / "labels.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_judgment_without_an_id_is_named_by_its_line(tmp_path: Path) -> None:
    rows = ({"id": "m1", "prompt": "Which?", "human": "A"}, {"prompt": "How good?", "human": 7, "by": "two people"})
    first, second = read_questions(write(tmp_path, *rows))
    assert (first.name, first.human, second.name, second.human) == ("m1", "A", "2", 7.0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"prompt": "?", "human": "A"}, {"prompt": "?"}], r"labels.jsonl, line 2: human: Field required"),
        ([{"prompt": "?", "human": True}], "line 1: human: "),
        ([{"prompt": "?", "human": 11}], "line 1: human: "),
        ([{"prompt": "", "human": "A"}], "line 1: prompt: "),
        ([{"prompt": "?", "human": "A"}, {"id": 1, "prompt": "!", "human": "B"}], "line 2: id: '1' is in line 1 too"),
        ([], "holds no judgment"),
    ],
)
def test_what_is_no_labelled_judgment_is_refused_with_its_line(tmp_path: Path, rows: list[Any], said: str) -> None:
    with pytest.raises(LabelsUnusable, match=said):
        read_questions(write(tmp_path, *rows))


@pytest.mark.parametrize(
    ("reply", "human", "verdict", "agrees"),
    [
        ("The first is better. [[A]]", "A", "A", 1.0),
        ("[[B]]", "A", "B", 0.0),
        ("[[A]] or [[B]]", "A", None, 0.0),
        ("I like both.", "C", None, 0.0),
        ("<think>[[B]]</think>[[A]]", "A", "A", 1.0),
        ("Rating: [[7]]", 7.0, 7.0, 1.0),
        ("Rating: [[4]]", 7.0, 4.0, 1 - 3 / 9),
        ("Rating: [[10]]", 0.0, 10.0, 0.0),
        ("Rating: 7", 7.0, None, 0.0),
    ],
)
def test_a_reply_agrees_with_a_person(reply: str, human: Any, verdict: Any, agrees: float) -> None:
    assert verdict_in(reply, human) == verdict
    assert agreement(human, verdict) == pytest.approx(agrees)


def test_another_night_asks_another_question_of_the_store_and_the_same_of_the_judge(tmp_path: Path) -> None:
    (one,) = read_questions(write(tmp_path, {"prompt": "Which?", "system": "Be fair.", "human": "A"}))
    first, second = (one.request(draw=night, max_tokens=64) for night in (1, 2))
    assert first != second
    assert first.messages == second.messages
    assert [message.role for message in first.messages] == ["system", "user"]
