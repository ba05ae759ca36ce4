"""What proves the numerics: small policies in double precision, all of whose pointers can be gone through."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.learning.losses import exact_kl, grpo_loss, k3, rce_loss, sft_loss, step_log_probs
from tests.lever.small_policies import Problem, all_pointers, problem, small_selector

NETWORKS = [
    pytest.param({"layers": 0}, id="bi-encoder"),
    pytest.param({"layers": 2, "heads": 2}, id="two layers of two heads"),
    pytest.param({"gate": False}, id="no gate"),
]


def _gradients(loss: Tensor, selector: PointerSelector) -> list[Tensor]:
    weights = list(selector.parameters())
    return list(torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True, materialize_grads=True))


def _all_log_probs(selector: PointerSelector, given: Problem, *, shots: int) -> Tensor:
    """(B, all ordered pointers)."""
    pointers = all_pointers(given.pool.shape[1], shots, queries=len(given.query))
    return selector.log_probs(*given, pointers).sum(-1)


@pytest.mark.parametrize("shots", [1, 2, 3])
@pytest.mark.parametrize("config", NETWORKS)
def test_probabilities_of_all_ordered_pointers_sum_to_one(config: dict[str, Any], shots: int):
    log_probs = _all_log_probs(small_selector(**config), problem(), shots=shots)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2).double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", NETWORKS)
def test_teacher_forcing_gives_the_sampler_its_own_log_probabilities(config: dict[str, Any]):
    selector, (query, pool) = small_selector(**config), problem(candidates=7)
    drawn = selector.sample(query, pool, shots=3, draws=12, temperature=1.3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(selector.log_probs(query, pool, drawn.pointers), drawn.log_probs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", NETWORKS)
@pytest.mark.parametrize("width", [6, 9, 50])
def test_a_beam_as_wide_as_the_pool_finds_the_best_pairs_of_all(config: dict[str, Any], width: int):
    selector, given = small_selector(**config), problem(candidates=6)
    best = _all_log_probs(selector, given, shots=2).sort(descending=True)
    found = selector.beam(*given, shots=2, width=width)
    expected = all_pointers(6, 2, queries=2).gather(1, best.indices[:, :width, None].expand(-1, -1, 2))
    assert found.pointers[:, 0].equal(expected[:, 0])  # of all widths; the others only where nothing is cut off
    if width == 50:
        assert found.pointers.equal(expected)
    torch.testing.assert_close(found.log_probs.sum(-1)[:, 0], best.values[:, 0], rtol=0, atol=1e-12)


def test_a_beam_of_one_misses_the_best_pair_where_the_likeliest_first_pick_leads_nowhere():
    selector = small_selector(layers=0, hidden=2, temperature=0.5)
    with torch.no_grad():
        selector.input_proj.weight.zero_()[:, :2] = torch.eye(2)
        selector.query_proj.weight.copy_(torch.eye(2))
        selector.cand_proj.weight.copy_(torch.eye(2))
        selector.query_update_gate.weight.zero_()
        selector.query_update_gate.bias.fill_(-50.0)  # the state becomes what was picked
    angles = torch.tensor([0.0, 0.5, 2.6, -0.55, -0.6], dtype=torch.float64)  # the query, then candidates
    vectors = torch.zeros(5, 12, dtype=torch.float64)
    vectors[:, 0], vectors[:, 1] = angles.cos(), angles.sin()
    query, pool = vectors[:1], vectors[None, 1:]
    exhaustive = _all_log_probs(selector, Problem(query, pool), shots=2).max().item()
    narrow = selector.beam(query, pool, shots=2, width=1)
    wide = selector.beam(query, pool, shots=2, width=4)
    assert narrow.pointers[0, 0, 0] == 0  # nearest to the query, with nothing near itself
    assert narrow.log_probs.sum().item() < exhaustive - 0.1
    assert wide.pointers[0, 0].tolist() in ([2, 3], [3, 2])
    assert wide.log_probs[0, 0].sum().item() == pytest.approx(exhaustive)


@pytest.mark.parametrize("config", NETWORKS)
def test_the_on_policy_gradient_is_that_of_the_expected_reward(config: dict[str, Any]):
    selector, given = small_selector(**config), problem()
    new = _all_log_probs(selector, given, shots=2)  # (2, 20)
    reward = torch.rand(new.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = _gradients((new.exp() * reward).sum(-1).mean(), selector)
    # each pointer stands for its share of the draws: the mean over the group becomes an expectation
    share = new.detach().exp() * new.shape[1]
    baseline = reward.mean(-1, keepdim=True)
    surrogate = grpo_loss(new, new.detach(), new.detach(), share * (reward - baseline), beta=0.0).loss
    for found, wanted in zip(_gradients(-surrogate, selector), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_in_the_mean_over_draws_of_the_policy_k3_is_the_divergence():
    policy, reference, given = small_selector(0), small_selector(1), problem()
    new, ref = _all_log_probs(policy, given, shots=2), _all_log_probs(reference, given, shots=2)
    divergence = (new.exp() * (new - ref)).sum(-1)
    assert (k3(new, ref) >= 0).all()
    assert divergence.min() > 0.01
    torch.testing.assert_close((new.exp() * k3(new, ref)).sum(-1), divergence, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shots", [1, 2, 3])
@pytest.mark.parametrize("config", NETWORKS)
def test_the_chain_rule_gives_the_divergence_of_whole_pointers(config: dict[str, Any], shots: int):
    policy, reference, given = small_selector(0, **config), small_selector(1, **config), problem()
    new, ref = _all_log_probs(policy, given, shots=shots), _all_log_probs(reference, given, shots=shots)
    levels = [step_log_probs(each, each.encode(*given), shots=shots) for each in (policy, reference)]
    found = exact_kl(*levels)
    torch.testing.assert_close(found.kl, (new.exp() * (new - ref)).sum(-1), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.entropy, -(new.exp() * new).sum(-1), rtol=0, atol=1e-12)
    expected = _gradients((new.exp() * (new - ref)).sum(), policy)
    for one, wanted in zip(_gradients(found.kl.sum(), policy), expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("config", NETWORKS)
def test_another_order_of_the_pool_is_another_order_of_the_answer(config: dict[str, Any]):
    selector, (query, pool) = small_selector(**config), problem(candidates=6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    place = order.argsort()  # old position → new position
    pointers = all_pointers(6, 2, queries=2)
    torch.testing.assert_close(
        selector.log_probs(query, pool[:, order], place[pointers]),
        selector.log_probs(query, pool, pointers),
        rtol=0,
        atol=1e-12,
    )
    beams = [selector.beam(query, each, shots=2, width=4).pointers for each in (pool[:, order], pool)]
    assert beams[0].equal(place[beams[1]])


@pytest.mark.parametrize("config", NETWORKS)
def test_padding_a_pool_changes_nothing(config: dict[str, Any]):
    selector, (query, pool) = small_selector(**config), problem()
    padded = torch.cat([pool, 9 * torch.randn(2, 4, 12, generator=torch.Generator().manual_seed(3)).double()], dim=1)
    usable = (torch.arange(9) < 5).expand(2, -1)
    pointers = all_pointers(5, 2, queries=2)
    plain = selector.log_probs(query, pool, pointers)
    with_padding = selector.log_probs(query, padded, pointers, usable)
    torch.testing.assert_close(with_padding, plain, rtol=0, atol=1e-12)
    for found, wanted in zip(
        _gradients(with_padding.square().sum(), selector), _gradients(plain.square().sum(), selector), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    beams = [
        selector.beam(query, pool, shots=3, width=7),
        selector.beam(query, padded, shots=3, width=7, usable=usable),
    ]
    assert beams[0].pointers.equal(beams[1].pointers)


def test_weighted_imitation_becomes_that_of_the_best_and_that_of_all():
    selector, given = small_selector(), problem()
    pointers = all_pointers(5, 2, queries=2)[:, ::4]  # 5 of each query
    steps = selector.log_probs(*given, pointers)
    log_probs, rewards = steps.sum(-1), torch.tensor([[0.3, 2, 1, 0, 0.6], [1, 0, 0, 1.6, 1.3]]).double()
    best = sft_loss(torch.stack([steps[0, 1], steps[1, 3]]))
    assert rce_loss(log_probs, rewards, temperature=1e-3).item() == pytest.approx(best.item(), abs=1e-12)
    uniform = -log_probs.mean()
    assert rce_loss(log_probs, rewards, temperature=1e9).item() == pytest.approx(uniform.item(), abs=1e-8)
