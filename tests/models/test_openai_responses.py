from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from models.model_errors import ModelError, NoSuchPath, RequestRefused, TransientModelError
from models.openai import REASONING_TOKENS, OpenAIChat
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text
from tests.models.server import MODEL, STREAM, Reply, Server, error_reply, stream_reply

KEY = "sk-very-secret-123456"


def message(role: str, *parts: Text | Image) -> Message:
    return Message.model_validate({"role": role, "content": parts})


REQUEST = ChatRequest(
    messages=(
        message("system", Text(text="Be brief.")),
        message("user", Text(text="Hello")),
        message("assistant", Text(text="Hello.")),
        message("system", Text(text="Cite.")),
        message("user", Text(text="How much?")),
    ),
    max_tokens=40,
    seed=4,
)


def chat(server: Server, *, model: str = MODEL, timeout_s: float = 10.0) -> OpenAIChat:
    return OpenAIChat(model, responses=True, base_url=server.base_url, api_key=SecretStr(KEY), timeout_s=timeout_s)


def ask(subject: OpenAIChat, *, stream: bool = False) -> tuple[list[str], ChatResponse]:
    heard: list[str] = []
    return heard, subject.complete(REQUEST, on_text=heard.append if stream else None)


def paths(server: Server) -> list[str]:
    return [sent["path"].removeprefix("/v1/") for sent in server.requests]


def response(**changes: object) -> dict[str, object]:
    return {"id": "1", "object": "response", "status": "completed", "output": [], "usage": None, **changes}


def said(*parts: dict[str, str]) -> list[dict[str, object]]:
    return [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": parts}]


def delta(text: str, kind: str = "output_text") -> dict[str, object]:
    return {"type": f"response.{kind}.delta", "delta": text, "item_id": "1", "output_index": 0, "content_index": 0}


def test_the_request_has_instructions_and_turns_and_is_not_stored(server: Server):
    ask(chat(server))
    assert server.requests[0]["body"] == {
        "model": MODEL,
        "instructions": "Be brief.\n\nCite.",
        "input": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "How much?"},
        ],
        "max_output_tokens": 40,
        "temperature": 0.0,
        "store": False,
    }


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(Reply(404, b"404 page not found", "text/plain"), id="Ollama"),
        pytest.param(error_reply(404, "File Not Found", code="404"), id="llama.cpp"),
        pytest.param(error_reply(404, "Invalid URL (POST /v1/responses)"), id="OpenAI"),
        pytest.param(Reply(404, b"<html>Not Found</html>", "text/html"), id="a gateway"),
    ],
)
def test_a_path_that_is_missing_is_known_in_many_words(server: Server, page: Reply):
    server.script.append(page)
    with pytest.raises(NoSuchPath, match="no Responses API there: name the model openai:small-vision"):
        ask(chat(server))
    assert paths(server) == ["responses"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("reply", "expected", "says"),
    [
        pytest.param(Reply(200, json.dumps(response()).encode()), TransientModelError, "no message", id="empty output"),
        pytest.param(
            Reply(200, json.dumps(response(status="queued", output=said())).encode()),
            TransientModelError,
            "status is 'queued'",
            id="not done",
        ),
        pytest.param(
            Reply(200, json.dumps(response(status="failed", error={"code": "server_error", "message": "oh"})).encode()),
            TransientModelError,
            "broke off: oh",
            id="failed",
        ),
        pytest.param(
            Reply(200, json.dumps(response(status="failed", error={"code": "invalid_prompt", "message": ""})).encode()),
            RequestRefused,
            "refused again",
            id="failed for good",
        ),
    ],
)
def test_a_failure_has_its_class_and_no_secret(
    server: Server, reply: Reply, expected: type[ModelError], says: str, stream: bool
):
    server.script.append(reply)
    with pytest.raises(ModelError) as caught:
        ask(chat(server), stream=stream)
    assert type(caught.value) is expected
    assert says in str(caught.value)
    assert KEY not in str(caught.value)
    assert paths(server) == ["responses"]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        pytest.param(stream_reply(delta("Half"), done=False), "ended before the answer did", id="cut off"),
        pytest.param(stream_reply(), "ended before the answer did", id="nothing"),
        pytest.param(
            Reply(content_type=STREAM, pieces=(b'event: response.created\ndata: {"ty\n\n',)),
            "not a completion",
            id="broken JSON",
        ),
        pytest.param(
            stream_reply({"type": "error", "code": "server_error", "message": "oh", "sequence_number": 1}),
            "broke off: oh",
            id="error",
        ),
        pytest.param(
            stream_reply({"type": "error", "error": {"code": "server_error", "message": "oh"}}),
            "broke off: oh",
            id="error inside",
        ),
        pytest.param(
            stream_reply(
                {
                    "type": "response.failed",
                    "response": response(status="failed", error={"code": "rate_limit_exceeded", "message": "oh"}),
                }
            ),
            "broke off: oh",
            id="failed",
        ),
    ],
)
def test_a_broken_stream_is_worth_a_retry(server: Server, reply: Reply, says: str):
    server.script.append(reply)
    with pytest.raises(TransientModelError, match=says):
        ask(chat(server), stream=True)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            response(output=said({"type": "output_text", "text": "One "}, {"type": "output_text", "text": "two"})),
            ("One two", "stop"),
            id="parts",
        ),
        pytest.param(
            response(
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
                output=said({"type": "output_text", "text": "One"}),
            ),
            ("One", "length"),
            id="cut",
        ),
        pytest.param(
            response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            ("", "length"),
            id="all spent on reasoning",
        ),
        pytest.param(
            response(status="incomplete", incomplete_details={"reason": "content_filter"}, output=said()),
            ("", "content_filter"),
            id="filtered",
        ),
        pytest.param(
            response(output=said({"type": "refusal", "refusal": "I may not."})), ("I may not.", "refusal"), id="refused"
        ),
    ],
)
def test_the_reason_for_the_end_has_the_words_of_chat_completions(
    server: Server, answer: dict[str, object], expected: tuple[str, str]
):
    ends = f"response.{answer['status']}"
    server.script += [Reply(200, json.dumps(answer).encode()), stream_reply({"type": ends, "response": answer})]
    for stream in (False, True):
        _, got = ask(chat(server), stream=stream)
        assert (got.text, got.finish_reason) == expected


def test_a_server_that_does_not_repeat_the_answer_at_the_end_is_understood(server: Server):
    server.script.append(stream_reply(delta("All"), {"type": "response.completed", "response": response()}))
    heard, answer = ask(chat(server), stream=True)
    assert (heard, answer.text, answer.finish_reason) == (["All"], "All", "stop")


def test_sampling_has_the_names_of_this_api_and_a_stop_is_cut_here(server: Server):
    ask(chat(server, model="gpt-5-mini"))
    thinks = server.requests.pop()["body"]
    assert (thinks["reasoning"], thinks["max_output_tokens"]) == ({"effort": "minimal"}, 40 + REASONING_TOKENS)
    assert "temperature" not in thinks
    server.answer = lambda body: "one two three"
    request = ChatRequest(
        messages=(Message(role="user", content=(Text(text="Hello"),)),),
        max_tokens=32_768,
        temperature=0.7,
        top_p=0.9,
        seed=4,
        stop=(" three",),
    )
    answer = OpenAIChat("gpt-4o-mini", responses=True, base_url=server.base_url, timeout_s=10).complete(request)
    assert (answer.text, answer.finish_reason) == ("one two", "stop")
    assert answer.sent == {"max_output_tokens": 16_384, "temperature": 0.7, "top_p": 0.9}
    assert server.requests[0]["body"].keys().isdisjoint({"seed", "stop"})
