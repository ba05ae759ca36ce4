"""The same benchmarks through a served model and one in this process: real problems, a judge, harness tasks beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, run_here
from tests.models.server import Server, prompt_of, serving
from tests.models.tiny import make_tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

TASKS = "AIME24,MATH500,IFEval,MTBench"
CHOICE = """
task: colours
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: ["red", "green"]
doc_to_target: "{{{{answer}}}}"
metric_list: [{{metric: acc}}]
"""
WRITTEN = """
task: echoes
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{said}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 16}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture
def server(name: str) -> Iterator[Server]:
    def answer(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        if body["model"] == "judge":
            return "It is short.\n\nRating: [[7]]"
        return "42" if "Say 42" in prompt else "<think>Hm.</think>I think that the answer is $\\boxed{1}$."

    with serving() as running:
        running.answer, running.models = answer, (name, "judge")
        yield running


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    """A multiple-choice and a generative task of the harness, with their data."""
    folder = tmp_path / "harness"
    folder.mkdir()
    data = folder / "data.jsonl"
    rows = [
        {"question": "Grass is", "answer": 1, "said": "42"},
        {"question": "Say 42. Blood is", "answer": 0, "said": "42"},
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "colours.yaml").write_text(CHOICE.format(data=data))
    (folder / "echoes.yaml").write_text(WRITTEN.format(data=data))
    return folder


def run(tmp_path: Path, shared: Path, harness: Path, *options: object) -> Done:
    places = ("--data-dir", shared / "benchmarks", "--include-path", harness, "--output_path", tmp_path / "out")
    return run_here("eval", "run", "--json", "--limit", 2, *places, *options)


def figures(done: Done) -> dict[str, Any]:
    return {result["task"]: result["metrics"] for result in done.json["results"]}


@pytest.mark.shared
def test_a_served_model_is_measured_and_judged_by_the_same_server(
    server: Server, name: str, shared: Path, harness: Path, tmp_path: Path
) -> None:
    judge = ("--annotator_model", "openai:judge", "--annotator_args", f"base_url={server.base_url}")
    model = ("--model", "openai", "--model_name", name, "--base-url", server.base_url)
    done = run(tmp_path, shared, harness, *model, *judge, "--tasks", f"{TASKS},echoes", "--n_repeat", 2)
    assert done.code == 0, done.stderr
    found = figures(done)
    assert found["AIME24"]["num_total"] == 2
    assert found["AIME24"]["num_repeat"] == 2
    assert found["MTBench"] == {"Turn 1": 7, "Turn 2": 7, "Average": 7} | found["MTBench"]
    assert 0 <= found["IFEval"]["instruction_level_loose"] <= 1
    assert found["echoes"]["exact_match,none"] == 0.5
    [mtbench] = [result for result in done.json["results"] if result["task"] == "MTBench"]
    assert mtbench["judge"].startswith("openai:judge@")
    assert mtbench["judge_usage"]["calls"] == 2 * 2 * 2, "items, repeats, turns"


@pytest.mark.shared
def test_a_model_in_this_process_is_measured(shared: Path, harness: Path, server: Server, tmp_path: Path) -> None:
    model = make_tiny_model(tmp_path / "tiny", says="The answer is \\boxed{73}.")
    judge = ("--annotator_model", "openai:judge", "--annotator_args", f"base_url={server.base_url}")
    arguments = ("--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--max_tokens", 32)
    done = run(tmp_path, shared, harness, *arguments, *judge, "--tasks", f"{TASKS},colours,echoes", "--n_repeat", 1)
    assert done.code == 0, done.stderr
    found = figures(done)
    assert found["AIME24"]["accuracy_avg"] == 0.5, "the first of the two answers is 73"
    assert found["MTBench"]["Average"] == 7
    assert found["colours"]["acc,none"] in (0, 0.5, 1)
    assert found["echoes"]["exact_match,none"] == 0


def test_an_endpoint_tells_no_probabilities(server: Server, name: str, harness: Path, tmp_path: Path) -> None:
    arguments = ("--model", "openai", "--model_name", name, "--base-url", server.base_url, "--tasks", "colours")
    done = run_here("eval", "run", *arguments, "--include-path", harness, "--output_path", tmp_path / "out")
    assert done.code == 2
    assert "colours" in done.stderr
    assert "Traceback" not in done.stderr
    assert server.requests == []


def test_a_harness_task_that_was_changed_is_measured_anew(
    server: Server, name: str, harness: Path, tmp_path: Path
) -> None:
    model = ("--model", "openai", "--model_name", name, "--base-url", server.base_url)
    places = ("--include-path", harness, "--output_path", tmp_path / "out")
    run_echoes = partial(run_here, "eval", "run", "--json", "--tasks", "echoes", *model, *places)
    before = run_echoes()
    assert figures(before)["echoes"]["exact_match,none"] == 0.5
    data = harness / "data.jsonl"
    data.write_text(data.read_text().replace('"said": "42"', '"said": "43"'))
    asked = len(server.requests)
    after = run_echoes()
    assert figures(after)["echoes"]["exact_match,none"] == 0
    assert len(server.requests) == asked, "the answers are the same"
