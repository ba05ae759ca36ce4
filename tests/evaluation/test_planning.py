"""What a run will ask, and everything that can change a figure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifacts
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import RunSettings, effective_sampling, identify_questions
from tests.evaluation.sums import MODEL, SUMS, plan_of, write_benchmark

OTHER = ModelSpec(backend="openai", name="other")
JUDGE = ModelSpec(backend="openai", name="judge")
WHOLE = """
from tasks.evaluation.benchmarks.base import BaseBenchmark
class Whole(BaseBenchmark):
    def generate_responses(self, model): return {}
    def evaluate_responses(self, results): return {}
"""


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path / "own")


def test_items_are_in_the_store_with_their_prompts(sums: Path, artifacts: Artifacts) -> None:
    task = plan_of(sums, artifacts)
    asked = [(item.id, item.prompts, item.gold, item.group) for item in read_lines(artifacts, task.items, Item)]
    assert asked == [
        ("0", ("What is 0 + 0?",), "0", "even"),
        ("1", ("What is 1 + 1?",), "2", "odd"),
        ("2", ("What is 2 + 2?",), "4", "even"),
    ]
    assert (task.task, task.benchmark, task.count, task.repeats, task.samples) == ("Sums", str(sums), 3, 1, 3)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        *(({}, 3), ({"limit": 1}, 1), ({"limit": 9}, 3)),
        *(({"debug": True}, 2), ({"debug": True, "limit": 1}, 1), ({"debug": True, "limit": 3}, 2)),
    ],
    ids=str,
)
def test_limit_and_debug_take_the_first_items(
    sums: Path, artifacts: Artifacts, settings: dict[str, Any], count: int
) -> None:
    task = plan_of(sums, artifacts, **settings)
    assert [item.id for item in read_lines(artifacts, task.items, Item)] == ["0", "1", "2"][:count]
    assert (task.count, task.data.count) == (count, 3)


def test_an_id_that_comes_twice_is_refused(sums: Path, artifacts: Artifacts) -> None:
    data = sums.with_name("sums.jsonl")
    data.write_text(data.read_text() + json.dumps({"id": "1", "left": 5, "right": 5, "answer": "10", "kind": "odd"}))
    with pytest.raises(DataUnusable, match="two items have the id '1'"):
        plan_of(sums, artifacts)


SAME: dict[str, dict[str, Any]] = {
    "another model": {"model": OTHER},
    "how hard it is pressed": {"model": MODEL.model_copy(update={"args": MODEL.args | {"num_concurrent": 99}})},
    "where it is": {"model": ModelSpec(backend="openai", name="m", base_url="http://127.0.0.1:1/v1")},
    "arguments of the transport": {
        "model": ModelSpec(backend="hf", name="m", args={"batch_size": 4, "device": "cpu", "pretrained": "org/m"})
    },
    "a judge that it does not need": {"judge": JUDGE},
    "its own repeats in words": {"n_repeat": 1},
    "its own length in words": {"max_tokens": 100},
    "its own temperature in words": {"gen_kwargs": {"temperature": 0.7}},
    "examples, which the harness gives": {"num_fewshot": 5},
}
OTHERS: dict[str, dict[str, Any]] = {
    "limit": {"limit": 3},
    "debug": {"debug": True},
    "repeats": {"n_repeat": 2},
    "length": {"max_tokens": 99},
    "temperature": {"gen_kwargs": {"temperature": 0.6}},
    "nucleus": {"gen_kwargs": {"top_p": 0.9}},
    "stop": {"gen_kwargs": {"until": "\n"}},
    "seed": {"seed": (1, 1234, 1234, 1234)},
    "system instruction": {"system_instruction": "Be brief."},
    "chat template": {"apply_chat_template": False},
    "chat template by name": {"apply_chat_template": "tool_use"},
    "precision": {"model": ModelSpec(backend="hf", name="m", args={"dtype": "float16"})},
    "thinking": {"model": ModelSpec(backend="openai", name="m", args={"reasoning_effort": "low"})},
}


@pytest.mark.parametrize("changed", SAME.values(), ids=SAME)
def test_what_cannot_change_a_figure_keeps_the_digest(
    sums: Path, artifacts: Artifacts, changed: dict[str, Any]
) -> None:
    assert plan_of(sums, artifacts, **changed).settings == plan_of(sums, artifacts).settings


@pytest.mark.parametrize("changed", OTHERS.values(), ids=OTHERS)
def test_what_can_change_a_figure_changes_the_digest(sums: Path, artifacts: Artifacts, changed: dict[str, Any]) -> None:
    assert plan_of(sums, artifacts, **changed).settings != plan_of(sums, artifacts).settings


@pytest.mark.parametrize(("family", "said"), [("code", True), ("math", False)])
def test_another_python_makes_another_run_of_programs_alone(
    family: str, said: bool, sums: Path, tmp_path: Path, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums.write_text(SUMS.replace("family: math", f"family: {family}"))
    plain = plan_of(sums, artifacts)
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", sys.executable)
    assert plan_of(sums, artifacts) == plain, "it is the one that runs this"
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\necho \'["{other}", "/usr", [], "3.9.1", [3, 9]]\'\n')
    other.chmod(0o755)
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", str(other))
    changed = plan_of(sums, artifacts)
    assert (changed.settings != plain.settings, "python" in changed.settings) == (said, said)
    assert identify_questions(changed) == identify_questions(plain), "the model is asked the same"


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("What is {left} + {right}?", "Add {left} and {right}.", False),
        ("family: math", "family: math\nversion: 2", False),
        ("family: math", "family: math\nsummary: Sums of two equal numbers", True),
    ],
)
def test_the_definition_is_part_of_the_settings_save_what_is_for_people(
    sums: Path, artifacts: Artifacts, old: str, new: str, same: bool
) -> None:
    before = plan_of(sums, artifacts).settings
    sums.write_text(SUMS.replace(old, new))
    assert (plan_of(sums, artifacts).settings == before) is same


@pytest.mark.parametrize(
    ("given", "sampling"),
    [
        ({}, Sampling(temperature=0.7, max_tokens=100)),
        ({"max_tokens": 5}, Sampling(temperature=0.7, max_tokens=5)),
        ({"gen_kwargs": {"max_new_tokens": 7}}, Sampling(temperature=0.7, max_tokens=7)),
        ({"gen_kwargs": {"max_new_tokens": 7}, "max_tokens": 8}, Sampling(temperature=0.7, max_tokens=8)),
        ({"gen_kwargs": {"do_sample": False}}, Sampling(temperature=0, max_tokens=100)),
        ({"gen_kwargs": {"until": "###"}}, Sampling(temperature=0.7, max_tokens=100, stop=("###",))),
        ({"seed": (7, 1, 1, 1)}, Sampling(temperature=0.7, max_tokens=100, seed=7)),
        ({"gen_kwargs": {"seed": 9}}, Sampling(temperature=0.7, max_tokens=100, seed=9)),
    ],
    ids=str,
)
def test_the_run_goes_before_the_benchmark(sums: Path, given: dict[str, Any], sampling: Sampling) -> None:
    assert effective_sampling(find_benchmark(str(sums)), RunSettings.model_validate(given)) == sampling


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temprature": 1}, "'temprature' is not known; give temperature, max_tokens"),
        ({"temperature": -1}, "gen_kwargs temperature: .* -1"),
    ],
    ids=str,
)
def test_generation_arguments_that_cannot_be_are_named(sums: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionUnusable, match=said):
        effective_sampling(find_benchmark(str(sums)), RunSettings(gen_kwargs=given))


@pytest.mark.parametrize("given", [{"limit": 0}, {"seed": (1, 2)}, {"ks": [0]}])
def test_settings_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        RunSettings.model_validate(given)


def test_a_benchmark_run_in_one_piece_reads_its_own_items(tmp_path: Path, artifacts: Artifacts) -> None:
    path = tmp_path / "whole.py"
    path.write_text(WHOLE)
    task = plan_of(path, artifacts, gen_kwargs={"temperature": 0.1}, max_tokens=9)
    assert (task.whole, task.count, task.overrides) == (True, 0, {"temperature": 0.1, "max_tokens": 9})
    path.write_text(WHOLE + "# changed\n")
    assert plan_of(path, artifacts).settings != task.settings
