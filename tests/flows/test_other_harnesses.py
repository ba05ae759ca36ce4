"""Command lines of evalchemy's README and configs, and common ones of lm_eval, are accepted as they stand.

Source: README.md and configs/single_task of mlfoundations/evalchemy and of its fork marin-community/evalchemy, with the
paths of files aside. The lines of lm_eval are of its usual form, not copied from a page.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from flows.cli import app
from flows.cli.eval_run_command import OPTIONS, _note, normalize_arguments
from flows.running.evaluation_config import EvaluateConfig
from flows.running.evaluation_flags import read_evaluation
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.planning import RunSettings, take_first
from tests.command import run_here

SAMPLES = Path("tests/samples/command_lines")
LINES = [line for file in sorted(SAMPLES.glob("*.txt")) for line in file.read_text().splitlines()]
LIGHT = SAMPLES / "light_gpt4omini0718.yaml"
CONFIGS = sorted(SAMPLES.glob("*.yaml"))


def read(line: str, config: Path = LIGHT) -> EvaluateConfig:
    """The configuration of a command line."""
    command: Any = get_command(app)
    run = command.commands["eval"].commands["run"]
    given = run.make_context("run", shlex.split(line.replace("CONFIG", str(config)))).params
    names = [flag.name(path) for path, flag in OPTIONS.flags.items()]
    return read_evaluation({name: given[name] for name in names}, given["config"], note=_note)


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_another_harness_is_accepted(line: str) -> None:
    config = read(line)
    assert config.tasks
    assert config.model.backend in ("hf", "vllm", "openai", "curator")


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_shipped_config_is_accepted(file: Path) -> None:
    config = read("--model hf --model_args pretrained=x/y --config CONFIG", file)
    assert [task.batch_size for task in config.tasks if task.batch_size] != []


@pytest.mark.parametrize(
    ("line", "args"),
    [
        ("--model hf --model_args pretrained=x/y,parallelize=True", {"pretrained": "x/y", "device_map": "auto"}),
        ("--model hf-auto --model_args pretrained=x/y,use_fast_tokenizer=False", {"pretrained": "x/y"}),
        ("--model vllm --model_args pretrained=x/y,data_parallel_size=4,swap_space=4", {"pretrained": "x/y"}),
        ("--model local-chat-completions --model_args model=m,tokenized_requests=False", {"model": "m"}),
        ("--model curator --model_args tokenizer_backend=huggingface --model_name openai/m", {}),
    ],
)
def test_arguments_that_mean_nothing_here_are_said_and_left_out(
    line: str, args: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(f"{line} --tasks AIME24").model.args == args
    assert ("is not needed: " in capsys.readouterr().err) == ("parallelize" not in line)


def test_the_path_of_a_request_is_no_part_of_its_address_and_its_longest_answer_is_a_setting() -> None:
    line = "--model local-chat-completions --tasks AIME24 --model_args "
    config = read(f"{line}model=m,base_url=http://127.0.0.1:8000/v1/chat/completions,max_gen_toks=256")
    assert config.model.base_url == "http://127.0.0.1:8000/v1"
    assert config.settings.max_tokens == 256


@pytest.mark.parametrize("flag", ["--tasks", "-t", "--model_args"])
def test_words_of_a_list_are_joined(flag: str) -> None:
    assert normalize_arguments([flag, "a", "b=c", "--limit", "0.1"]) == [flag, "a,b=c", "--limit", "0.1"]


@pytest.mark.parametrize(("limit", "items"), [("0.1", 3), ("0.01", 1), ("2", 2)])
def test_a_limit_below_one_is_a_part_of_the_items(limit: str, items: int) -> None:
    assert [item.id for item in take_first(iter(numbered(30)), read_limit(limit))] == [str(n) for n in range(items)]


def numbered(count: int) -> list[Item]:
    return [Item(id=str(number), prompts=("?",)) for number in range(count)]


def read_limit(limit: str) -> int | float | None:
    return RunSettings.model_validate({"limit": float(limit)}).first


def test_the_module_of_evalchemy_is_the_command_and_asks_the_samples_that_are_named() -> None:
    line = "--model hf --task MATH500,GSM8K --model_args pretrained=x/y --data_dir tests/samples/benchmarks --dry-run"
    samples = ["--samples", '{"MATH500": [0, 5]}', "--json"]
    command = [sys.executable, "-m", "eval.eval", *shlex.split(line), *samples]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [(task["task"], task["calls"]) for task in json.loads(done.stdout)["tasks"]] == [
        ("MATH500", 2),
        ("GSM8K", 6),
    ]


def test_limits_on_the_command_line_go_before_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("tasks: [AIME24]\nlimit: 10\nmax_tokens: 99\n")
    settings = read("--model hf --limit 3 --max_tokens 5 --model_args pretrained=x --config CONFIG", file).settings
    assert (settings.limit, settings.max_tokens) == (3, 99)
    assert f"--limit 3.0 precedes 10 of {file}" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["1.5", "0", "-1"])
def test_another_limit_is_refused(limit: str) -> None:
    done = run_here("eval", "run", "--model", "scripted", "--tasks", "AIME24", "--limit", limit)
    assert (done.code, "--limit" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("--model hf --model_args pretrained=mistralai/Mistral-7B-Instruct-v0.3 --tasks MATH500", 9),
        ("--model openai-chat-completions --model_args model=gpt-4o-mini --tasks MTBench --limit 1", 2),
        ("--model hf --model_args pretrained=x/y --tasks AIME24,SafetyBench --limit 0.1 --price 1,2", 10),
    ],
)
def test_a_dry_run_counts_without_model_key_or_question(line: str, calls: int, tmp_path: Path) -> None:
    where = ("--data_dir", "tests/samples/benchmarks", "--output_path", tmp_path)
    done = run_here("eval", "run", *shlex.split(line), *where, "--dry-run", "--json")
    assert done.code == 0, done.stderr
    [task] = done.json["tasks"]
    assert task["calls"] == calls
    assert task["prompt_tokens"] > 0
    assert (task["cost"] or 0) * 1e6 == pytest.approx(
        (task["prompt_tokens"] + 2 * task["completion_tokens"]) * ("--price" in line)
    )
    skipped = "SafetyBench is skipped: its data are not read here"
    assert (skipped in done.json["notes"]) == ("SafetyBench" in line)


def test_where_all_benchmarks_are_lacking_the_run_is_refused() -> None:
    done = run_here("eval", "run", "--model", "scripted", "--tasks", "SafetyBench,swe-bench", "--dry-run")
    assert done.code != 0
    assert "there is no SafetyBench here" in done.stderr
    assert "there is no swe-bench here" in done.stderr
