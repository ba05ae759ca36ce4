"""Pointers that a selector proposes for RL data: distinct, by priority, with the log-probabilities it gives them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.rl_data import count_prompts, draw_pointers, find_beams, judge_pointers
from tasks.lever.judge.judging import Judgment, PromptedQuery
from tasks.lever.lever_options import BeamSettings, RlDataSettings
from tasks.lever.lever_records import PointerRecord, PoolRecipe, Pools, VqaItem

K, D = 6, 8


@pytest.fixture
def selector() -> PointerSelector:
    torch.manual_seed(0)
    return PointerSelector(PointerConfig(embedding_dim=D, hidden=16, layers=1)).eval()


def drawn(
    selector: PointerSelector, *, queries: int = 3, shots: int = 2, seed: int = 0, **settings: object
) -> list[list[PointerRecord]]:
    made = torch.Generator().manual_seed(5)
    found = draw_pointers(
        selector,
        [f"q{number}" for number in range(queries)],
        queries=torch.randn(queries, D, generator=made),
        pools=torch.randn(queries, K, D, generator=made),
        shots=shots,
        settings=RlDataSettings.model_validate(settings),
        generator=torch.Generator().manual_seed(seed),
    )
    return list(found.values())


def test_a_query_gets_beams_then_samples_then_random_pointers(selector: PointerSelector) -> None:
    for query in drawn(selector):
        methods = [record.gen_method for record in query]
        assert methods[:5] == ["beam"] * 5
        assert methods == sorted(methods, key=["beam", "sample", "random"].index)
        assert len(methods) == 10


def test_the_sum_over_all_pointers_of_what_the_policy_thought_is_one(selector: PointerSelector) -> None:
    [query] = drawn(selector, queries=1, random=math.perm(K, 2))
    assert math.fsum(math.exp(record.behaviour_logp or 0) for record in query) == pytest.approx(1, abs=1e-5)


def test_retrieval_shows_the_most_similar_last(selector: PointerSelector) -> None:
    made = torch.Generator().manual_seed(5)
    query, pool = torch.randn(1, D, generator=made), torch.randn(1, K, D, generator=made)
    settings = RlDataSettings(beams=0, samples=0, random=0, retrieval=True)
    [found] = draw_pointers(
        selector, ["q"], queries=query, pools=pool, shots=2, settings=settings, generator=torch.Generator()
    ).values()
    similar = (pool[0] @ query[0]).argsort().tolist()
    assert found[0].pointer == tuple(similar[-2:])
    assert found[0].gen_method == "retrieval"


class Judge:
    """Answers `right` to pointers that show `c0` first, is away for those that show `c1`, and cannot show `c2`."""

    threshold = 0.5

    def judge(self, asked: list[PromptedQuery]) -> list[Judgment]:
        told = {
            "c0": Judgment("right", 1, 0.9, None),
            "c1": Judgment(None, None, None, "the server is away", retryable=True),
            "c2": Judgment(None, None, None, "the picture is damaged"),
        }
        return [told[one.demonstrations[0]] for one in asked]


def test_a_failure_is_a_record_and_only_what_may_get_better_is_asked_again() -> None:
    pools = Pools(recipe=PoolRecipe(sampler="RandSampler", size=3), seed=0, pools={"q": ("c0", "c1", "c2")})
    pointers = tuple(PointerRecord(pointer=(at, (at + 1) % 3), gen_method="random") for at in range(3))
    found, retryable = judge_pointers({"q": pointers}, pools, Judge())  # pyright: ignore[reportArgumentType]
    right, away, damaged = found["q"]
    assert (right.vqa_pred_answer, right.vqa_correct, right.vqa_acc_score, right.status) == ("right", 1, 0.9, "judged")
    assert (away.status, away.vqa_correct, away.reason) == ("eval_failed", None, "the server is away")
    assert damaged.status == "eval_failed"
    assert retryable == {"query q, pointer [1, 2]": "the server is away"}


POOLS = Pools(recipe=PoolRecipe(sampler="RandSampler", size=4), seed=0, pools={"q": ("a", "b", "c", "d")})
QUERY = VqaItem(id="q", image_id="1", image="1.png", image_sha256="0" * 64, question="?", answers=("yes", "no", "yes"))


class Likelihoods:
    """Of the right answer, by what is shown; .01 for all else."""

    def __init__(self, **given: float) -> None:
        self.given = given
        self.asked: list[str] = []

    def answer_log_probs(self, asked: list[PromptedQuery]) -> list[float]:
        self.asked += ["".join(one.demonstrations) for one in asked]
        return [math.log(self.given.get("".join(one.demonstrations) or "none", 0.01)) for one in asked]


def found(judge: Any, *, shots: int = 2, **settings: int) -> list[PointerRecord]:
    chosen = BeamSettings.model_validate(settings)
    best = find_beams([QUERY], POOLS, judge, shots=shots, settings=chosen, seed=0)
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


@pytest.mark.parametrize("shots", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_no_sequence_is_weighed_twice_none_repeats_a_candidate_and_as_many_are_as_were_counted(
    width: int, shots: int
) -> None:
    judge = Likelihoods(a=0.3, b=0.2, ab=0.5, cb=0.4, abd=0.6)
    found(judge, width=width, shots=shots)
    assert all(len(set(one)) == len(one) for one in judge.asked)
    counted = count_prompts(BeamSettings(width=width), queries=1, pool=4, shots=shots)
    assert len(judge.asked) == len(set(judge.asked))
    assert {shown: sum(len(one) == shown for one in judge.asked) for shown in counted} == counted
