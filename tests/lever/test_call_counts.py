"""How often stages ask the judge, counted by hand."""

from __future__ import annotations

import pytest

from tasks.lever.learning import call_counts
from tasks.lever.lever_options import BeamSettings, GrpoSettings, OracleSettings, RlDataSettings

POOL = {"queries": 10, "pool": 5, "shots": 2}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"width": 2}, 10 * (1 + 5 + (2 + 1))),
        ({"width": 1}, 10 * (1 + 5 + 4)),
        ({"width": 9}, 10 * (1 + 5 + (2 + 4))),
        ({"width": 2, "candidates": 3}, 10 * (1 + 3 + (1 + 1))),
        ({"width": 2, "candidates": 8, "queries": 4}, 4 * (1 + 5 + (2 + 1))),
    ],
    ids=["narrow", "only the best", "wide", "some candidates", "some queries"],
)
def test_a_search_weighs_each_candidate_alone_and_grows_what_is_best(settings: dict[str, int], expected: int) -> None:
    assert sum(call_counts.of_beams(BeamSettings.model_validate(settings), screened=True, **POOL).values()) == expected


def test_the_search_of_lever_plus_asks_a_third_of_what_growing_every_kept_sequence_asks() -> None:
    by_shots = call_counts.of_beams(BeamSettings(width=5), queries=800, pool=64, shots=2, screened=True)
    assert by_shots == {0: 800, 1: 800 * 64, 2: 800 * (31 + 4 * 8)}
    asked = sum(by_shots.values())
    assert asked == 800 * (1 + 64 + (31 + 4 * 8)) == 102_400
    assert asked < 0.4 * 800 * (1 + 64 + 5 * 63)


def test_rl_data_hold_distinct_pointers() -> None:
    settings = RlDataSettings(beams=5, samples=2, random=3)
    assert call_counts.of_rl_data(settings, **POOL) == 10 * (5 + 2 * 2 + 3)
    assert call_counts.of_rl_data(settings, queries=10, pool=3, shots=2) == 10 * 6


def test_only_online_rounds_draw() -> None:
    settings = GrpoSettings(offline_epochs=2, rounds=3, draws=4)
    assert (call_counts.of_draws(settings, queries=10), call_counts.grpo_epochs(settings)) == (3 * 10 * 4, 5)
    offline = settings.model_copy(update={"offline_only": True})
    assert (call_counts.of_draws(offline, queries=10), call_counts.grpo_epochs(offline)) == (0, 2)


def test_validation_comes_before_the_first_epoch_and_after_each() -> None:
    assert call_counts.of_validation(4, validation=7) == 5 * 7


def test_zero_shot_is_measured_once_and_all_others_with_each_number_of_shots() -> None:
    assert call_counts.of_evaluation(test=20, shots=[0, 1, 4], selectors=7) == {0: 20, 1: 140, 4: 140}


@pytest.mark.parametrize(
    ("most", "shots", "expected"), [(None, 2, 20 * 12), (100, 2, 100), (0, 2, 0), (10**9, 3, 20 * 24)]
)
def test_an_oracle_tries_all_pointers_or_as_many_as_it_may(most: int | None, shots: int, expected: int) -> None:
    settings = OracleSettings(most_judgments=most)
    assert call_counts.most_of_oracle(settings, test=20, pool=4, shots=shots) == expected
