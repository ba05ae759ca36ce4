"""A model as a run names it, without secrets."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from models.scripted import ScriptedChat
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.evaluation_records import ModelFacts, mask_secrets
from tasks.evaluation.running.open_models import ModelSpec, read_calls


class Named(ScriptedChat):
    def __init__(self, id: str) -> None:
        super().__init__()
        self.id = id


@pytest.mark.parametrize(
    "name", ["api_key", "token", "password", "hf_token", "auth_token", "secret", "API_KEY", "openai_api_key", "api-key"]
)
def test_a_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionUnusable, match=f"{name} in model_args would be stored") as refused:
        ModelSpec(backend="openai", args={name: "sk-very-secret"})
    assert "api_key_env=X" in str(refused.value)
    assert "sk-very-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "id", "name", "revision"),
    [
        (ModelSpec(backend="openai", name="gpt-5-mini"), "openai:gpt-5-mini", "gpt-5-mini", ""),
        (ModelSpec(backend="hf", name="org/m"), "hf:org/m@abc123:float32", "org/m", "abc123:float32"),
        (ModelSpec(backend="hf", name="/m/q4.gguf"), "hf:q4@abc123:float32", "q4", "abc123:float32"),
        (ModelSpec(backend="replay", name="mine"), "replay:model-a@0a1b", "mine", "0a1b"),
        (ModelSpec(backend="scripted", name="m"), "scripted:0a1b", "m", "0a1b"),
    ],
)
def test_results_name_the_model_and_its_revision(spec: ModelSpec, id: str, name: str, revision: str) -> None:
    assert spec.facts(Named(id)) == ModelFacts(name=name, backend=spec.backend, revision=revision, args=spec.args)


def test_arguments_of_the_transport_shape_no_answer() -> None:
    args: dict[str, Any] = {
        "dtype": "float16",
        "batch_size": "auto",
        "device": "cpu",
        "pretrained": "org/m",
        "gguf_file": "q4.gguf",
        "path": "x",
        "peft": "lora",
    }
    assert ModelSpec(backend="hf", args=args).shapes_answers == {"dtype": "float16", "peft": "lora"}


@pytest.mark.parametrize(
    ("backend", "busy"),
    [
        *((backend, False) for backend in ("openai", "responses", "curator", "scripted", "replay")),
        *((backend, True) for backend in ("hf", "vllm", "lm_eval.models.dummy.DummyLM")),
    ],
)
def test_a_device_is_busy_with_a_model_of_this_process(backend: str, busy: bool) -> None:
    assert ModelSpec(backend=backend).in_process is busy


def test_rates_among_the_arguments_hold_wherever_a_model_is_written() -> None:
    written = {"backend": "openai", "args": {"num_concurrent": 4, "max_retries": 1, "api_key_env": "KEY", "top": 1}}
    # a schedule and a stored run of an earlier version hold rates in a table
    before = written | {"calls": {"concurrency": 16, "tries": 5, "timeout_s": 7.0}}
    form = Draft202012Validator(ModelSpec.model_json_schema())
    assert (form.is_valid(before), form.is_valid(written | {"nam": "m"})) == (True, False)
    read = ModelSpec.model_validate(before)
    calls = read_calls(read.args)
    assert (calls.concurrency, calls.tries, calls.timeout_s) == (4, 2, 7.0)
    assert (read.opening_args, read.shapes_answers, read.api_key_env) == ({"top": 1}, {"top": 1}, "KEY")
    assert read.facts(Named("openai:m")).args == {"top": 1}
    assert ModelSpec.model_validate_json(read.model_dump_json()) == read
    with pytest.raises(ValidationError, match="num_concurrent: Input should be a valid integer"):
        ModelSpec.model_validate({"backend": "openai", "args": {"num_concurrent": "many"}})


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("api_base=http://127.0.0.1:1234/v1,api_key=dummy", "api_base=http://127.0.0.1:1234/v1,api_key=***"),
        ("OPENAI_API_KEY=sk-1 trivet", "OPENAI_API_KEY=*** trivet"),
        ("base_url=https://me:pass@host/v1", "base_url=https://me:***@host/v1"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("max_tokens=5,eos_token=</s>,tokens_per_minute=9", "max_tokens=5,eos_token=</s>,tokens_per_minute=9"),
        ("api_key_env=MY_KEY", "api_key_env=MY_KEY"),
        ({"token": "hf_1", "add_bos_token": True}, {"token": "***", "add_bos_token": True}),
        ({"a": [{"password": "x"}]}, {"a": [{"password": "***"}]}),
        ({"api-key": "x", "api_key": ""}, {"api-key": "***", "api_key": ""}),
    ],
)
def test_secrets_are_masked_and_nothing_else(given: Any, written: Any) -> None:
    assert mask_secrets(given) == written


def test_a_long_text_is_masked_at_once() -> None:
    assert mask_secrets("a_" * 500_000 + "=x") == "a_" * 500_000 + "=x"
