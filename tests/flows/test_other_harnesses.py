"""Command lines of evalchemy's README and configs, and common ones of lm_eval, are accepted as they stand.

Source: README.md and configs/single_task of mlfoundations/evalchemy and of its fork marin-community/evalchemy, with the
paths of files aside. The lines of lm_eval are of its usual form, not copied from a page.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from flows.cli import app
from flows.cli.eval_run_command import OPTIONS, _note, arguments
from flows.running.evaluation_config import EvaluateConfig
from flows.running.evaluation_flags import read_evaluation
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.planning import RunSettings, first_of
from tests.command import run_here

EVALCHEMY = """
--model curator --tasks AIME24,MATH500,GPQADiamond --model_name "gemini/gemini-2.0-flash-thinking-exp-01-21" \
    --apply_chat_template False --model_args 'tokenized_requests=False' --output_path logs
--model vllm --tasks alpaca_eval --model_args "pretrained=meta-llama/Meta-Llama-3-8B-Instruct" --batch_size 16 \
    --output_path logs
--model openai-chat-completions --tasks alpaca_eval --model_args "model=gpt-4o-mini-2024-07-18,num_concurrent=32" \
    --batch_size 16 --output_path logs
--model openai-completions --tasks alpaca_eval --model_args "model=gpt-4o-mini-2024-07-18,num_concurrent=32" \
    --batch_size 16 --output_path logs
--model hf --tasks HumanEval,mmlu --model_args "pretrained=mistralai/Mistral-7B-Instruct-v0.3" --batch_size 2 \
    --output_path logs
--model hf --tasks MTBench,WildBench,alpaca_eval --model_args "pretrained=mistralai/Mistral-7B-Instruct-v0.3" \
    --batch_size 2 --output_path logs
--model hf --model_args "pretrained=mistralai/Mistral-7B-Instruct-v0.3" --output_path logs --config CONFIG
--model hf --tasks MTBench,alpaca_eval --model_args 'pretrained=mistralai/Mistral-7B-Instruct-v0.3' --batch_size 2 \
    --output_path logs
--model hf --tasks MTBench,alpaca_eval --batch_size 2 --output_path logs \
    --model_args 'pretrained=mistralai/Mistral-7B-Instruct-v0.3,parallelize=True'
--model hf --tasks MTBench --model_args "pretrained=x/y" --annotator_model auto
--model hf --tasks MTBench --model_args "pretrained=x/y" --annotator_model gpt-4o-mini-2024-07-18
--model hf --tasks MTBench --model_args "pretrained=mistralai/Mistral-7B-Instruct-v0.3" --batch_size 2 \
    --output_path logs --debug
--model curator --tasks GPQADiamond --num_fewshot 0 --batch_size 4 --limit 1 --apply_chat_template False \
    --max_tokens 8000 --output_path logs/GPQADiamond_results_test --model_args "base_url=http://127.0.0.1:10001/v1,\
model=openai/qwen3-8b,tokenizer=Qwen/Qwen3-8B,tokenizer_backend=huggingface,tokenized_requests=False,\
max_requests_per_minute=60,max_tokens_per_minute=50000"
"""
LM_EVAL = """
--model hf --model_args pretrained=EleutherAI/gpt-j-6B --tasks hellaswag --device cuda:0 --batch_size 8
--model hf --model_args pretrained=EleutherAI/pythia-160m,revision=step100000,dtype="float" \
    --tasks lambada_openai,hellaswag --device cuda:0 --batch_size auto:4
--model hf --model_args pretrained=x/y --tasks gsm8k,ifeval --num_fewshot 5 --limit 0.1 --log_samples
--model hf --model_args pretrained=x/y --tasks gsm8k ifeval --num_fewshot 5 --confirm_run_unsafe_code
--model hf --tasks lambada_openai,arc_easy --model_args pretrained=x/y,parallelize=True --batch_size 16
--model vllm --model_args pretrained=x/y,tensor_parallel_size=2,dtype=auto,gpu_memory_utilization=0.8,\
data_parallel_size=3 --tasks lambada_openai --batch_size auto
--model local-completions --tasks gsm8k --model_args model=facebook/opt-125m,base_url=http://127.0.0.1:8000/v1/\
completions,num_concurrent=1,max_retries=3,tokenized_requests=False,batch_size=16
--model local-chat-completions --tasks gsm8k --apply_chat_template --fewshot_as_multiturn --model_args \
model=facebook/opt-125m,base_url=http://127.0.0.1:8000/v1/chat/completions,num_concurrent=1,max_gen_toks=256
"""
CONFIGS = {
    "light_gpt4omini0718": """annotator_model: gpt-4o-mini-2024-07-18
max_tokens: 4096
tasks:
  - task_name: alpaca_eval
    batch_size: 16
  - task_name: MTBench
    batch_size: 16
  - task_name: WildBench
    batch_size: 16
""",
    "single_task/gsm8k": """annotator_model: gpt-4o-mini-2024-07-18
tasks:
  - task_name: GSM8K
    batch_size: 8""",
    "single_task/olympiadbench": "tasks:\n  - task_name: OlympiadBench\n    batch_size: 8\n",
    "single_task/matharena_smt_2025": "max_tokens: 32768\ntasks:\n  - task_name: MathArenaSMT2025\n    batch_size: 1\n",
}


def lines(block: str) -> list[str]:
    return [line for line in block.replace("\\\n", "").splitlines() if line.strip()]


def read(line: str, config: Path) -> EvaluateConfig:
    """The configuration of a command line."""
    command: Any = get_command(app)
    run = command.commands["eval"].commands["run"]
    given = run.make_context("run", shlex.split(line.replace("CONFIG", str(config)))).params
    names = [flag.name(path) for path, flag in OPTIONS.flags.items()]
    return read_evaluation({name: given[name] for name in names}, given["config"], note=_note)


@pytest.fixture
def light(tmp_path: Path) -> Path:
    file = tmp_path / "light_gpt4omini0718.yaml"
    file.write_text(CONFIGS["light_gpt4omini0718"])
    return file


@pytest.mark.parametrize("line", [*lines(EVALCHEMY), *lines(LM_EVAL)])
def test_a_command_line_of_another_harness_is_accepted(line: str, light: Path) -> None:
    config = read(line, light)
    assert config.tasks
    assert config.model.backend in ("hf", "vllm", "openai", "curator")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_shipped_config_is_accepted(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGS[name])
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
    line: str, args: dict[str, Any], light: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(f"{line} --tasks AIME24", light).model.args == args
    assert ("is not needed: " in capsys.readouterr().err) == ("parallelize" not in line)


def test_the_path_of_a_request_is_no_part_of_its_address_and_its_longest_answer_is_a_setting(light: Path) -> None:
    line = "--model local-chat-completions --tasks AIME24 --model_args "
    config = read(f"{line}model=m,base_url=http://127.0.0.1:8000/v1/chat/completions,max_gen_toks=256", light)
    assert config.model.args["base_url"] == "http://127.0.0.1:8000/v1"
    assert config.settings.max_tokens == 256


@pytest.mark.parametrize("flag", ["--tasks", "-t", "--model_args"])
def test_words_of_a_list_are_joined(flag: str) -> None:
    assert arguments([flag, "a", "b=c", "--limit", "0.1"]) == [flag, "a,b=c", "--limit", "0.1"]


@pytest.mark.parametrize(("limit", "items"), [("0.1", 3), ("0.01", 1), ("2", 2)])
def test_a_limit_below_one_is_a_part_of_the_items(limit: str, items: int) -> None:
    assert [item.id for item in first_of(iter(numbered(30)), read_limit(limit))] == [str(n) for n in range(items)]


def numbered(count: int) -> list[Item]:
    return [Item(id=str(number), prompts=("?",)) for number in range(count)]


def read_limit(limit: str) -> int | float | None:
    return RunSettings.model_validate({"limit": float(limit)}).first


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
