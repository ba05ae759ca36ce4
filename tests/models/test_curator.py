from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import SecretStr

from models.backends import open_backend
from models.model_errors import ModelUnavailable
from models.openai import PROVIDERS, CuratorChat, ProviderAccess, find_access, parse_litellm_name
from models.protocols import ChatRequest, Message, Text
from tests.models.server import MODEL, Reply, Server

REQUEST = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),), max_tokens=5, seed=3)
GEMINI_REFUSES = [
    {"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'}}
]
"""Google's endpoint answers with a list, and knows no seed."""


@pytest.mark.parametrize(
    ("name", "parsed", "base_url"),
    [
        ("lm_studio/qwen3-8b", ("lm_studio", "qwen3-8b"), "http://127.0.0.1:1234/v1"),
        ("hosted_vllm/Qwen/Qwen3-8B", ("hosted_vllm", "Qwen/Qwen3-8B"), "http://127.0.0.1:8000/v1"),
        ("openai/gpt-4o-mini", ("openai", "gpt-4o-mini"), "https://api.openai.com/v1"),
        ("gpt-4o-mini", ("openai", "gpt-4o-mini"), "https://api.openai.com/v1"),
        ("anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5"), "https://api.anthropic.com/v1"),
        (
            "gemini/gemini-2.5-flash",
            ("gemini", "gemini-2.5-flash"),
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        ("ollama/llama3.2:3b", ("ollama", "llama3.2:3b"), "http://127.0.0.1:11434/v1"),
        ("deepseek/deepseek-chat", ("deepseek", "deepseek-chat"), "https://api.deepseek.com/v1"),
    ],
)
def test_a_name_tells_provider_model_and_place(name: str, parsed: tuple[str, str], base_url: str):
    told = parse_litellm_name(name)
    assert (told, PROVIDERS[told[0]].base_url) == (parsed, base_url)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "openai/", "/x", ""])
def test_an_unknown_provider_is_refused_with_the_known_ones(name: str):
    with pytest.raises(ModelUnavailable, match=r"anthropic, .*hosted_vllm, .*openrouter"):
        parse_litellm_name(name)


@pytest.mark.parametrize("provider", ["lm_studio", "hosted_vllm", "openai", "anthropic", "gemini"])
def test_a_model_is_asked_by_its_own_name_and_reported_by_the_users(server: Server, provider: str):
    args: dict[str, Any] = {"api_base": server.base_url, "api_key": "sk-1", "max_requests_per_minute": 60}
    chat = open_backend("curator", name=f"{provider}/{MODEL}", args=args, timeout_s=10)
    answer = chat.complete(REQUEST)
    asked = server.requests[0]
    assert (chat.id, answer.text[:6]) == (f"curator:{provider}/{MODEL}", "Answer")
    assert (asked["path"], asked["body"]["model"]) == ("/v1/chat/completions", MODEL)
    assert asked["headers"]["authorization"] == "Bearer sk-1"
    assert answer.sent == {"max_tokens": 5, "temperature": 0.0, "seed": 3}


def test_a_seed_that_the_server_does_not_know_is_left_out_from_then_on(server: Server):
    def refuse(path: str, body: dict[str, Any]) -> Reply | None:
        return Reply(400, json.dumps(GEMINI_REFUSES).encode()) if "seed" in body else None

    server.misbehave = refuse
    chat = CuratorChat(f"gemini/{MODEL}", base_url=server.base_url, timeout_s=10)
    answers = [chat.complete(REQUEST) for _ in range(2)]
    assert [answer.sent for answer in answers] == [{"max_tokens": 5, "temperature": 0.0}] * 2
    assert ["seed" in asked["body"] for asked in server.requests] == [True, False, False]


def test_what_a_provider_would_not_heed_is_refused(server: Server):
    args: dict[str, Any] = {"reasoning_effort": "high"}
    with pytest.raises(ModelUnavailable, match="anthropic takes reasoning_effort and does not heed it"):
        open_backend("curator", name="anthropic/claude", args=args, api_key=SecretStr("k"))
    assert open_backend("curator", name="anthropic/claude", args=args | {"api_base": server.base_url}).id


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_is_said_before_anything_is_asked(name: str, variable: str):
    with pytest.raises(ModelUnavailable, match=f"{name}: .* set {variable}, .*api_key_env=NAME"):
        open_backend("curator", name=name)


@pytest.mark.parametrize(
    ("name", "environment", "key"),
    [
        ("anthropic/claude", {"ANTHROPIC_API_KEY": "a"}, "a"),
        ("gemini/flash", {"GOOGLE_API_KEY": "g"}, "g"),
        ("gemini/flash", {"GEMINI_API_KEY": "first", "GOOGLE_API_KEY": "second"}, "first"),
        ("hosted_vllm/qwen", {}, None),
        ("anthropic/claude", {"ANTHROPIC_API_KEY": ""}, None),
    ],
)
def test_the_key_of_openai_goes_to_openai_alone(
    name: str, environment: dict[str, str], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in {name for provider in PROVIDERS.values() for name in provider.variables}:
        monkeypatch.setenv(variable, environment.get(variable, ""))
    of_openai = ProviderAccess("http://127.0.0.1:1/v1", SecretStr("sk-openai"))
    place = find_access(name, of_openai)
    assert (place.base_url, place.api_key and place.api_key.get_secret_value()) == (None, key)
    assert find_access("openai/gpt-4o", of_openai) == of_openai
