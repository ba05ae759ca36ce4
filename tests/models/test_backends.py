from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from models.backends import open_backend, parse_model_args
from models.model_errors import ModelUnavailable, RequestRefused
from models.protocols import BatchChat, ChatRequest, LogLikelihood, Message, Text
from tests.models.server import MODEL, Server
from tests.models.tiny import make_tiny_model

REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),), max_tokens=5)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", {}),
        ("pretrained=org/name", {"pretrained": "org/name"}),
        (
            "api_base=http://127.0.0.1:1234/v1,api_key=dummy",
            {"api_base": "http://127.0.0.1:1234/v1", "api_key": "dummy"},
        ),
        ("a=1, b = -2.5 ,c=1e-3,d=0.9", {"a": 1, "b": -2.5, "c": 0.001, "d": 0.9}),
        ("a=true,b=False,c=none,d=", {"a": True, "b": False, "c": None, "d": ""}),
        ("revision=1e5,other=007,path=a=b", {"revision": "1e5", "other": "007", "path": "a=b"}),
        ('{"device_map": {"": 0}, "dtype": "auto"}', {"device_map": {"": 0}, "dtype": "auto"}),
    ],
)
def test_arguments_are_read(text: str, args: dict[str, JsonValue]):
    assert parse_model_args(text) == args


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=1,b", "'b' is no name=value"),
        ("=1", "'=1' is no"),
        ("a=1,a=2", "a is given twice"),
        ("{1", "no JSON object"),
    ],
)
def test_a_bad_piece_is_named(text: str, says: str):
    with pytest.raises(ModelUnavailable, match=says):
        parse_model_args(text)


@pytest.mark.parametrize("kind", ["openai", "responses"])
def test_an_endpoint_is_opened_by_its_arguments(server: Server, kind: str):
    args: dict[str, JsonValue] = {"model": MODEL, "api_base": server.base_url, "api_key": "sk-1", "timeout": 10}
    chat = open_backend(kind, args=args | {"num_concurrent": 4, "batch_size": 1}, base_url="http://127.0.0.1:9/v1")
    assert (chat.id, chat.complete(REQUEST).text[:6]) == (f"{kind}:{MODEL}", "Answer")
    assert server.requests[0]["headers"]["authorization"] == "Bearer sk-1"


def test_an_effort_that_somebody_chose_is_not_left_out(server: Server):
    server.refuses = ("reasoning_effort",)
    chat = open_backend("openai", name="gpt-5-mini", args={"reasoning_effort": "high"}, base_url=server.base_url)
    with pytest.raises(RequestRefused, match="reasoning_effort"):
        chat.complete(REQUEST)


def test_a_local_model_is_opened_with_its_arguments(tmp_path: Path):
    folder = make_tiny_model(tmp_path)
    args = parse_model_args(f"pretrained={folder},dtype=bfloat16,max_length=128,batch_size=auto,device=cpu")
    chat = open_backend("hf", args=args)
    assert chat.id.endswith(":bfloat16:128")
    assert isinstance(chat, BatchChat)
    assert isinstance(chat, LogLikelihood)
    assert chat.complete(REQUEST).completion_tokens


def test_recorded_and_scripted_answers_are_opened(tmp_path: Path):
    recorded, rules = tmp_path / "answers.jsonl", tmp_path / "rules.json"
    recorded.write_text(json.dumps({"prompt": "Hello", "response": "Hi"}), "utf-8")
    rules.write_text(json.dumps([{"answer": "Ho"}]), "utf-8")
    replay, scripted = open_backend("replay", args={"path": str(recorded)}), open_backend("scripted")
    ruled = open_backend("scripted", args={"rules": str(rules)})
    assert [chat.complete(REQUEST).text for chat in (replay, scripted, ruled)] == ["Hi", "You said: Hello", "Ho"]


@pytest.mark.parametrize(
    ("kind", "args", "says"),
    [
        ("telepathy", {}, "openai, responses, hf, vllm, curator, replay, scripted, and any lm_eval model class"),
        ("openai", {}, "--model-name NAME"),
        ("openai", {"model": "m", "color": 1}, "openai has no argument color; it has .*reasoning_effort"),
        ("openai", {"model": "m", "timeout": "soon"}, "timeout: .*valid number"),
        ("hf", {"pretrained": "m", "response_format": {}}, "response_format was removed; describe the format"),
        ("hf", {"pretrained": "m", "batch_size": 0}, "batch_size"),
        ("hf", {"pretrained": "m", "batch_size": "many"}, "batch_size"),
        ("vllm", {"pretrained": "org/m", "tensor_parallel_size": 2}, "vLLM .*`vllm serve org/m`"),
        ("vllm", {"pretrained": "m", "gpu_memory_utilization": 2}, "gpu_memory_utilization: .*less than or equal to 1"),
        ("curator", {"model": "anthropic/claude"}, "anthropic asks for a key and none is set; set ANTHROPIC_API_KEY"),
        ("curator", {"model": "lm_studio/qwen", "color": 1}, "curator has no argument color; it has .*base_url"),
        ("curator", {}, "--model-args model=NAME"),
        ("replay", {}, "path=NAME"),
        ("replay", {"path": "/nowhere.jsonl"}, "no recorded answers"),
        ("no.such.Class", {}, "no.such.Class cannot be imported here"),
        ("json.JSONDecoder", {}, "no subclass of lm_eval"),
        ("tests.models.harness_lm.PlainLM", {"color": 1}, "cannot be made from its model_args"),
    ],
)
def test_what_cannot_be_opened_says_why(kind: str, args: dict[str, JsonValue], says: str):
    with pytest.raises(ModelUnavailable, match=says):
        open_backend(kind, args=args)


def test_a_key_of_the_wrong_kind_is_not_shown():
    with pytest.raises(ModelUnavailable) as caught:
        open_backend("openai", args={"model": "m", "api_key": ["sk-secret"]})
    assert "sk-secret" not in str(caught.value)
