from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from email.utils import format_datetime

import numpy as np
import pytest
from pydantic import SecretStr

from models.chats import open_chat
from models.errors import (
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    RequestRefused,
    TransientModelError,
)
from models.openai import OpenAIChat, OpenAIEmbedder
from models.protocols import ChatRequest, Image, Message, Text
from tests.models.server import DIMENSION, MODEL, Reply, Server, error_reply, serving

KEY = "sk-very-secret-123456"
REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),), max_tokens=9, seed=4)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def chat(server: Server, *, model: str = MODEL, timeout_s: float = 10.0) -> OpenAIChat:
    return OpenAIChat(model, base_url=server.base_url, api_key=SecretStr(KEY), timeout_s=timeout_s)


def failure(server: Server, reply: Reply, *, timeout_s: float = 10.0) -> ModelError:
    server.script.append(reply)
    with pytest.raises(ModelError) as caught:
        chat(server, timeout_s=timeout_s).complete(REQUEST)
    return caught.value


def test_the_request_carries_everything_that_changes_the_answer(server: Server):
    chat(server).complete(REQUEST)
    assert server.requests[0]["body"] == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 9,
        "temperature": 0.0,
        "seed": 4,
    }


def test_an_image_travels_as_a_data_url(server: Server):
    parts = (Text(text="Read"), Image(png=b"\x89PNG-bytes"))
    chat(server).complete(ChatRequest(messages=(Message(role="user", content=parts),)))
    url = server.requests[0]["body"]["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == b"\x89PNG-bytes"


def test_reasoning_models_get_their_own_limit_and_no_temperature(server: Server):
    chat(server, model="gpt-5-mini").complete(REQUEST)
    body = server.requests[0]["body"]
    assert (body["max_completion_tokens"], "max_tokens" in body, "temperature" in body) == (9, False, False)


def test_the_key_is_sent_and_not_named(server: Server):
    subject = chat(server)
    subject.complete(REQUEST)
    assert server.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
    assert KEY not in subject.id


@pytest.mark.parametrize(
    ("reply", "expected", "says"),
    [
        pytest.param(error_reply(401, "Incorrect API key"), ModelUnavailable, "OPENAI_API_KEY", id="no access"),
        pytest.param(error_reply(403, "Forbidden"), ModelUnavailable, "what it may use", id="forbidden"),
        pytest.param(error_reply(404, "no such model"), ModelUnavailable, "model's name", id="no model"),
        pytest.param(error_reply(400, "bad image"), RequestRefused, "bad image", id="refused"),
        pytest.param(
            error_reply(400, "maximum context length is 8192 tokens"), ContextOverflow, "Shorten", id="too long"
        ),
        pytest.param(
            error_reply(400, "too long", code="context_length_exceeded"), ContextOverflow, "Shorten", id="code"
        ),
        pytest.param(error_reply(429, "slow down"), TransientModelError, "429", id="rate"),
        pytest.param(
            error_reply(429, "quota", code="insufficient_quota"), ModelUnavailable, "top it up", id="no money"
        ),
        pytest.param(error_reply(500, "oops"), TransientModelError, "500", id="server error"),
        pytest.param(Reply(503, b"<html>busy</html>", "text/html"), TransientModelError, "busy", id="gateway"),
        pytest.param(Reply(200, b"<html>Welcome</html>", "text/html"), TransientModelError, "base URL", id="web page"),
        pytest.param(Reply(200, b"<html>Welcome</html>"), TransientModelError, "not a completion", id="posing as JSON"),
        pytest.param(Reply(200, b'{"choices": [{"mess'), TransientModelError, "not a completion", id="broken JSON"),
        pytest.param(Reply(200, b'{"choices": []}'), TransientModelError, "not a completion", id="no choice"),
        pytest.param(Reply(200, b"[1, 2]"), TransientModelError, "not a completion", id="a list"),
        pytest.param(Reply(200, b"{"), TransientModelError, "not a completion", id="a brace"),
        pytest.param(Reply(200, b'{"id"', declared_length=900), TransientModelError, "hung up", id="half an answer"),
    ],
)
def test_a_failure_has_its_class_and_its_remedy(server: Server, reply: Reply, expected: type[ModelError], says: str):
    error = failure(server, reply)
    assert type(error) is expected
    assert says in str(error)
    assert server.base_url in str(error)
    assert MODEL in str(error)


def test_a_server_that_says_nothing_is_given_up(server: Server):
    error = failure(server, Reply(hangs=True), timeout_s=0.2)
    assert isinstance(error, TransientModelError)
    assert "0.2 s" in str(error)


def test_a_server_that_is_not_there_is_worth_a_retry(server: Server):
    subject = OpenAIChat(MODEL, base_url="http://127.0.0.1:9/v1", timeout_s=2)
    with pytest.raises(TransientModelError, match="is it running"):
        subject.complete(REQUEST)


def test_one_request_is_one_request(server: Server):
    failure(server, error_reply(500, "oops"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", ["7", "7.0"])
def test_the_server_says_when_to_come_back(server: Server, value: str):
    error = failure(server, error_reply(429, "slow down", headers={"Retry-After": value}))
    assert isinstance(error, TransientModelError)
    assert error.retry_after_s == 7


def test_a_date_to_come_back_at_is_understood(server: Server):
    from datetime import UTC, datetime, timedelta

    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    error = failure(server, error_reply(429, "slow down", headers={"Retry-After": date}))
    assert isinstance(error, TransientModelError)
    assert error.retry_after_s == pytest.approx(100, abs=3)


@pytest.mark.parametrize("value", ["soon", "nan", "inf", ""])
def test_nonsense_about_when_to_come_back_is_ignored(server: Server, value: str):
    error = failure(server, error_reply(429, "slow down", headers={"Retry-After": value}))
    assert isinstance(error, TransientModelError)
    assert error.retry_after_s is None


def test_a_server_that_repeats_the_key_does_not_get_it_into_the_error(server: Server):
    assert KEY not in str(failure(server, error_reply(401, f"Incorrect API key provided: {KEY}")))
    assert KEY not in str(failure(server, Reply(200, f'"{KEY}"'.encode())))


def test_no_key_for_the_public_service_is_said_before_anything_is_sent():
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        OpenAIChat("gpt-4o-mini").complete(REQUEST)


def test_a_password_in_the_base_url_is_not_shown():
    subject = OpenAIChat(MODEL, base_url="http://user:hidden@127.0.0.1:9/v1", timeout_s=2)
    with pytest.raises(TransientModelError) as caught:
        subject.complete(REQUEST)
    assert "hidden" not in str(caught.value)


def test_the_name_opens_the_backend(server: Server):
    subject = open_chat(f"openai:{MODEL}", base_url=server.base_url, timeout_s=10)
    assert subject.complete(REQUEST).text.startswith("Answer")


@pytest.mark.parametrize("name", ["", "openai", "openai:", "gpt-5-mini", "vllm:x"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str):
    with pytest.raises(ModelUnavailable, match="openai:MODEL"):
        open_chat(name)


def embedder(server: Server, *, dimension: int | None = None) -> OpenAIEmbedder:
    return OpenAIEmbedder(MODEL, base_url=server.base_url, dimension=dimension, timeout_s=10)


def test_vectors_have_unit_length_and_the_order_of_the_texts(server: Server):
    subject = embedder(server)
    both = subject.embed(["one", "two"])
    assert both.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(both[1:], subject.embed(["two"]))


def test_many_texts_go_in_batches_of_64(server: Server):
    assert embedder(server, dimension=4).embed([f"text {n}" for n in range(130)]).shape == (130, 4)
    assert [len(request["body"]["input"]) for request in server.requests] == [64, 64, 2]


def test_the_dimension_is_learnt_once(server: Server):
    subject = embedder(server)
    assert (subject.dimension, subject.dimension, len(server.requests)) == (DIMENSION, DIMENSION, 1)


def test_a_wanted_dimension_is_asked_for_and_part_of_the_name(server: Server):
    subject = embedder(server, dimension=5)
    assert subject.embed(["one"]).shape == (1, 5)
    assert (subject.id, server.requests[0]["body"]["dimensions"]) == (f"openai:{MODEL}:5", 5)


def test_no_texts_are_no_vectors(server: Server):
    assert embedder(server).embed([]).shape == (0, DIMENSION)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="none"),
        pytest.param([{"index": 0, "embedding": [0.0, 0.0]}], id="zeros"),
        pytest.param([{"index": 1, "embedding": [1.0, 0.0]}], id="wrong place"),
        pytest.param([{"index": 0, "embedding": []}], id="empty"),
    ],
)
def test_vectors_that_are_none_are_refused(server: Server, rows: list[object]):
    server.script.append(Reply(body=json.dumps({"data": rows, "model": MODEL, "object": "list"}).encode()))
    with pytest.raises(TransientModelError):
        embedder(server).embed(["one"])


def test_vectors_of_another_length_than_wanted_are_refused(server: Server):
    row = {"index": 0, "embedding": [1.0, 0.0], "object": "embedding"}
    server.script.append(Reply(body=json.dumps({"data": [row], "model": MODEL, "object": "list"}).encode()))
    with pytest.raises(RequestRefused, match="2 numbers, 5 were expected"):
        embedder(server, dimension=5).embed(["one"])
