"""Which models a wiring names on this machine, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flows.answering import models_of
from flows.settings import settings
from models.errors import ModelUnavailable
from tasks.rag.answering.wiring import Models, WiringName

SERVER = "http://127.0.0.1:8000/v1"
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
    ],
    ids=["no model", "no server", "no key", "by settings"],
)
def test_a_wiring_that_lacks_something_names_what_to_set(
    machine: pytest.MonkeyPatch, environment: dict[str, str], llm: WiringName | None, remedy: str
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
            Models(wiring="openai", large="responses:gpt-5-mini", small="responses:gpt-4o-mini"),
        ),
    ],
    ids=["nothing set", "local", "openai on a server of one's own"],
)
def test_a_wiring_names_its_models(
    machine: pytest.MonkeyPatch, environment: dict[str, str], llm: WiringName | None, expected: Models
) -> None:
    for name, value in environment.items():
        machine.setenv(name, value)
    assert models_of(llm) == expected
