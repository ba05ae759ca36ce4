"""A run asks a model of curator's names with the key of its provider, wherever OPENAI_API_KEY points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from models.model_errors import ModelUnavailable
from models.protocols import ChatRequest, Message, Text
from tasks import resources
from tasks.evaluation.running.open_models import ModelSpec, open_model, release_models
from tests.models.server import MODEL, Server, serving

REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def _settings(here: Path) -> Iterator[None]:
    known = {"ANTHROPIC_API_KEY": "sk-ant", "TEAM_KEY": "sk-team"}
    openai = {"api_key": SecretStr("sk-openai"), "openai_base_url": "http://127.0.0.1:9/v1"}
    resources.configure(replace(resources.resources(), secret=known.get, **openai))
    yield
    release_models()


@pytest.mark.parametrize(("variable", "key"), [(None, "sk-ant"), ("TEAM_KEY", "sk-team")])
def test_the_key_is_the_providers_unless_the_run_names_another(server: Server, variable: str | None, key: str) -> None:
    name = f"anthropic/{MODEL}"
    open_model(
        ModelSpec(backend="curator", name=name, args={"base_url": server.base_url, "api_key_env": variable})
    ).complete(REQUEST)
    assert server.requests[0]["headers"]["authorization"] == f"Bearer {key}"


def test_a_provider_without_its_key_is_refused_though_openai_has_one() -> None:
    with pytest.raises(ModelUnavailable, match="GEMINI_API_KEY"):
        open_model(ModelSpec(backend="curator", name="gemini/gemini-2.5-flash"))


def test_a_model_of_openai_goes_where_openai_goes(server: Server) -> None:
    resources.configure(replace(resources.resources(), openai_base_url=server.base_url))
    open_model(ModelSpec(backend="curator", name=f"openai/{MODEL}")).complete(REQUEST)
    assert server.requests[0]["headers"]["authorization"] == "Bearer sk-openai"
