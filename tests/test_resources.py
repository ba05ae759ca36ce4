"""What a process opens once: how long a language model may be silent, and how often it is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flows.running.settings import configure_steps
from models.model_errors import TransientModelError
from models.protocols import ChatRequest, Message, Text
from models.registry import VARIABLE, spelled
from storage.responses import StoredResponse
from tasks import resources
from tasks.calls import WHILE_SOMEBODY_WAITS, CallSettings
from tasks.lever.judge.judges import limits_of
from tests.models.server import MODEL, Server, hangs, serving

REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),))


@pytest.fixture
def silent() -> Iterator[Server]:
    """A server that never answers, as the endpoint of local models."""
    configure_steps()
    before = resources.resources()
    with serving() as server:
        server.misbehave = lambda path, body: hangs()
        resources.configure(replace(before, llm_base_url=server.base_url))
        yield server
    resources.configure(before)


def test_a_silent_language_model_is_given_up_after_the_time_that_is_set(silent: Server) -> None:
    with pytest.raises(TransientModelError, match=r"0\.1 s; .*`timeout`"):
        resources.language(f'openai:{MODEL},{{"timeout": 0.1}}', local=True).complete(REQUEST)


def test_who_waits_hears_within_minutes_that_a_model_is_silent() -> None:
    assert resources.call_limits("some").settings == CallSettings()  # where nobody waits
    limits = resources.call_limits("some", patient=False).settings
    assert limits == WHILE_SOMEBODY_WAITS
    assert limits.tries * resources.LLM_TIMEOUT_S + limits.most_delay_s <= 150


@pytest.fixture
def allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The meaning of a model whose entry in the user's file says how hard it may be pressed."""
    rates = "{num_concurrent: 3, requests_per_minute: 60, max_tokens_per_minute: 9000}"
    (tmp_path / "models.yaml").write_text(f"ours: {{backend: openai, name: gpt, args: {rates}}}\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models.yaml"))
    resources.call_limits.cache_clear()
    limits_of.cache_clear()
    return spelled("ours")


@pytest.mark.parametrize("patient", [True, False])
def test_documents_answers_and_judges_keep_to_the_rates_of_the_users_file(allowed: str, patient: bool) -> None:
    documents = resources.call_limits(allowed, patient=patient).settings
    for kept in (documents, limits_of(allowed).settings):
        assert (kept.concurrency, kept.requests_per_minute, kept.tokens_per_minute) == (3, 60, 9000)
    assert documents.tries == (CallSettings() if patient else WHILE_SOMEBODY_WAITS).tries
    assert limits_of("openai:another").settings == CallSettings(concurrency=16)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[resources.Resources]:
    """A process whose database is away."""
    configure_steps()
    before = resources.resources()
    made = replace(before, home=tmp_path, database_url="postgresql://me@127.0.0.1:9/trivet")
    resources.configure(made)
    yield made
    resources.configure(before)


ANSWER = StoredResponse(backend="scripted", model="m", request=None, response={"text": "a"}, latency_s=0.5)


def test_a_run_goes_on_while_the_database_is_away_and_says_so(away: resources.Resources) -> None:
    store = resources.optional_responses()
    assert store.trouble is None
    store.put_many({"k" * 64: ANSWER})
    assert store.many(["k" * 64]) == {}
    assert store.trouble
    assert "1 answers are not in the response store" in store.trouble


def test_a_process_has_one_store_until_its_resources_change(away: resources.Resources) -> None:
    store = resources.optional_responses()
    resources.configure(away)
    assert resources.optional_responses() is store
    resources.configure(replace(away, home=away.home / "other"))
    assert resources.optional_responses() is not store
    assert resources.optional_responses().many(["k" * 64]) == {}
