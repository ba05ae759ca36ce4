"""Our own prompts and recorded answers, and the 541 published prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.grading.rules.rule_checks import KINDS
from tasks.grading.rules.rule_grading import check_rules, grade_rules, summarise_rules

HERE = Path(__file__).parents[2] / "samples"

# per prompt: instructions followed strictly, then loosely, T or F in their order
EXPECTED = {
    "model-a": {
        9001: "TT TT",
        9002: "TT TT",
        9003: "TT TT",
        9004: "T T",
        9005: "TT TT",
        9006: "T T",
        9007: "T T",
        9008: "TT TT",
        9009: "TF TF",  # five bullets; without the last line there are still four
        9010: "T T",
        9011: "TT TT",
        9012: "F T",  # a line before the JSON
        9013: "T T",
        9014: "T T",
        9015: "TT TT",
        9016: "T T",
        9017: "T T",
    },
    "model-b": {
        9001: "FF FF",
        9002: "TF TF",
        9003: "FT FT",
        9004: "F F",  # in English
        9005: "FF TT",  # the last line alone has one sentence, and without it the phrase ends the answer
        9006: "F F",
        9007: "F F",
        9008: "FF FF",
        9009: "FT FT",
        9010: "F T",  # asterisks inside the answer
        9011: "FF FF",
        9012: "T T",
        9013: "T T",
        9014: "F T",  # `Sure!` on the first line
        9015: "FF FF",
        9016: "F F",
        9017: "F F",
    },
}
METRICS = {
    "model-a": {"prompt": (15 / 17, 16 / 17), "instruction": (23 / 25, 24 / 25)},
    "model-b": {"prompt": (2 / 17, 5 / 17), "instruction": (5 / 25, 9 / 25)},
}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def items_of(path: Path) -> list[Item]:
    return [
        Item(
            id=str(row["key"]),
            prompts=(row["prompt"],),
            detail={"instruction_id_list": row["instruction_id_list"], "kwargs": row["kwargs"]},
        )
        for row in rows(path)
    ]


def answered(model: str) -> list[tuple[Item, Response]]:
    recorded = {row["id"]: row["response"] for row in rows(HERE / "recorded" / model / "IFEval.jsonl")}
    items = items_of(HERE / "benchmarks" / "ifeval.jsonl")
    return [(item, Response(item=item.id, turns=(Reply(text=recorded[item.id]),))) for item in items]


def letters(verdicts: Any) -> str:
    return "".join("T" if verdict else "F" for verdict in verdicts)


def test_our_prompts_have_every_kind_and_are_sound() -> None:
    items = items_of(HERE / "benchmarks" / "ifeval.jsonl")
    kinds = {kind for item in items for kind in item.detail["instruction_id_list"]}  # pyright: ignore
    assert (kinds, [*check_rules(items)]) == (set(KINDS), [])


@pytest.mark.parametrize("model", EXPECTED)
def test_recorded_answers_follow_what_they_follow(model: str) -> None:
    found = {
        int(sample.item): f"{letters(sample.detail['followed_strict'])} {letters(sample.detail['followed_loose'])}"
        for sample in grade_rules(answered(model))
    }
    assert found == EXPECTED[model]


@pytest.mark.parametrize("model", METRICS)
def test_recorded_answers_have_these_figures(model: str) -> None:
    metrics = summarise_rules(grade_rules(answered(model))).metrics
    figures = {
        level: (metrics[f"{level}_level_strict"], metrics[f"{level}_level_loose"])
        for level in ("prompt", "instruction")
    }
    assert figures == {level: pytest.approx(pair) for level, pair in METRICS[model].items()}


@pytest.mark.shared
def test_all_published_prompts_are_sound(shared: Path) -> None:
    items = items_of(shared / "benchmarks" / "ifeval.jsonl")
    assert (len(items), [*check_rules(items)]) == (541, [])


@pytest.mark.shared
def test_published_instructions_number_834(shared: Path) -> None:
    items = items_of(shared / "benchmarks" / "ifeval.jsonl")
    answers = [(item, Response(item=item.id, turns=(Reply(text="Yes."),))) for item in items]
    assert sum(len(sample.detail["followed_strict"]) for sample in grade_rules(answers)) == 834  # pyright: ignore
