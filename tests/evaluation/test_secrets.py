"""What must not be written down."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.evaluation.evaluation_records import masked


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("api_base=http://127.0.0.1:1234/v1,api_key=dummy", "api_base=http://127.0.0.1:1234/v1,api_key=***"),
        ("OPENAI_API_KEY=sk-1 trivet", "OPENAI_API_KEY=*** trivet"),
        ("base_url=https://me:pass@host/v1", "base_url=https://me:***@host/v1"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("max_tokens=5,eos_token=</s>,tokens_per_minute=9", "max_tokens=5,eos_token=</s>,tokens_per_minute=9"),
        ("api_key_env=MY_KEY", "api_key_env=MY_KEY"),
        ({"token": "hf_1", "add_bos_token": True}, {"token": "***", "add_bos_token": True}),
        ({"a": [{"password": "x"}]}, {"a": [{"password": "***"}]}),
        ({"api-key": "x", "api_key": ""}, {"api-key": "***", "api_key": ""}),
    ],
)
def test_secrets_are_masked_and_nothing_else(given: Any, written: Any) -> None:
    assert masked(given) == written


def test_a_long_text_is_masked_at_once() -> None:
    assert masked("a_" * 500_000 + "=x") == "a_" * 500_000 + "=x"
