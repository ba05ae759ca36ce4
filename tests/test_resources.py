"""What a process opens once: how long a language model may be silent, and how often it is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flows.settings import Settings, configure_steps
from models.errors import TransientModelError
from models.protocols import ChatRequest, Message, Text
from tasks import resources
from tasks.calls import WHILE_SOMEBODY_WAITS, CallSettings
from tests.models.server import MODEL, Server, hangs, serving

REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),))


@pytest.fixture
def silent() -> Iterator[Server]:
    """A server that never answers, as the endpoint of local models."""
    configure_steps()
    before = resources.resources()
    with serving() as server:
        server.misbehave = lambda path, body: hangs()
        resources.configure(replace(before, llm_base_url=server.base_url, llm_timeout_s=0.1))
        yield server
    resources.configure(before)


def test_a_silent_language_model_is_given_up_after_the_time_that_is_set(silent: Server) -> None:
    with pytest.raises(TransientModelError, match=r"0\.1 s; .*TRIVET_LLM_TIMEOUT_S"):
        resources.language(f"openai:{MODEL}", local=True).complete(REQUEST)


def test_who_waits_hears_within_minutes_that_a_model_is_silent() -> None:
    limits = resources.call_limits("some", patient=False).settings
    assert limits == WHILE_SOMEBODY_WAITS
    assert limits.tries * Settings().llm_timeout_s + limits.most_delay_s <= 150


def test_where_nobody_waits_a_model_is_asked_as_often_as_helps() -> None:
    assert resources.call_limits("some").settings == CallSettings()
