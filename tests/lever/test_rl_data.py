"""Pointers that a selector proposes for RL data: distinct, by priority, with the log-probabilities it gives them."""

from __future__ import annotations

import math

import pytest
import torch

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.rl_data import draw, judge_all
from tasks.lever.judge.judging import Asked, Judgment
from tasks.lever.lever_options import RlDataSettings
from tasks.lever.lever_records import PointerRecord, PoolRecipe, Pools

K, D = 6, 8


@pytest.fixture
def selector() -> PointerSelector:
    torch.manual_seed(0)
    return PointerSelector(PointerConfig(embedding_dim=D, hidden=16, layers=1)).eval()


def drawn(
    selector: PointerSelector, *, queries: int = 3, shots: int = 2, seed: int = 0, **settings: object
) -> list[list[PointerRecord]]:
    made = torch.Generator().manual_seed(5)
    found = draw(
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
    [found] = draw(
        selector, ["q"], queries=query, pools=pool, shots=2, settings=settings, generator=torch.Generator()
    ).values()
    similar = (pool[0] @ query[0]).argsort().tolist()
    assert found[0].pointer == tuple(similar[-2:])
    assert found[0].gen_method == "retrieval"


class Judge:
    """Answers `right` to pointers that show `c0` first, is away for those that show `c1`, and cannot show `c2`."""

    threshold = 0.5

    def judge(self, asked: list[Asked]) -> list[Judgment]:
        told = {
            "c0": Judgment("right", 1, 0.9, None),
            "c1": Judgment(None, None, None, "the server is away", retryable=True),
            "c2": Judgment(None, None, None, "the picture is damaged"),
        }
        return [told[one.demonstrations[0]] for one in asked]


def test_a_failure_is_a_record_and_only_what_may_get_better_is_asked_again() -> None:
    pools = Pools(recipe=PoolRecipe(sampler="RandSampler", size=3), seed=0, pools={"q": ("c0", "c1", "c2")})
    pointers = tuple(PointerRecord(pointer=(at, (at + 1) % 3), gen_method="random") for at in range(3))
    found, retryable = judge_all({"q": pointers}, pools, Judge())  # pyright: ignore[reportArgumentType]
    right, away, damaged = found["q"]
    assert (right.vqa_pred_answer, right.vqa_correct, right.vqa_acc_score, right.status) == ("right", 1, 0.9, "judged")
    assert (away.status, away.vqa_correct, away.reason) == ("eval_failed", None, "the server is away")
    assert damaged.status == "eval_failed"
    assert retryable == {"query q, pointer [1, 2]": "the server is away"}
