"""What a way to choose closes of the gap, for what it asked the judge, by hand."""

from __future__ import annotations

import pytest

from tasks.lever.learning.arena import ArenaRow, arena_of
from tasks.lever.learning.selector_comparison import summarise
from tasks.lever.learning.transfer import transfer_of
from tests.lever.outcomes import seed_of

CALLS = {"beams": 100, "sft": 20, "rl-data": 60, "rce": 20, "grpo": 300, "arena": 1500, "evaluate": 9999}
CHOSEN = {
    "similarity": [0.0, 0.0, 1.0, 1.0],
    "mmr": [0.0, 0.0, 0.0, 1.0],
    "sft": [0.0, 0.0, 1.0, 1.0],
    "grpo": [1.0, 0.0, 1.0, 1.0],
    "gspo": [1.0, 1.0, 1.0, 1.0],
    "oracle": [1.0, 1.0, 1.0, 1.0],
}


def rows(*seeds: int, calls: dict[str, int] = CALLS) -> dict[str, ArenaRow]:
    return {row.selector: row for row in arena_of(summarise([seed_of(seed, CHOSEN) for seed in seeds]), calls)}


def test_a_row_has_the_share_of_the_gap_and_that_of_a_thousand_calls() -> None:
    found = rows(0)
    assert list(found) == ["similarity", "mmr", "sft", "grpo", "gspo"]
    assert {name: row.calls for name, row in found.items()} == {
        "similarity": 0,
        "mmr": 0,
        "sft": 120,
        "grpo": 500,
        "gspo": 500,
    }
    assert {name: row.share for name, row in found.items()} == {
        "similarity": 0.0,
        "mmr": -0.5,
        "sft": 0.0,
        "grpo": 0.5,
        "gspo": 1.0,
    }
    assert found["grpo"].per_1000_calls == pytest.approx(0.5 * 1000 / 500)
    assert found["mmr"].per_1000_calls is None


def test_calls_are_those_of_all_seeds_and_shares_of_one() -> None:
    once, twice = rows(0)["grpo"], rows(0, 1, calls={stage: 2 * count for stage, count in CALLS.items()})["grpo"]
    assert twice.calls == 2 * once.calls
    assert twice.per_1000_calls == pytest.approx(once.per_1000_calls)


def test_intervals_scale_as_their_shares() -> None:
    found = rows(0)["grpo"]
    assert found.low is not None
    assert found.per_1000_low == pytest.approx(found.low * 2)


def test_what_was_trained_elsewhere_stands_beside_what_was_trained_here() -> None:
    chosen = CHOSEN | {"from_crowded": [0.0, 1.0, 1.0, 1.0]}
    own, other = transfer_of(summarise([seed_of(0, chosen), seed_of(1, chosen)]))
    assert (own.trained_on, own.measured_on, own.selector) == ("digits", "digits", "grpo")
    assert (own.accuracy.value, own.over_similarity.value) == (0.75, 0.25)
    assert (other.trained_on, other.measured_on, other.selector) == ("crowded", "digits", "from_crowded")
    assert (other.accuracy.value, other.over_similarity.value) == (0.75, 0.25)
    assert transfer_of(summarise([seed_of(0, CHOSEN)])) == ()
