"""The search for demonstrations that make the right answer likelier, with likelihoods worked by hand."""

from __future__ import annotations

import math

import pytest

from tasks.lever.data.rl_data import search
from tasks.lever.judge.judging import Asked
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_options import BeamSettings
from tasks.lever.lever_records import PointerRecord, PoolRecipe, Pools, VqaItem

POOLS = Pools(recipe=PoolRecipe(sampler="RandSampler", size=4), seed=0, pools={"q": ("a", "b", "c", "d")})
QUERY = VqaItem(id="q", image_id="1", image="1.png", image_sha256="0" * 64, question="?", answers=("yes", "no", "yes"))


class Likelihoods:
    """Of the right answer, by what is shown; .01 for all else."""

    def __init__(self, **given: float) -> None:
        self.given = given
        self.asked: list[str] = []

    def answer_log_probs(self, asked: list[Asked]) -> list[float]:
        self.asked += ["".join(one.demonstrations) for one in asked]
        return [math.log(self.given.get("".join(one.demonstrations) or "none", 0.01)) for one in asked]


def found(judge: Likelihoods, *, shots: int = 2, **settings: int) -> list[PointerRecord]:
    chosen = BeamSettings.model_validate(settings)
    best = search([QUERY], POOLS, judge, shots=shots, settings=chosen, seed=0)  # pyright: ignore[reportArgumentType]
    return list(best["q"])


def test_the_best_sequence_comes_first_with_its_gain() -> None:
    best = found(Likelihoods(none=0.1, a=0.3, b=0.2, ab=0.5, ba=0.9), width=2)
    assert [one.pointer for one in best] == [(1, 0), (0, 1)]
    assert [one.beam_score for one in best] == pytest.approx([0.8, 0.4])
    assert [one.beam_rank for one in best] == [0, 1]


def test_a_narrow_beam_misses_what_begins_badly() -> None:
    likelihoods = {"none": 0.1, "a": 0.3, "b": 0.2, "ab": 0.5, "ba": 0.9}
    assert found(Likelihoods(**likelihoods), width=1)[0].pointer == (0, 1)


def test_each_sequence_is_weighed_once_and_none_repeats_a_candidate() -> None:
    judge = Likelihoods()
    found(judge, width=5)
    assert len(judge.asked) == len(set(judge.asked)) == 1 + 4 + 4 * 3
    assert all(len(set(one)) == len(one) for one in judge.asked)


def test_fewer_candidates_may_be_tried_always_the_same_ones() -> None:
    first, again = Likelihoods(), Likelihoods()
    found(first, candidates=3)
    found(again, candidates=3)
    assert first.asked == again.asked
    assert len({one for one in first.asked if len(one) == 1}) == 3


def test_fewer_candidates_than_shots_are_refused() -> None:
    with pytest.raises(PoolTooSmall, match="query q: 1 candidates are tried for 2 shots"):
        found(Likelihoods(), candidates=1)
