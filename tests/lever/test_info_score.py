"""The search for demonstrations that make the right answer likelier, with likelihoods worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tasks.lever.data.beam_search import count_weighed, search
from tasks.lever.judge.judging import Asked
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


def found(judge: Any, *, shots: int = 2, screened: bool = True, **settings: int) -> list[PointerRecord]:
    chosen = BeamSettings.model_validate(settings)
    best = search([QUERY], POOLS, judge, shots=shots, settings=chosen, screened=screened, seed=0)
    return list(best["q"])


def test_the_best_sequence_comes_first_with_its_gain() -> None:
    best = found(Likelihoods(none=0.1, a=0.3, b=0.2, ab=0.5, ba=0.9), width=2)
    assert [one.pointer for one in best] == [(1, 0), (0, 1)]
    assert [one.beam_score for one in best] == pytest.approx([0.8, 0.4])
    assert [one.beam_rank for one in best] == [0, 1]


def test_the_better_half_goes_behind_the_best_and_what_helps_there_is_tried_elsewhere() -> None:
    judge = Likelihoods(a=0.5, b=0.4, c=0.3, d=0.2, ab=0.6)
    found(judge, width=2)
    assert judge.asked == ["", "a", "b", "c", "d", "ab", "ba"]


def test_without_screening_every_kept_sequence_grows_by_every_candidate() -> None:
    judge = Likelihoods(a=0.5, b=0.4, c=0.3, d=0.2, bd=0.9)
    assert found(judge, width=2, screened=False)[0].pointer == (1, 3)
    assert sorted(judge.asked[5:]) == ["ab", "ac", "ad", "ba", "bc", "bd"]


@pytest.mark.parametrize("shots", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("screened", [True, False], ids=["screened", "all"])
def test_no_sequence_is_weighed_twice_none_repeats_a_candidate_and_as_many_are_as_were_counted(
    width: int, shots: int, screened: bool
) -> None:
    judge = Likelihoods(a=0.3, b=0.2, ab=0.5, cb=0.4, abd=0.6)
    found(judge, width=width, shots=shots, screened=screened)
    assert all(len(set(one)) == len(one) for one in judge.asked)
    counted = count_weighed(BeamSettings(width=width), queries=1, pool=4, shots=shots, screened=screened)
    assert len(judge.asked) == len(set(judge.asked))
    assert {shown: sum(len(one) == shown for one in judge.asked) for shown in counted} == counted
