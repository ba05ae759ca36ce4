from __future__ import annotations

import base64
import json
import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from models.backends import open_chat
from models.embedders import OpenAIEmbedder
from models.model_errors import (
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    NoSuchPath,
    RequestRefused,
    TransientModelError,
    Unreachable,
)
from models.openai import AS_ASKED, BRIEFLY, REASONING_TOKENS, OpenAIChat, Thinking, is_reasoning, reasoning_effort
from models.protocols import Chat, ChatRequest, ChatResponse, Image, Message, Text
from tests.models.server import DIMENSION, MODEL, STREAM, Reply, Server, error_reply, stream_reply, web_page
from tests.models.tiny_vision import make_png

KEY = "sk-very-secret-123456"
REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),), max_tokens=9, seed=4)


def chat(server: Server, *, model: str = MODEL, timeout_s: float = 10.0) -> OpenAIChat:
    return OpenAIChat(model, base_url=server.base_url, api_key=SecretStr(KEY), timeout_s=timeout_s)


def failure(server: Server, reply: Reply, *, timeout_s: float = 10.0) -> ModelError:
    server.script.append(reply)
    with pytest.raises(ModelError) as caught:
        chat(server, timeout_s=timeout_s).complete(REQUEST)
    return caught.value


def test_an_image_travels_as_a_data_url(server: Server):
    parts = (Text(text="Read"), Image(png=make_png(0)))
    chat(server).complete(ChatRequest(messages=(Message(role="user", content=parts),)))
    url = server.requests[0]["body"]["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == make_png(0)


def asked(server: Server, *, model: str = MODEL, thinking: Thinking = BRIEFLY, **fields: Any) -> ChatResponse:
    server.models = (*server.models, model)
    subject = OpenAIChat(model, base_url=server.base_url, timeout_s=10, thinking=thinking)
    return subject.complete(REQUEST.model_copy(update=fields))


@pytest.mark.parametrize(
    ("model", "fields", "sent"),
    [
        (MODEL, {}, {"max_tokens": 9, "temperature": 0.0, "seed": 4}),
        (
            MODEL,
            {"temperature": 0.7, "top_p": 0.9, "stop": ("x", "y"), "seed": None},
            {"max_tokens": 9, "temperature": 0.7, "top_p": 0.9, "stop": ["x", "y"]},
        ),
        (MODEL, {"stop": ("1", "2", "3", "4", "5")}, {"stop": ["1", "2", "3", "4"]}),
        (MODEL, {"draw": 3}, {"max_tokens": 9, "temperature": 0.0, "seed": 4}),
        (MODEL, {"max_tokens": 32_768}, {"max_tokens": 32_768}),
        ("gpt-4o-mini", {"max_tokens": 32_768}, {"max_tokens": 16_384}),
        ("chatgpt-4o-latest", {"max_tokens": 32_768}, {"max_tokens": 16_384}),
        ("gpt-4.1", {"max_tokens": 32_768}, {"max_tokens": 32_768}),
        (
            "gpt-5-mini",
            {"temperature": 0.7, "top_p": 0.9, "stop": ("x",)},
            {"max_completion_tokens": 9 + REASONING_TOKENS, "reasoning_effort": "minimal", "seed": 4},
        ),
    ],
    ids=["plain", "all", "five stops", "a draw", "long", "4o", "chatgpt", "no 4o", "reasoning"],
)
def test_what_was_sent_is_recorded(server: Server, model: str, fields: dict[str, Any], sent: dict[str, object]):
    answer = asked(server, model=model, **fields)
    body = server.requests[0]["body"]
    assert {name: value for name, value in body.items() if name not in ("model", "messages")} == answer.sent
    assert answer.sent.items() >= sent.items()
    assert len(sent) == 1 or answer.sent == sent


@pytest.mark.parametrize(
    ("thinking", "sent", "chat_id"),
    [
        (AS_ASKED, {"max_completion_tokens": 9, "seed": 4}, "openai:gpt-5-mini@effort=own"),
        (
            Thinking(effort="high", tokens=0),
            {"max_completion_tokens": 9, "seed": 4, "reasoning_effort": "high"},
            "openai:gpt-5-mini@effort=high",
        ),
    ],
    ids=["its own", "chosen"],
)
def test_a_reasoning_model_may_think_as_it_does_by_itself(
    server: Server, thinking: Thinking, sent: dict[str, object], chat_id: str
):
    assert asked(server, model="gpt-5-mini", thinking=thinking).sent == sent
    assert OpenAIChat("gpt-5-mini", thinking=thinking).id == chat_id


def test_a_server_that_wants_the_newer_name_of_the_limit_gets_it_and_that_is_remembered(server: Server):
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server.misbehave = lambda path, body: error_reply(400, said) if "max_tokens" in body else None
    subject = chat(server)
    answers = [subject.complete(REQUEST) for _ in range(2)]
    assert [sorted(row["body"].keys() & {"max_tokens", "max_completion_tokens"}) for row in server.requests] == [
        ["max_tokens"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
    ]
    assert [answer.sent["max_completion_tokens"] for answer in answers] == [9, 9]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", [MODEL, "gpt-5-mini"], ids=["plain", "reasoning"])
def test_a_stop_is_no_part_of_the_answer_even_where_the_server_knows_none(server: Server, model: str, stream: bool):
    server.answer = lambda body: "one two three four"
    heard: list[str] = []
    subject = OpenAIChat(model, base_url=server.base_url, timeout_s=10)
    request = REQUEST.model_copy(update={"stop": ("o three",)})
    answer = subject.complete(request, on_text=heard.append if stream else None)
    assert (answer.text, answer.finish_reason) == ("one tw", "stop")
    assert heard == (["one ", "one tw"] if stream else [])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_raw_prompt_goes_through_completions(server: Server, stream: bool):
    heard: list[str] = []
    turns = (Message(role="system", content=(Text(text="Be brief"),)), *REQUEST.messages)
    request = REQUEST.model_copy(update={"messages": turns, "template": False})
    answer = chat(server).complete(request, on_text=heard.append if stream else None)
    body = server.requests[0]["body"]
    assert server.requests[0]["path"] == "/v1/completions"
    assert body["prompt"] == "Be brief\n\nHello"
    assert answer.sent == {"max_tokens": 9, "temperature": 0.0, "seed": 4}
    assert (answer.text[:6], answer.finish_reason, answer.completion_tokens) == ("Answer", "length", 9)
    assert heard[-1:] == ([answer.text] if stream else [])


RAW = REQUEST.model_copy(update={"template": False})


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_completions_says_how_to_go_on(server: Server, status: int):
    server.completions_status = status
    with pytest.raises(ModelUnavailable, match="leave out `--apply_chat_template False`"):
        chat(server).complete(RAW)


def test_a_key_that_was_not_sent_is_asked_for(server: Server):
    server.script.append(error_reply(401, "Unauthorized"))
    with pytest.raises(ModelUnavailable, match=r"No key was sent; .* api_key_env names, or else the provider's own"):
        OpenAIChat(MODEL, base_url=server.base_url, timeout_s=10).complete(REQUEST)


@pytest.mark.parametrize(
    ("reply", "expected", "says"),
    [
        pytest.param(error_reply(401, "Incorrect API key"), ModelUnavailable, "api_key_env names", id="no access"),
        pytest.param(error_reply(404, "no such model"), ModelUnavailable, "model's name", id="no model"),
        pytest.param(error_reply(404, "File Not Found"), NoSuchPath, "where the API begins", id="no path"),
        pytest.param(error_reply(400, "bad image"), RequestRefused, "bad image", id="refused"),
        pytest.param(
            error_reply(400, "maximum context length is 8192 tokens"), ContextOverflow, "Shorten", id="too long"
        ),
        pytest.param(
            error_reply(400, "too long", code="context_length_exceeded"), ContextOverflow, "Shorten", id="code"
        ),
        pytest.param(
            error_reply(400, "prompt is too long: 9 tokens > 8 maximum"), ContextOverflow, "Shorten", id="Anthropic"
        ),
        pytest.param(
            error_reply(422, "`inputs` tokens + `max_new_tokens` must be <= 8. Given: 9"),
            ContextOverflow,
            "Shorten",
            id="TGI",
        ),
        pytest.param(error_reply(429, "slow down"), TransientModelError, "429", id="rate"),
        pytest.param(
            error_reply(429, "quota", code="insufficient_quota"), ModelUnavailable, "top it up", id="no money"
        ),
        pytest.param(error_reply(500, "oops"), TransientModelError, "500", id="server error"),
        pytest.param(Reply(308, headers={"Location": "http://b/v1"}), ModelUnavailable, "to http://b/v1", id="moved"),
        pytest.param(Reply(503, b"<html>busy</html>", "text/html"), TransientModelError, "busy", id="gateway"),
        pytest.param(Reply(200, b"<html>Welcome</html>"), TransientModelError, "not a completion", id="posing as JSON"),
        pytest.param(Reply(200, b'{"choices": []}'), TransientModelError, "not a completion", id="no choice"),
        pytest.param(
            error_reply(200, "overloaded"), TransientModelError, "broke off: overloaded", id="an error as 200"
        ),
        pytest.param(Reply(200, b'{"id"', declared_length=900), Unreachable, "hung up", id="half an answer"),
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


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7.0", 7),
        (format_datetime(datetime.now(UTC) + timedelta(days=30), usegmt=True), 30 * 86_400),
        *((nonsense, None) for nonsense in ("soon", "nan", "inf", "")),
    ],
    ids=["seconds", "a date", "soon", "nan", "inf", "nothing"],
)
def test_the_server_says_when_to_come_back(server: Server, value: str, seconds: float | None):
    error = failure(server, error_reply(429, "slow down", headers={"Retry-After": value}))
    assert isinstance(error, TransientModelError)
    assert error.retry_after_s == (seconds and pytest.approx(seconds, rel=0.01))
    assert len(server.requests) == 1, "one request is one request"


def test_no_key_for_the_public_service_is_said_before_anything_is_sent():
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        OpenAIChat("gpt-4o-mini").complete(REQUEST)


CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": MODEL}


def chunk(finish_reason: str | None = None, **delta: str) -> dict[str, object]:
    return {**CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def streamed(subject: Chat) -> tuple[list[str], ChatResponse]:
    heard: list[str] = []
    return heard, subject.complete(REQUEST, on_text=heard.append)


@pytest.mark.parametrize(
    ("model", "refused", "asked_with"),
    [
        (MODEL, ("stream_options",), ["stream", "stream_options"]),
        (MODEL, ("stream",), ["stream", "stream_options"]),
        (MODEL, ("logprobs", "top_logprobs"), ["logprobs", "stream", "stream_options", "top_logprobs"]),
        ("gpt-5-mini", ("reasoning_effort",), ["reasoning_effort", "stream", "stream_options"]),
    ],
)
def test_a_field_that_a_server_refuses_is_left_out_from_then_on(
    server: Server, model: str, refused: tuple[str, ...], asked_with: list[str]
):
    server.refuses, subject, heard = refused, chat(server, model=model), list[str]()
    asked = REQUEST.model_copy(update={"top_logprobs": 2 if "logprobs" in refused else None})
    first, second = (subject.complete(asked, on_text=heard.append) for _ in range(2))
    assert first == second
    assert heard[-1] == first.text
    optional = {"stream", "stream_options", "logprobs", "top_logprobs", "reasoning_effort"}
    sent = [sorted(optional & row["body"].keys()) for row in server.requests]
    assert sent[0] == asked_with
    assert sent[-1] == sent[-2]
    assert set(refused).isdisjoint(sent[-1])


@pytest.mark.parametrize("refused", ["seed", "temperature"])
def test_what_changes_the_answer_is_never_left_out(server: Server, refused: str):
    server.refuses = (refused,)
    with pytest.raises(RequestRefused, match=refused):
        streamed(chat(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        pytest.param(stream_reply(chunk(content="Half"), done=False), "ended before the answer did", id="cut off"),
        pytest.param(stream_reply(), "ended before the answer did", id="nothing"),
        pytest.param(stream_reply({**CHUNK, "choices": []}), "ended before the answer did", id="no choices"),
        pytest.param(stream_reply(chunk(content="All")), "ended before the answer did", id="no reason for the end"),
        pytest.param(
            Reply(content_type=STREAM, pieces=(b'data: {"choices": [{"del\n\n',)), "not a completion", id="broken JSON"
        ),
        pytest.param(stream_reply({"error": {"message": "out of memory"}}), "out of memory", id="an error inside"),
        pytest.param(Reply(200, b"data: {", STREAM, declared_length=900), "hung up", id="fewer bytes than said"),
        pytest.param(web_page(), "base URL", id="web page"),
        pytest.param(Reply(200, b'{"choices": []}'), "ended before the answer did", id="empty in one piece"),
    ],
)
def test_a_broken_stream_is_worth_a_retry(server: Server, reply: Reply, says: str):
    server.script.append(reply)
    with pytest.raises(TransientModelError, match=says) as caught:
        streamed(chat(server))
    assert server.base_url in str(caught.value)
    assert MODEL in str(caught.value)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("context_length_exceeded", ContextOverflow),
        ("insufficient_quota", ModelUnavailable),
        ("invalid_prompt", RequestRefused),
        ("server_error", TransientModelError),
    ],
)
def test_an_error_inside_a_stream_has_its_class(server: Server, code: str, expected: type[ModelError]):
    server.script.append(stream_reply(chunk(content="Half"), {"error": {"message": "no", "code": code}}))
    with pytest.raises(expected):
        streamed(chat(server))


ALMOST = {
    "no usage": ({"content": "42"}, {"finish_reason": "stop"}, {}),
    "half of the usage": ({"content": "42"}, {"finish_reason": "stop"}, {"usage": {"total_tokens": 9}}),
    "fields of its own": ({"content": "42", "mood": "good"}, {"finish_reason": "stop", "seen": 1}, {"timings": {}}),
    "reasoning content": ({"content": "42", "reasoning_content": "6 × 7"}, {"finish_reason": "stop"}, {}),
    "parts": (
        {
            "content": [
                {"type": "thinking", "thinking": []},
                {"type": "text", "text": "4"},
                {"type": "text", "text": "2"},
            ]
        },
        {"finish_reason": "stop"},
        {},
    ),
    "a reason in words of its own": ({"content": "42"}, {"finish_reason": "eos_token"}, {}),
}
"""Of servers that speak almost like OpenAI: message, rest of the choice, rest of the answer."""


@pytest.mark.parametrize(("message", "choice", "rest"), ALMOST.values(), ids=ALMOST.keys())
def test_an_answer_that_is_almost_like_openais_is_understood(
    server: Server, message: dict[str, Any], choice: dict[str, Any], rest: dict[str, Any]
):
    server.script.append(Reply(200, json.dumps({"choices": [{"message": message, **choice}], **rest}).encode()))
    pieces = [
        {"choices": []},
        {"choices": None},
        {"choices": [{"delta": {"role": "assistant", "content": None}}]},
        {"choices": [{"delta": message}]},
        {"choices": [{**choice}]},
        {"choices": [], **rest},
    ]
    server.script.append(stream_reply(*pieces))
    whole, (heard, answer) = chat(server).complete(REQUEST), streamed(chat(server))
    assert (whole.text, whole.finish_reason, whole.completion_tokens) == ("42", "stop", None)
    assert (heard, answer) == (["42"], whole)


@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": ""}], ids=["null", "none", "empty"])
def test_an_answer_that_was_all_thought_is_empty_and_says_that_it_was_cut(server: Server, content: dict[str, Any]):
    message = {"role": "assistant", "reasoning_content": "6 × 7 is", **content}
    server.script.append(
        Reply(200, json.dumps({"choices": [{"message": message, "finish_reason": "length"}]}).encode())
    )
    server.script.append(stream_reply({"choices": [{"delta": message}]}, chunk("length")))
    whole, (heard, answer) = chat(server).complete(REQUEST), streamed(chat(server))
    assert (whole.text, whole.finish_reason) == (answer.text, answer.finish_reason) == ("", "length")
    assert heard == []


def test_a_refusal_is_text_and_says_so(server: Server):
    server.script.append(stream_reply(chunk(refusal="I may "), chunk(refusal="not."), chunk("stop")))
    heard, answer = streamed(chat(server))
    assert (heard, answer.text, answer.finish_reason) == (["I may ", "I may not."], "I may not.", "refusal")


def test_a_listener_that_raises_closes_the_stream(server: Server):
    server.answer, server.pause_s = lambda body: "word " * 500, 0.01

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chat(server).complete(REQUEST, on_text=interrupted)
    assert server.hung_up.wait(5)


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("gpt-5", "minimal"),
        ("gpt-5-mini-2025-08-07", "minimal"),
        ("gpt-5.1", "low"),
        ("o3", "low"),
        ("gpt-6", "low"),
        ("gpt-5-chat-latest", None),
        ("gpt-4o-mini", None),
        ("Qwen/Qwen3-8B", None),
        ("phi-o3", None),
    ],
)
def test_only_reasoning_models_have_an_effort(model: str, effort: str | None):
    assert (reasoning_effort(model) if is_reasoning(model) else None) == effort


SECRETS = ["tok-in-the-query-77", "p%40ss-word-88", "p@ss-word-88", KEY]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [200, 401, 500])
def test_no_secret_gets_into_errors_or_logs(
    server: Server, caplog: pytest.LogCaptureFixture, stream: bool, status: int
):
    caplog.set_level(logging.DEBUG)
    server.script.append(error_reply(status, f"you sent {' and '.join(SECRETS)}"))
    url = server.base_url.replace("//", "//someone:p%40ss-word-88@") + "?key=tok-in-the-query-77"
    subject = OpenAIChat(MODEL, base_url=url, api_key=SecretStr(KEY), timeout_s=10)
    with pytest.raises(ModelError) as caught:
        subject.complete(REQUEST, on_text=(lambda text: None) if stream else None)
    shown = "\n".join([str(caught.value), subject.id, *(record.getMessage() for record in caplog.records)])
    assert [secret for secret in SECRETS if secret in shown] == []


def test_login_and_query_of_the_base_url_are_sent(server: Server):
    url = server.base_url.replace("//", "//someone:p%40ss@") + "?api-version=3"
    OpenAIChat(MODEL, base_url=url, timeout_s=10).complete(REQUEST)
    sent = server.requests[0]
    assert sent["path"] == "/v1/chat/completions?api-version=3"
    assert base64.b64decode(sent["headers"]["authorization"].removeprefix("Basic ")) == b"someone:p@ss"


def test_the_environments_proxy_is_asked_for_whole_addresses(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", server.base_url.replace("//", "//me:p%40ss@"))
    OpenAIChat(MODEL, base_url="http://models.test/v1", timeout_s=10).complete(REQUEST)
    assert server.requests[0]["path"] == "http://models.test/v1/chat/completions"
    login = server.requests[0]["headers"]["proxy-authorization"]
    assert base64.b64decode(login.removeprefix("Basic ")) == b"me:p@ss"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://[::1", "http://host:port/v1", "http://"])
def test_a_base_url_that_is_none_is_refused(url: str):
    with pytest.raises(ModelUnavailable, match="http://HOST:PORT"):
        OpenAIChat(MODEL, base_url=url)


@pytest.mark.parametrize("name", ["", "openai", "openai:", "responses", "responses:", "gpt-5-mini", "abacus:x"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str):
    with pytest.raises(ModelUnavailable, match="openai:MODEL"):
        open_chat(name)


def embedder(server: Server, *, known: int | None = None) -> OpenAIEmbedder:
    """known: the length of its vectors, where the server is not to be asked for it."""
    subject = OpenAIEmbedder(MODEL, base_url=server.base_url, timeout_s=10)
    if known is not None:
        subject.dimension = known
    return subject


def test_many_texts_go_in_batches_of_64(server: Server):
    assert embedder(server, known=DIMENSION).embed([f"text {n}" for n in range(130)]).shape == (130, DIMENSION)
    assert [len(request["body"]["input"]) for request in server.requests] == [64, 64, 2]


def test_vectors_without_numbers_are_taken_in_their_order(server: Server):
    rows = [{"embedding": [3.0, 4.0]}, {"embedding": [0.0, 2.0]}]
    server.script.append(Reply(body=json.dumps({"data": rows}).encode()))
    np.testing.assert_allclose(embedder(server, known=2).embed(["one", "two"]), [[0.6, 0.8], [0.0, 1.0]], atol=1e-6)


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


def test_vectors_of_another_length_than_before_are_refused(server: Server):
    row = {"index": 0, "embedding": [1.0, 0.0], "object": "embedding"}
    server.script.append(Reply(body=json.dumps({"data": [row], "model": MODEL, "object": "list"}).encode()))
    with pytest.raises(RequestRefused, match="2 numbers, 5 were expected"):
        embedder(server, known=5).embed(["one"])


def test_log_probabilities_of_the_first_token_are_told_where_asked_for(server: Server):
    server.answer = lambda body: "m"
    told = chat(server).complete(REQUEST.model_copy(update={"top_logprobs": 2}))
    assert told.top_logprobs == {"m": -1.0, "a": -2.0}
    assert told.sent["top_logprobs"] == 2
    assert chat(server).complete(REQUEST).top_logprobs == {}
