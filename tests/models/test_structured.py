"""Answers of one format: what a `response_format` may be, and how endpoints are asked for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

from models.backends import check_args, open_backend
from models.model_errors import ModelUnavailable, RequestRefused
from models.protocols import ChatRequest, Message, Text
from models.response_format import format_in_id, schema_of
from tests.models.server import MODEL, Server

GRADE: dict[str, JsonValue] = {"type": "object", "properties": {"why": {"type": "string"}, "grade": {"type": "number"}}}
OF_A_SCHEMA: dict[str, JsonValue] = {"type": "json_schema", "json_schema": {"schema": GRADE, "strict": True}}
ANY_OBJECT: dict[str, JsonValue] = {"type": "json_object"}
NAMED = {"type": "json_schema", "json_schema": {"name": "answer", "schema": GRADE, "strict": True}}
REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Grade it, as JSON"),)),), max_tokens=20)


def opened(server: Server, kind: str, response_format: JsonValue = OF_A_SCHEMA) -> Any:
    name = f"hosted_vllm/{MODEL}" if kind == "curator" else MODEL
    args: dict[str, JsonValue] = {"base_url": server.base_url, "response_format": response_format}
    return open_backend(kind, name=name, args=args, timeout_s=10)


def test_a_format_that_was_written_down_is_the_same_format(server: Server):
    assert opened(server, "openai", json.dumps(OF_A_SCHEMA)).id == opened(server, "openai").id
    with pytest.raises(ModelUnavailable, match="'as JSON' is no JSON object"):
        opened(server, "openai", "as JSON")


@pytest.mark.parametrize(
    ("response_format", "schema"), [(OF_A_SCHEMA, GRADE), (NAMED, GRADE), (ANY_OBJECT, None)], ids=["a", "named", "any"]
)
def test_a_format_has_a_schema_or_takes_any_object(response_format: object, schema: object):
    assert schema_of(response_format) == schema


@pytest.mark.parametrize(
    ("response_format", "says"),
    [
        ("json_object", "'json_object' is no JSON object"),
        ({}, "no type None"),
        ({"type": "text"}, "no type 'text'"),
        ({"type": "json_schema"}, "no schema in it"),
        ({"type": "json_schema", "json_schema": GRADE}, "no schema in it"),
        ({"type": "json_schema", "json_schema": {"schema": "grade"}}, "no schema in it"),
    ],
)
def test_what_is_no_format_is_refused_before_anything_is_opened(response_format: JsonValue, says: str):
    for kind in ("openai", "responses", "curator"):
        with pytest.raises(ModelUnavailable, match=rf"response_format: .*{says}.*write {{.type.: .json_schema"):
            check_args(kind, {"model": MODEL, "response_format": response_format})


def test_another_format_or_another_order_of_writing_is_another_model():
    turned = json.loads(json.dumps(GRADE)) | {"properties": {"grade": {"type": "number"}, "why": {"type": "string"}}}
    assert turned == GRADE
    formats = [None, ANY_OBJECT, *({"json_schema": {"schema": schema}} for schema in (GRADE, turned))]
    assert len({format_in_id(one) for one in formats}) == 4


@pytest.mark.parametrize(("said", "sent"), [(OF_A_SCHEMA, NAMED), (ANY_OBJECT, ANY_OBJECT)], ids=["schema", "any"])
@pytest.mark.parametrize("kind", ["openai", "curator"])
def test_chat_completions_gets_the_format_with_a_name(
    server: Server, kind: str, said: dict[str, JsonValue], sent: object
):
    chat = opened(server, kind, said)
    answer = chat.complete(REQUEST)
    assert server.requests[0]["body"]["response_format"] == sent == answer.sent["response_format"]
    assert chat.id == opened(server, kind, None).id + format_in_id(said)


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        (OF_A_SCHEMA, {"type": "json_schema", "name": "answer", "schema": GRADE, "strict": True}),
        (ANY_OBJECT, ANY_OBJECT),
    ],
    ids=["schema", "any"],
)
def test_the_responses_api_gets_it_flat(server: Server, said: dict[str, JsonValue], sent: object):
    chat = opened(server, "responses", said)
    assert chat.complete(REQUEST).sent["text"] == server.requests[0]["body"]["text"] == {"format": sent}
    assert chat.id == opened(server, "responses", None).id + format_in_id(said)


@pytest.mark.parametrize("kind", ["openai", "responses", "curator"])
def test_a_raw_prompt_has_no_format(server: Server, kind: str):
    with pytest.raises(RequestRefused, match="leave out response_format"):
        opened(server, kind).complete(REQUEST.model_copy(update={"template": False}))
    assert server.requests == []
