"""models.yaml: a model gets a name once, and every pipeline opens the same one by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from models.backends import open_chat
from models.model_errors import ModelUnavailable
from models.openai import CuratorChat
from models.protocols import ChatRequest, Message, Text
from models.registry import (
    VARIABLE,
    Entry,
    Price,
    RegistryUnusable,
    find_entry,
    rates_of,
    read_models,
    registered_models,
    spelled,
)
from tests.models.server import MODEL, serving

MODELS = """\
qwen:
  backend: hf
  name: weights/qwen
  revision: abc123
  args: {dtype: bfloat16, max_length: 4096}
  price: {prompt: 0.15, answer: 0.6}
claude-4.5:
  backend: curator
  name: anthropic/claude-sonnet-4-5
  args: {max_requests_per_minute: 50, reasoning_effort: low}
  base_url: http://127.0.0.1:4000/v1
  api_key_env: TEAM_KEY
echo:
  backend: scripted
plain:
  backend: openai
  name: gpt-4o-mini
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(MODELS)
    (tmp_path / "weights" / "qwen").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_an_entry_is_found_by_its_name_with_whole_paths(file: Path) -> None:
    assert find_entry("qwen") == Entry(
        backend="hf",
        name=str(file.parent / "weights" / "qwen"),
        revision="abc123",
        args={"dtype": "bfloat16", "max_length": 4096},
        price=Price(prompt=0.15, answer=0.6),
    )
    assert list(registered_models()) == ["qwen", "claude-4.5", "echo", "plain"]


def test_names_are_spelled_out_for_processes_without_the_file(file: Path) -> None:
    folder = file.parent / "weights" / "qwen"
    assert {name: spelled(name) for name in ("qwen", "claude-4.5", "echo", "plain")} == {
        "qwen": f'hf:{folder},{{"dtype": "bfloat16", "max_length": 4096, "revision": "abc123"}}',
        "claude-4.5": 'curator:anthropic/claude-sonnet-4-5,{"api_key_env": "TEAM_KEY", '
        '"base_url": "http://127.0.0.1:4000/v1", "reasoning_effort": "low"}',
        "echo": "scripted",
        "plain": "openai:gpt-4o-mini",
    }


def test_a_path_with_dots_is_the_folder_that_it_leads_to(file: Path) -> None:
    inner = file.parent / "inner"
    inner.mkdir()
    (inner / "models.yaml").write_text(
        "qwen: {backend: hf, name: ../weights/./qwen, args: {peft: ../weights}}\n"
        "said: {backend: replay, name: ../s.jsonl}\n"
    )
    weights = file.parent / "weights"
    models = read_models(inner / "models.yaml")
    assert (models["qwen"].name, models["qwen"].args) == (str(weights / "qwen"), {"peft": str(weights)})
    assert models["said"].name == str(file.parent / "s.jsonl")


@pytest.mark.parametrize("name", ["openai:gpt-4o", "scripted", "none", "digits", "gpt-4o", "org/model", ""])
def test_other_names_stay_as_they_are(file: Path, name: str) -> None:
    assert (find_entry(name), spelled(name)) == (None, name)


def test_rates_are_found_by_what_a_name_means_and_are_no_part_of_it(file: Path) -> None:
    assert rates_of(spelled("claude-4.5")) == {"requests_per_minute": 50}
    assert [rates_of(name) for name in (spelled("qwen"), "openai:gpt-4o", "")] == [{}, {}, {}]
    before = spelled("plain")
    file.write_text(MODELS + "  args: {num_concurrent: 3, tokens_per_minute: 9000}\n")
    assert (spelled("plain"), rates_of(before)) == (before, {"concurrency": 3, "tokens_per_minute": 9000})


def test_a_process_that_does_not_find_the_file_goes_on_without_rates(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = spelled("claude-4.5")
    file.unlink()
    assert rates_of(name) == {}
    assert "rates of models are not known here" in caplog.text


def test_a_spelled_name_needs_no_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        file.write_text(
            f"mine: {{backend: openai, name: {MODEL}, base_url: '{server.base_url}', api_key_env: TEAM_KEY}}\n"
        )
        said = spelled("mine")
        file.unlink()
        monkeypatch.setenv("TEAM_KEY", "sk-team")
        chat = open_chat(said, base_url="http://127.0.0.1:9/v1", api_key=SecretStr("sk-openai"), timeout_s=10)
        chat.complete(ChatRequest(messages=(Message(role="user", content=(Text(text="Hi"),)),)))
        asked = server.requests[0]
    assert (chat.id, asked["headers"]["authorization"]) == (f"openai:{MODEL}", "Bearer sk-team")


def test_a_variable_that_is_not_there_is_named() -> None:
    name = 'openai:gpt,{"api_key_env": "NOT_SET"}'
    with pytest.raises(ModelUnavailable, match="no environment variable NOT_SET here"):
        open_chat(name, base_url=None, api_key=SecretStr("sk-openai"), timeout_s=1)


def test_a_key_of_ones_own_goes_to_the_provider_and_not_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-team")
    name = 'curator:anthropic/claude,{"api_key_env": "TEAM_KEY"}'
    chat = open_chat(name, base_url="http://127.0.0.1:9/v1", api_key=None, timeout_s=1)
    assert isinstance(chat, CuratorChat)
    assert chat.base_url == "https://api.anthropic.com/v1"


def test_a_file_that_is_not_there_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.delenv(VARIABLE)
        assert (registered_models(), find_entry("qwen")) == ({}, None)
    file.unlink()
    assert find_entry("hf") is None
    with pytest.raises(RegistryUnusable, match=f"TRIVET_MODELS={file}: it cannot be read"):
        find_entry("qwen")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {backend: hf\n", "line 2"),
        ("- a\n", "expected names of models"),
        ("a:\n  name: m\n", r"models.yaml: a\.backend: Field required"),
        ("a:\n  backend: hf\n", "models.yaml: a: `name` is missing"),
        ("a:\n  backend: telepathy\n  name: m\n", r"there is no backend 'telepathy'"),
        ("a:\n  backend: hf\n  name: m\n  color: red\n", r"a\.color: .*an entry has backend, name, revision"),
        ("a:\n  backend: hf\n  name: m\n  args: {color: red}\n", "a: model_args: hf has no argument color"),
        ("a:\n  backend: hf\n  name: m\n  base_url: http://x/v1\n", "a: .*of endpoints, and hf is none"),
        ("a:\n  backend: openai\n  name: m\n  args: {base_url: u}\n", "a: write `base_url` beside `args`"),
        ("a:\n  backend: hf\n  name: m\n  price: {prompt: -1, answer: 2}\n", r"a\.price\.prompt: .*greater"),
        ("openai: {backend: openai, name: m}\n", "openai: the name means something already"),
        ("a/b: {backend: hf, name: m}\n", "a name has letters, digits"),
        ("a: {backend: openai, name: m, args: {num_concurrent: 0}}\n", "concurrency: expected a whole number"),
    ],
)
def test_a_bad_file_is_named_with_the_entry(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(RegistryUnusable, match=said):
        read_models(tmp_path / "models.yaml")


@pytest.mark.parametrize(
    "line",
    [
        "api_key: hush-hush-1234",
        "args: {hf_token: hush-hush-1234}",
        "api_key_env: hush-hush-1234",
        "base_url: 'http://me:hush-hush-1234@127.0.0.1/v1'",
    ],
)
def test_a_secret_is_refused_with_the_remedy_and_not_repeated(tmp_path: Path, line: str) -> None:
    (tmp_path / "models.yaml").write_text(f"a:\n  backend: openai\n  name: m\n  {line}\n")
    with pytest.raises(RegistryUnusable, match="api_key_env") as refused:
        read_models(tmp_path / "models.yaml")
    assert "hush" not in str(refused.value)
