"""`--model NAME` becomes a model that any process can open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.running.evaluation_flags import judge_of, read_evaluation
from flows.running.nightly_plan import plan_of
from models.registry import VARIABLE
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.running.open_models import read_calls
from tasks.nightly.suite import read_suite
from tests.command import run_here

MODELS = """\
qwen:
  backend: hf
  name: Qwen/Qwen3-8B
  revision: abc
  args: {dtype: bfloat16, max_length: 4096}
  price: {prompt: 0.15, answer: 0.6}
claude:
  backend: curator
  name: anthropic/claude-sonnet-4-5
  args: {max_requests_per_minute: 50, max_tokens_per_minute: 9000}
  base_url: http://127.0.0.1:4000/v1
  api_key_env: TEAM_KEY
echo: {backend: scripted, name: rules.json}
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIVET_MODEL_API_KEY", "")  # what a test puts there goes with it
    path = tmp_path / "models.yaml"
    path.write_text(MODELS)
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return path


def configured(**flags: Any) -> Any:
    return read_evaluation({"tasks": "AIME24", "output_path": Path("o")} | flags)


def test_a_name_of_the_file_is_the_model_with_all_that_opens_it() -> None:
    config = configured(model="qwen", max_cost=5)
    assert (config.model.backend, config.model.name) == ("hf", "Qwen/Qwen3-8B")
    assert config.model.args == {"dtype": "bfloat16", "max_length": 4096, "revision": "abc"}
    assert (config.spending.prices.prompt, config.spending.prices.answer) == (0.15, 0.6)


def test_an_endpoint_of_the_file_has_its_place_key_and_rates() -> None:
    model = configured(model="claude").model
    assert (model.backend, model.name, model.opening_args) == ("curator", "anthropic/claude-sonnet-4-5", {})
    assert (model.base_url, model.api_key_env) == ("http://127.0.0.1:4000/v1", "TEAM_KEY")
    rates = read_calls(model.args)
    assert (rates.requests_per_minute, rates.tokens_per_minute) == (50, 9000)


def test_flags_go_before_the_file() -> None:
    args = "api_base=http://127.0.0.1:1/v1,requests_per_minute=7"
    config = configured(model="claude", model_name="anthropic/other", model_args=args, price="1,2", api_key_env="MINE")
    model = config.model
    assert (model.name, model.base_url, model.api_key_env) == ("anthropic/other", "http://127.0.0.1:1/v1", "MINE")
    assert (read_calls(model.args).requests_per_minute, config.spending.prices.prompt) == (7, 1)
    assert configured(model="qwen", model_args="pretrained=other/m").model.name == "other/m"


def test_the_name_in_the_file_changes_nothing_that_a_step_sees(file: Path) -> None:
    before = configured(model="qwen").model
    file.write_text(MODELS.replace("qwen:", "ours:"))
    assert configured(model="ours").model == before
    file.write_text(MODELS.replace("bfloat16", "float16"))
    assert configured(model="qwen").model != before


def test_a_script_of_the_file_is_found_beside_it(file: Path) -> None:
    model = configured(model="echo").model
    assert (model.backend, model.name, model.args) == ("scripted", None, {"rules": str(file.parent / "rules.json")})


def test_a_judge_may_be_of_the_file(file: Path) -> None:
    judge = judge_of("claude", "max_requests_per_minute=5")
    assert (judge.backend, judge.name, judge.api_key_env) == ("curator", "anthropic/claude-sonnet-4-5", "TEAM_KEY")
    assert read_calls(judge.args).requests_per_minute == 5
    script = judge_of("echo", "")
    assert (script.backend, script.name, script.args) == ("scripted", None, {"rules": str(file.parent / "rules.json")})


def test_a_suite_names_models_of_the_file(tmp_path: Path) -> None:
    suite = tmp_path / "night.yaml"
    suite.write_text("tasks: [AIME24]\nmodels:\n  - model: qwen\n  - {model: claude, limit: 3}\n")
    planned = plan_of(read_suite(suite))
    assert {label: config.model.name for label, config in planned.models.items()} == {
        "qwen": "Qwen/Qwen3-8B",
        "claude": "anthropic/claude-sonnet-4-5",
    }


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"model": "qwne"}, "--model openai --model_name qwne; backends are openai, .* has qwen, claude, echo$"),
        ({"model": "auto"}, "--model auto was removed: name the model"),
    ],
)
def test_a_name_that_nobody_has_is_refused_with_those_that_there_are(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionUnusable, match=said):
        configured(**flags)


def test_a_bad_file_is_refused_by_the_command(file: Path) -> None:
    file.write_text("qwen:\n  backend: hf\n  name: m\n  api_key: sk-hush\n")
    done = run_here("eval", "run", "--model", "qwen", "--tasks", "AIME24", "--dry-run", "--json")
    assert (done.code, done.stdout) == (2, "")
    assert "qwen.api_key: Extra inputs are not permitted" in " ".join(done.stderr.split())
    assert "api_key_env" in done.stderr
    assert "hush" not in done.stderr


def test_a_price_is_of_the_model_that_the_file_names() -> None:
    with pytest.raises(OptionUnusable, match="--max-cost 5: it needs the model's prices"):
        configured(model="qwen", model_name="Qwen/Qwen3-32B", max_cost=5)
    assert configured(model="qwen", model_name="Qwen/Qwen3-8B", max_cost=5).spending.prices.prompt == 0.15
