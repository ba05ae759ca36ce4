"""Demonstrations before the questions of a benchmark: what a served model really gets, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, run_here
from tests.models.server import Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

QUESTION = "A baker sells 3 trays of 12 rolls. How many rolls are that?"
TRAINING = {
    "A baker sells 5 trays of 10 rolls. How many rolls are sold?": "5 * 10 = 50\n#### 50",
    "The train to Verdane takes 40 minutes longer than the bus, which takes 90. How long is it?": "90 + 40\n#### 130",
    "A bakery bakes 2 trays of 12 buns. How many buns are that?": "2 * 12 = 24\n#### 24",
    QUESTION: "A question of the test that is in the training file too\n#### 36",
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        running.answer, running.models = lambda body: "\\boxed{36}", ("small",)
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [{"question": question, "answer": answer} for question, answer in TRAINING.items()]
    (folder / "gsm8k_train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "gsm8k_test.jsonl").write_text(json.dumps({"question": QUESTION, "answer": "3 * 12\n#### 36"}) + "\n")
    return folder


def run(server: Server, data: Path, *options: object, tasks: str = "GSM8K") -> Done:
    model = ("--model", "openai", "--model_name", "small", "--base-url", server.base_url)
    places = ("--data-dir", data, "--output_path", data.parent / "out")
    return run_here("eval", "run", "--json", *model, "--tasks", tasks, *places, *options)


def said(server: Server) -> list[tuple[str, str]]:
    """Role and text of each message of the last question."""
    [*_, last] = [one["body"]["messages"] for one in server.requests if "messages" in one["body"]]
    return [
        (one["role"], one["content"] if isinstance(one["content"], str) else one["content"][0]["text"]) for one in last
    ]


def test_the_nearest_examples_stand_before_the_question(server: Server, data: Path) -> None:
    done = run(server, data, "--set", "settings.demonstrations=similarity:2")
    assert done.code == 0, done.stderr
    assert [role for role, _ in said(server)] == ["user", "assistant", "user", "assistant", "user"]
    first, _, second, answer, asked = [text for _, text in said(server)]
    assert "2 trays of 12 buns" in first
    assert "5 trays of 10 rolls" in second  # of the three that are no question of the test the nearest stands last
    assert answer == "5 * 10 = 50\n#### 50\nThe answer is \\boxed{50}."
    assert asked == f"Problem: {QUESTION}\nMark your solution with \\boxed\nAnswer:"
    [result] = done.json["results"]
    assert (result["metrics"]["accuracy"], result["settings"]["demonstrations"]) == (1, "similarity:2")


def test_how_they_are_chosen_is_a_setting_of_its_own(server: Server, data: Path) -> None:
    plain = run(server, data)
    assert len(said(server)) == 1
    shown = run(server, data, "--set", "settings.demonstrations=random:1")
    assert len(said(server)) == 3
    again = run(server, data, "--set", "settings.demonstrations=random:1")
    assert (plain.code, shown.code, again.code) == (0, 0, 0)
    assert len(shown.json["results"]) == 1
    assert again.json["results"] == []  # it was evaluated before under the same settings
    settings: dict[str, Any] = plain.json["results"][0]["settings"]
    assert "demonstrations" not in settings


@pytest.mark.parametrize(
    ("chosen", "tasks", "told"),
    [
        ("nearest:4", "GSM8K", "expected random:N, similarity:N or selector:CHECKPOINT:N"),
        ("similarity:4", "AIME24", "AIME24 has no solved examples to show"),
        ("similarity:4", "GSM8K", "there are 3 examples, and 4 are to be shown"),
        ("selector:nowhere.safetensors:2", "GSM8K", "nowhere.safetensors cannot be read (No such file"),
    ],
)
def test_what_cannot_be_shown_is_said(server: Server, data: Path, chosen: str, tasks: str, told: str) -> None:
    (data / "aime24.jsonl").write_text('{"id": 1, "problem": "1 + 1", "expected_answer": "2"}\n')
    done = run(server, data, "--set", f"settings.demonstrations={chosen}", tasks=tasks)
    assert done.code in (1, 2)
    assert told in done.stderr
    assert not [one for one in server.requests if "messages" in (one["body"] or {})]


def test_without_the_training_file_it_is_named(server: Server, data: Path) -> None:
    (data / "gsm8k_train.jsonl").unlink()
    done = run(server, data, "--set", "settings.demonstrations=similarity:2")
    assert done.code in (1, 2)
    assert "gsm8k_train.jsonl" in done.stderr
