"""A selector that begins as a rule: its first picks are the rule's own, and rewards lead it away from there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from models.pointer import PointerConfig, PointerSelector, rule_scores
from tasks.lever.data.embeddings import make_bank
from tasks.lever.learning.checkpoints import load_selector, save_selector
from tasks.lever.learning.choosing import choose_nearest
from tasks.lever.learning.losses import exact_kl, step_log_probs
from tasks.lever.learning.training_inputs import predict_greedily
from tasks.lever.learning.training_loop import TrainingRun
from tasks.lever.learning.trainings import learn_from_rule
from tasks.lever.lever_options import GrpoSettings
from tests.lever.small_policies import WIDTH, all_pointers, problem, small_selector
from tests.lever.small_trainings import CONFIG, SHOTS, feature_reward, small_groups


def test_the_first_picks_are_those_of_the_rule_even_where_candidates_hardly_differ() -> None:
    torch.manual_seed(0)
    queries = torch.nn.functional.normalize(torch.randn(40, 16), dim=-1)
    copies = queries.repeat_interleave(6, 0) + 10.0 ** -torch.arange(1, 7).repeat(40)[:, None] * torch.randn(240, 16)
    names = [f"c{number:03}" for number in range(240)]
    of_queries = make_bank([f"q{number}" for number in range(40)], queries, encoder="drawn", where="test")
    of_candidates = make_bank(names, copies, encoder="drawn", where="test")
    selector = PointerSelector(PointerConfig(embedding_dim=16, prior="similarity"))
    pools = {query: tuple(names) for query in of_queries.ids}
    chosen = predict_greedily(selector, of_queries, of_candidates, pools, shots=4)
    nearest = choose_nearest(of_queries.ids, names, (of_queries, of_candidates), shots=4)
    assert {query: prediction.demonstrations for query, prediction in chosen.items()} == nearest


@pytest.mark.parametrize(("size", "copies", "perplexity"), [(32, 1, 12), (8, 1, 6), (32, 20, 20)])
def test_the_first_pick_is_as_open_as_its_perplexity_or_as_there_are_copies(
    size: int, copies: int, perplexity: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    pool = torch.nn.functional.normalize(torch.randn(1, size, 64, generator=generator, dtype=torch.float64), dim=-1)
    pool[:, :copies] = pool[:, :1] + 1e-6 * pool[:, :copies]
    scores = rule_scores(pool[:, 0], pool, torch.ones(1, size, dtype=torch.bool), perplexity=12.0)
    entropy = torch.distributions.Categorical(logits=scores).entropy()
    assert math.exp(entropy.item()) == pytest.approx(perplexity, rel=0.02)


@pytest.mark.parametrize("gate", [True, False])
def test_probabilities_sum_to_one_and_the_divergence_from_the_rule_begins_at_zero(gate: bool) -> None:
    rule, learned = (small_selector(prior="similarity", gate=gate) for _ in range(2))
    given = problem()
    log_probs = rule.log_probs(*given, all_pointers(5, 2, queries=2)).sum(-1)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2).double(), rtol=0, atol=1e-12)
    begun = [step_log_probs(one, one.encode(*given), shots=2) for one in (learned, rule)]
    assert exact_kl(*begun).kl.equal(torch.zeros(2).double())
    torch.nn.init.normal_(learned.departure.weight)
    moved = [step_log_probs(one, one.encode(*given), shots=2) for one in (learned, rule)]
    assert (exact_kl(*moved).kl > 0).all()


def test_rewards_alone_lead_it_away_from_the_rule() -> None:
    groups = small_groups(queries=40, dtype=torch.float32)._replace(judged=torch.zeros(40, 4, dtype=torch.bool))
    config = CONFIG.model_copy(update={"prior": "similarity"})
    settings = GrpoSettings(rounds=12, draws=8, batch_size=20, lr=2e-2, beta=0.0, adapt_beta=False)

    def rewards_of(pointers: torch.Tensor) -> torch.Tensor:
        return feature_reward(groups, pointers)

    def judge(drawn: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        pointers = torch.tensor([pointer for _, pointer in drawn]).view(40, -1, SHOTS)
        return rewards_of(pointers).flatten().tolist()

    def validate(selector: PointerSelector) -> float:
        chosen = selector.greedy(groups.queries, groups.bank[groups.pools], shots=SHOTS)
        return rewards_of(chosen[:, None]).mean().item()

    trained = learn_from_rule(config, groups, settings, TrainingRun(validate), judge=judge)
    assert trained.validation[trained.chosen_epoch] > trained.validation[0] + 0.15
    again = load_selector(save_selector(trained.selector, meta={}))
    assert validate(again) == trained.validation[trained.chosen_epoch]


def test_a_network_without_a_prior_has_the_header_and_weights_of_before() -> None:
    plain = PointerSelector(PointerConfig(embedding_dim=WIDTH))
    assert b"prior" not in save_selector(plain, meta={})
    assert not any("departure" in name for name in plain.state_dict())
