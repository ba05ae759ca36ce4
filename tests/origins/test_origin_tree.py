"""What a figure cost stands beside it."""

from __future__ import annotations

import pytest

from tasks.evaluation.evaluation_records import Usage
from tasks.origins.origin_tree import _usage

CALLS = Usage(calls=500, recalled=20, prompt_tokens=81_000, completion_tokens=12_400)


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (None, []),
        (Usage(), []),
        (CALLS, ["judge: 500 calls, 81,000 + 12,400 tokens"]),
        (CALLS.model_copy(update={"cost": 0.3125}), ["judge: 500 calls, 81,000 + 12,400 tokens, cost 0.3125"]),
    ],
)
def test_calls_tokens_and_money(usage: Usage | None, said: list[str]) -> None:
    assert list(_usage("judge", usage)) == said
