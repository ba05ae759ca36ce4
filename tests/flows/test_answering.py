"""Which models a wiring names on this machine, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.running.answer_models import models_of
from flows.running.settings import settings
from models.model_errors import ModelUnavailable
from tasks.rag.answering.wiring import Models

SERVER = "http://127.0.0.1:8000/v1"
AT_HOME = 'openai:m,{"base_url": "http://127.0.0.1:8000/v1"}'
VARIABLES = ("TRIVET_LLM", "TRIVET_LLM_MODEL", "TRIVET_LLM_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """One where nothing is set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    settings.cache_clear()
    yield monkeypatch
    settings.cache_clear()


@pytest.mark.parametrize(
    ("environment", "llm", "remedy"),
    [
        ({}, "local", "TRIVET_LLM_MODEL"),
        ({"TRIVET_LLM_MODEL": "qwen", "OPENAI_API_KEY": "key"}, "local", "TRIVET_LLM_BASE_URL"),
        ({}, "openai", "OPENAI_API_KEY"),
        ({"TRIVET_LLM": "openai"}, None, "OPENAI_API_KEY"),
        ({}, "openai:qwen", "TRIVET_LLM_BASE_URL"),
    ],
    ids=["no model", "no server", "no key", "by settings", "named, and no server"],
)
def test_a_wiring_that_lacks_something_names_what_to_set(
    machine: pytest.MonkeyPatch, environment: dict[str, str], llm: str | None, remedy: str
) -> None:
    for name, value in environment.items():
        machine.setenv(name, value)
    with pytest.raises(ModelUnavailable, match=f"set {remedy}"):
        models_of(llm)


@pytest.mark.parametrize(
    ("environment", "llm", "expected"),
    [
        ({}, None, Models()),
        (
            {"TRIVET_LLM_MODEL": "qwen", "TRIVET_LLM_BASE_URL": SERVER},
            "local",
            Models(wiring="local", large="openai:qwen", small="openai:qwen"),
        ),
        (
            {"OPENAI_BASE_URL": SERVER},
            "openai",
            Models(wiring="openai", large="openai:gpt-5-mini", small="openai:gpt-4o-mini"),
        ),
        ({}, "scripted", Models(wiring="local", large="scripted", small="scripted")),
        ({"OPENAI_API_KEY": "key"}, "openai:m", Models(wiring="local", large="openai:m", small="openai:m")),
        ({}, AT_HOME, Models(wiring="local", large=AT_HOME, small=AT_HOME)),
        (
            {"TRIVET_LLM": "local", "TRIVET_LLM_MODEL": "scripted"},
            None,
            Models(wiring="local", large="scripted", small="scripted"),
        ),
    ],
    ids=[
        *("nothing set", "local", "openai on a server of one's own", "one model", "one of OpenAI's"),
        *("one that says where it is served", "one model, by settings"),
    ],
)
def test_a_wiring_names_its_models(
    machine: pytest.MonkeyPatch, environment: dict[str, str], llm: str | None, expected: Models
) -> None:
    for name, value in environment.items():
        machine.setenv(name, value)
    assert models_of(llm) == expected


def test_weights_on_this_disk_answer_under_their_revision(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    named = f"hf:{tmp_path},dtype=float32"
    models = models_of(named)
    assert models == Models(wiring="local", large=named, small=named, revision=models.revision)
    assert models.in_process
    assert len(models.revision) == 12


@pytest.mark.parametrize(
    ("llm", "says"),
    [("gpt7", "there is no --llm 'gpt7'"), ("hf:/nowhere", "no folder /nowhere"), ("vllm:/nowhere", "no folder")],
)
def test_a_model_that_is_not_there_is_named(llm: str, says: str) -> None:
    with pytest.raises(ModelUnavailable, match=says):
        models_of(llm)
