from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.grading.choice import ChoiceQuestion, find_choice, find_unannounced, grade_choice
from tasks.grading.reading import visible_answer

CITIES = ("Lisbon", "Porto", "Coimbra", "Faro")
CASES = [json.loads(line) for line in Path(__file__).with_name("choices.jsonl").read_text("utf-8").splitlines()]
"""What responses settle on: kind, response, letters; `options` and `several` where they are not those of the cities."""


def found(response: str, options: tuple[str, ...] = CITIES, *, several: bool = False) -> str | None:
    visible = visible_answer(response)
    asked = ChoiceQuestion("ABCDEFGHIJ"[: len(options)], options, several)
    if visible is None:
        return None
    choice = find_choice(visible, asked) or find_unannounced(visible, asked)
    return choice and choice.letters


def test_a_response_names_its_choice_and_stray_letters_are_none() -> None:
    def letters(case: dict[str, Any]) -> str | None:
        return found(case["response"], tuple(case.get("options", CITIES)), several=case.get("several", False))

    assert [(case, wrong) for case in CASES if (wrong := letters(case)) != case["letters"]] == []


def graded(response: str, *, gold: str = "B", several: bool = False, finish: str = "stop") -> dict[str, object]:
    item = Item(id="7", prompts=("?",), gold=gold, detail={"options": list(CITIES), "several": several})
    answer = Response(item="7", repeat=2, turns=(Reply(text=response, finish_reason=finish),))
    (sample,) = grade_choice([(item, answer)])
    return sample.model_dump()


@pytest.mark.parametrize(
    ("response", "gold", "score"),
    [("ACD", "ACD", 1.0), ("A, C", "ACD", 0.5), ("A", "ACD", 0.25), ("A, B", "ACD", 0.0), ("A, B, C, D", "ACD", 0.0)],
)
def test_a_part_of_several_letters_is_worth_a_quarter_each(response: str, gold: str, score: float) -> None:
    assert graded(f"\\boxed{{{response}}}", gold=gold, several=True)["score"] == score


def test_two_letters_are_wrong_where_one_is_asked_for() -> None:
    assert graded("\\boxed{A, B}")["score"] == 0.0


def test_a_sample_says_what_was_chosen_and_where() -> None:
    sample = graded("It is far north.\n\\boxed{B}")
    wanted = {"item": "7", "repeat": 2, "score": 1.0, "extracted": "B", "gold": "B", "reason": "box", "missing": False}
    assert {name: sample[name] for name in wanted} == wanted
    assert sample["detail"] == {"chosen": "Porto"}


def test_reasoning_that_was_cut_off_is_a_missing_answer_and_says_so() -> None:
    sample = graded("<think>B looks right, so the answer is B", finish="length")
    assert (sample["score"], sample["missing"], sample["truncated"]) == (0.0, True, True)
    assert sample["reason"] == "the reasoning was never closed"


@given(letter=st.sampled_from("ABCD"), noise=st.text(max_size=60))
def test_whatever_stands_before_a_box_the_box_wins(letter: str, noise: str) -> None:
    before = re.sub(r"[\\<◁\[]|/?think", "", noise)
    assert found(f"{before}\n\n\\boxed{{{letter}}}") == letter


@given(st.text(max_size=300))
def test_any_text_is_graded(text: str) -> None:
    assert graded(text)["status"] == "scored"


HOSTILE = {
    "announcements": "the answer is " * 700_000,
    "colons": "answer:" + " " * 10_000_000,
    "boxes": r"\boxed{" * 1_400_000,
    "nested": r"\boxed{" * 5_000 + "?" + "}" * 5_000,
    "brackets": "((((" * 2_500_000 + "B",
    "letters": "A, B, C, " * 1_100_000,
    "newlines": "answer\n" * 1_400_000,
    "nul": "\0" * 10_000_000,
    "korean": "정답은 " * 2_500_000,
    "dashes": "answer" + "-" * 10_000_000,
    "surrogate": "\ud800 answer: \udfff" * 10_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_ten_megabytes_of_anything_are_graded(name: str) -> None:
    """Each takes about a second; a quadratic step would take hours, which the time-out of the run ends."""
    assert graded(HOSTILE[name])["score"] == 0.0


def test_ten_megabytes_before_the_answer_do_not_hide_it() -> None:
    assert graded("So the answer is A or so. " * 400_000 + "\n\nThe answer is (B).")["score"] == 1.0
