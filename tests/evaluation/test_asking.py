"""The models of a run, opened in this process: asked within a budget, and forgotten when a device is wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from models.model_errors import ModelError, ModelUnavailable, TransientModelError
from models.protocols import ChatRequest, Message, Text
from tasks import resources
from tasks.budget import Budget, Prices, Spending
from tasks.calls import Answer
from tasks.evaluation.running.open_models import Asking, ModelSpec, open_model, release_models
from tests.models.server import MODEL, Server, error_reply, prompt_of, serving

SCRIPTED = ModelSpec(backend="scripted")


def request(text: str) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=(Text(text=text),)),))


def requests(count: int) -> Iterator[tuple[int, ChatRequest]]:
    return ((number, request(str(number))) for number in range(count))


@pytest.fixture(autouse=True)
def _home(here: Path) -> Iterator[None]:
    release_models()
    yield
    release_models()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def served(server: Server, **calls: Any) -> ModelSpec:
    settings = {"concurrency": 2, "tries": 1, **calls}
    return ModelSpec(backend="openai", name=MODEL, base_url=server.base_url, args=settings)


def test_a_model_is_opened_once_until_it_is_released() -> None:
    first = open_model(SCRIPTED)
    assert open_model(ModelSpec(backend="scripted")) is first
    release_models()
    assert open_model(SCRIPTED) is not first


def test_a_key_comes_from_the_variable_that_the_run_names(server: Server) -> None:
    spec = served(server).model_copy(update={"api_key_env": "MY_KEY"})
    list(Asking(spec).ask_all(requests(1)))
    assert server.requests[-1]["headers"]["authorization"] == "Bearer sk-mine"


def test_every_request_is_answered_and_counted() -> None:
    asks = Asking(SCRIPTED, prices=Prices(prompt=1e6, answer=1e6))
    answers = dict(asks.ask_all(requests(5)))
    assert {tag: answer.response.text for tag, answer in answers.items() if isinstance(answer, Answer)} == {
        number: f"You said: {number}" for number in range(5)
    }
    # one word asked, three answered
    usage = asks.usage
    assert (usage.calls, usage.recalled, usage.prompt_tokens, usage.completion_tokens) == (5, 0, 5, 15)
    assert (usage.cost, asks.away) == (20, [])


def test_a_budget_is_shared_by_the_model_and_its_judge() -> None:
    budget = Budget(Spending(max_calls=3))
    model, judge = Asking(SCRIPTED, budget=budget), Asking(SCRIPTED, budget=budget)
    list(model.ask_all(requests(2)))
    answers = list(judge.ask_all((number, request(f"rate {number}")) for number in range(3)))
    assert Counter(isinstance(answer, Answer) for _, answer in answers) == {True: 1, False: 2}


def failing(server: Server, status: int, **error: Any) -> None:
    reply = error_reply(status, "maximum context length is 10 tokens", **error)
    server.misbehave = lambda path, body: reply if prompt_of(body) == "1" else None


def test_a_model_that_is_away_for_a_request_is_remembered(server: Server) -> None:
    failing(server, 503)
    asks = Asking(served(server))
    answers: dict[int, Answer | ModelError] = dict(asks.ask_all(requests(3)))
    assert isinstance(answers[1], TransientModelError)
    assert asks.away == [str(answers[1])]
    assert asks.usage.calls == 2


def test_a_batch_size_is_that_of_the_task_and_not_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    chat: Any = Asking(SCRIPTED, batch_size=7).chat
    assert not hasattr(chat, "use_batches"), "an endpoint has none"
    used: list[object] = []
    monkeypatch.setattr(chat, "use_batches", used.append, raising=False)
    Asking(SCRIPTED, batch_size=7)
    Asking(SCRIPTED)
    assert used == [7, "auto"]


@pytest.fixture
def curator(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of curator's names, where OpenAI has a key, a provider has one, and so has a team."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.setenv("TEAM_KEY", "sk-team")
    openai = {"api_key": SecretStr("sk-openai"), "openai_base_url": "http://127.0.0.1:9/v1"}
    resources.configure(replace(resources.resources(), **openai))


@pytest.mark.usefixtures("curator")
@pytest.mark.parametrize(("variable", "key"), [(None, "sk-ant"), ("TEAM_KEY", "sk-team")])
def test_the_key_is_the_providers_unless_the_run_names_another(server: Server, variable: str | None, key: str) -> None:
    name = f"anthropic/{MODEL}"
    open_model(ModelSpec(backend="curator", name=name, base_url=server.base_url, api_key_env=variable)).complete(
        request("Hello")
    )
    assert server.requests[0]["headers"]["authorization"] == f"Bearer {key}"


@pytest.mark.usefixtures("curator")
def test_a_provider_without_its_key_is_refused_though_openai_has_one() -> None:
    with pytest.raises(ModelUnavailable, match="GEMINI_API_KEY"):
        open_model(ModelSpec(backend="curator", name="gemini/gemini-2.5-flash"))


@pytest.mark.usefixtures("curator")
def test_a_model_of_openai_goes_where_openai_goes(server: Server) -> None:
    resources.configure(replace(resources.resources(), openai_base_url=server.base_url))
    open_model(ModelSpec(backend="curator", name=f"openai/{MODEL}")).complete(request("Hello"))
    assert server.requests[0]["headers"]["authorization"] == "Bearer sk-openai"
