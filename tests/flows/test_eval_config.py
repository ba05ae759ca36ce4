"""Flags and YAML become the configuration of a run: the seed's three commands among them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from flows.cli import eval_run_command as run_command
from flows.cli.commands import command
from flows.cli.eval_run_command import OPTIONS
from flows.running.evaluation_flags import judge_of, ks_of, read_evaluation, seeds_of, tasks_of
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.running.open_models import read_calls
from tasks.sandbox.sandbox_records import SandboxUnavailable

SEED_QUICKCHECK = """--model curator --tasks AIME24 --limit 1
--model_name "lm_studio/deepseek-r1-0528-qwen3-8b-mlx"
--model_args "api_base=http://127.0.0.1:1234/v1,api_key=dummy"
--apply_chat_template True --batch_size 1
--output_path logs/quickcheck.json"""
SEED_MULTI = """--model hf --tasks "AIME24,HumanEval,MATH500"
--model_args "pretrained=microsoft/Phi-3-mini-4k-instruct"
--batch_size 4 --output_path logs/multi_eval.json"""
SEED_CONFIG = """--config {file} --model_name "custom-model" --output_path logs/config_eval.json"""


@pytest.fixture(autouse=True)
def _no_key_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


def parsed(line: str) -> tuple[dict[str, Any], Path | None]:
    """The flags of a command line, as `trivet eval run` reads them, and the YAML file."""
    app = typer.Typer()
    command(app, "run", OPTIONS, cls=run_command.RunCommand)(run_command.run)
    flags = typer.main.get_command(app).make_context("run", shlex.split(line)).params
    names = [flag.name(path) for path, flag in OPTIONS.flags.items()]
    return {name: flags[name] for name in names}, flags["config"]


def configured(line: str) -> Any:
    return read_evaluation(*parsed(line))


def test_the_quickcheck_of_the_seed() -> None:
    config = configured(SEED_QUICKCHECK)
    assert (config.model.backend, config.model.name) == ("curator", "lm_studio/deepseek-r1-0528-qwen3-8b-mlx")
    assert config.model.base_url == "http://127.0.0.1:1234/v1"
    assert [task.task for task in config.tasks] == ["AIME24"]
    assert (config.settings.limit, config.settings.apply_chat_template) == (1, True)
    assert config.output_path == Path("logs/quickcheck.json").absolute()


def test_a_key_in_model_args_is_moved_to_the_environment() -> None:
    config = configured(SEED_QUICKCHECK)
    assert "dummy" not in config.model_dump_json()
    assert os.environ[config.model.api_key_env] == "dummy"


def test_several_tasks_of_the_seed() -> None:
    config = configured(SEED_MULTI)
    assert [task.task for task in config.tasks] == ["AIME24", "HumanEval", "MATH500"]
    assert config.model.args["pretrained"] == config.model.name == "microsoft/Phi-3-mini-4k-instruct"
    assert config.model.args["batch_size"] == 4


def test_the_configuration_file_of_the_seed_goes_before_the_flags(tmp_path: Path) -> None:
    file = tmp_path / "full.yaml"
    file.write_text(
        "annotator_model: gpt-4o-mini-2024-07-18\nmax_tokens: 4096\n"
        "tasks:\n  - task_name: MATH500\n    batch_size: 8\n  - task_name: MTBench\n    batch_size: auto\n"
    )
    config = configured(SEED_CONFIG.format(file=file) + " --max_tokens 17 --tasks AIME24")
    assert [(task.task, task.batch_size) for task in config.tasks] == [("MATH500", 8), ("MTBench", None)]
    assert config.settings.max_tokens == 4096
    assert (config.judge.backend, config.judge.name, config.auto_judge) == ("openai", "gpt-4o-mini-2024-07-18", False)
    assert (config.model.backend, config.model.name) == ("hf", "custom-model")


@pytest.mark.parametrize("spelling", [str, lambda flag: flag.replace("_", "-")], ids=["seed", "house"])
def test_flags_have_both_spellings(spelling: Any) -> None:
    line = (
        "--model_name m --model_args a=1,api_key_env=K --output_path o --data_dir d --batch_size 2 "
        "--max_tokens 3 --n_repeat 4 --gen_kwargs top_p=0.5 --annotator_model auto --annotator_args base_url=x "
        "--apply_chat_template False --system_instruction s --num_fewshot 5 --include_path i --data_parallel 6 "
        "--max_cost 8 --fewshot_as_multiturn --trust_remote_code --k 1,10"
    )
    words = [spelling(word) if word.startswith("--") else word for word in line.split()]
    config = configured(" ".join([*words, "--tasks", "AIME24", "--price", "1,2"]))
    settings = config.settings
    assert (settings.max_tokens, settings.n_repeat, settings.num_fewshot) == (3, 4, 5)
    assert (settings.apply_chat_template, settings.system_instruction) == (False, "s")
    assert (settings.ks, settings.unsafe_code) == ((1, 10), False)
    assert (config.data_parallel, config.spending.max_cost, config.model.api_key_env) == (6, 8, "K")
    assert (config.judge.base_url, config.auto_judge) == ("x", True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("", True), ("True", True), ("true", True), ("False", False), ("tool_use", "tool_use")],
)
def test_the_chat_template_is_the_models_own_unless_said(words: str, expected: object) -> None:
    assert configured(f"--tasks A --apply_chat_template {words} --limit 1").settings.apply_chat_template == expected
    assert configured(f"--tasks A --limit 1 --apply_chat_template {words}").settings.apply_chat_template == expected


def test_flags_of_the_old_script_that_need_not_be_given_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    config = configured("--log_samples --use_cache /tmp/cache --verbosity INFO --tasks AIME24 --wandb_args=project=x")
    assert [task.task for task in config.tasks] == ["AIME24"]
    said = capsys.readouterr().err
    assert "--log_samples is not needed" in said
    assert "--wandb_args is not needed" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [AIME24\nlimit: 3\n", "line 2"),
        ("limit: 3\ntask: AIME24\n", "line 2: 'task' is not known"),
        ("limit: 3\ntask_runner: dask\n", "line 2: eval run --task-runner was removed: TRIVET_TASK_RUNNER"),
        ("- AIME24\n", "line 1: expected names with values"),
        ("tasks: [{name: AIME24}]\n", "line 1: tasks: .* is neither a name nor"),
        ("model: openai\nlimit: many\n", "line 2: limit: Input should be a valid integer"),
        ("n-repeat: 0\n", "line 1: n_repeat: Input should be greater"),
        ("limit: yes\n", "line 1: limit: expected a value"),
        ("trust_remote_code: 'false'\n", "line 1: trust_remote_code: expected true or false"),
        ("tasks: 5\n", "line 1: tasks: expected names"),
        ("tasks: [{task_name: 5}]\n", "line 1: tasks: .* is neither a name nor"),
        ("tasks: [{task_name: A, batch_size: lots}]\n", "line 1: tasks: batch_size 'lots' is not a whole number"),
        ("gen_kwargs: 5\n", "line 1: gen_kwargs: expected k=v"),
        ("model_args: [1, 2]\n", "line 1: model_args: expected k=v"),
        ("data_dir: [1]\n", "line 1: data_dir: expected a path"),
        ("concurrency: 4\n", "line 1: eval run --concurrency was removed: `--model_args num_concurrent=N`"),
        ("model: 3\n", "line 1: model: Input should be a valid string"),
        ("price: abc\n", "line 1: price abc: expected PROMPT,ANSWER, two numbers"),
        ("save: paper\n", "line 1: save: Input should be 'file'"),
        ("max_tokens: 5\nunsafe-code: true\n", "line 2: unsafe_code: type --unsafe-code on the command line"),
        ("max_tokens: 5\nunsafe-code: false\n", "line 2: unsafe_code: type --unsafe-code on the command line"),
    ],
)
def test_a_bad_file_or_value_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(OptionUnusable, match=rf"^{file}, {said}"):
        configured(f"--config {file} --tasks A")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--max-cost 1", "--max-cost 1.0: .* --price 0.15,0.6"),
        ("--price=-1,2", "--price -1,2: expected PROMPT,ANSWER, two numbers from 0"),
        ("--model_args timeout=abc", "--model-args: timeout: Input should be a valid number"),
        ("--model_args max_retries=-1", r"--model-args: max_retries: Input should be greater .* \(it is -1\)"),
        ("--model_args num_concurrent=0", "--model-args: num_concurrent: Input should be greater"),
        ("--batch_size lots", "--batch_size 'lots' is not a whole number"),
    ],
)
def test_a_bad_value_is_named_by_its_flag(line: str, said: str) -> None:
    with pytest.raises(OptionUnusable, match=f"^{said}"):
        configured(f"--tasks A {line}")


def test_rates_are_those_of_the_calls() -> None:
    args = "max_requests_per_minute=60,max_tokens_per_minute=9000,num_concurrent=3,max_retries=1,timeout=7,top=1"
    calls = read_calls(configured(f"--tasks A --model_args {args}").model.args)
    assert (calls.requests_per_minute, calls.tokens_per_minute, calls.concurrency) == (60, 9000, 3)
    assert (calls.tries, calls.timeout_s) == (2, 7)


@pytest.mark.parametrize(
    ("name", "backend", "model"),
    [
        ("gpt-4o", "openai", "gpt-4o"),
        ("openai:gpt-4o", "openai", "gpt-4o"),
        ("Qwen/Qwen3-8B:free", "openai", "Qwen/Qwen3-8B:free"),
        ("hf:some/model", "hf", "some/model"),
        ("scripted:rules.json", "scripted", "rules.json"),
    ],
)
def test_a_judge_without_a_backend_answers_at_an_endpoint(name: str, backend: str, model: str) -> None:
    judge = judge_of(name, "")
    assert (judge.backend, judge.name) == (backend, model)


@pytest.mark.parametrize(
    ("given", "ks"), [(None, ()), ("1", (1,)), ("10,1, 100,1", (1, 10, 100)), (5, (5,)), ([10, 1], (1, 10)), ([], ())]
)
def test_the_k_of_pass_at_k_are_numbers_each_once(given: Any, ks: tuple[int, ...]) -> None:
    assert ks_of(given) == ks


@pytest.mark.parametrize("given", ["0", "1,-1", "x", "1,", 0, [None, 0], ["a"], "1.5"])
def test_a_k_that_is_no_number_of_programs_is_refused(given: Any) -> None:
    with pytest.raises(OptionUnusable, match=r"^--k "):
        ks_of(given)


def test_the_k_may_stand_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("k: [1, 5]\n")
    assert configured(f"--config {file} --tasks A").settings.ks == (1, 5)


@pytest.mark.parametrize("flag", ["--unsafe-code", "--unsafe_code"])
def test_a_test_may_not_execute_code_without_a_sandbox(flag: str) -> None:
    with pytest.raises(SandboxUnavailable, match="--unsafe-code is refused"):
        configured(f"--tasks A {flag}")


def test_one_seed_is_meant_for_all_and_three_for_none() -> None:
    assert seeds_of("7") == (7, 7, 7, 7)
    assert seeds_of("1,2,3,4") == (1, 2, 3, 4)
    with pytest.raises(OptionUnusable, match="give one, or four"):
        seeds_of("1,2,3")


def test_tasks_are_names_or_tables() -> None:
    assert tasks_of("A, B,,C") == [{"task": "A"}, {"task": "B"}, {"task": "C"}]
    assert tasks_of([{"task_name": "A", "batch_size": 2}, "B"]) == [{"task": "A", "batch_size": 2}, {"task": "B"}]


def test_a_task_that_is_named_twice_is_asked_once() -> None:
    assert tasks_of("B,A,B") == [{"task": "B"}, {"task": "A"}]
