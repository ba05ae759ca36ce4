"""The pointer network: what it computes, whatever way it is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from models.pointer import PointerConfig, PointerSelector, PoolAttention
from tests.benchmarks.peers.straightforward_pointer import StraightforwardPointer
from tests.lever.small_policies import all_pointers, problem, small_selector

CONFIGS = [
    pytest.param({"layers": 0}, id="bi-encoder"),
    pytest.param({"layers": 1}, id="one layer"),
    pytest.param({"layers": 3, "heads": 4}, id="three layers of four heads"),
    pytest.param({"layers": 1, "gate": False}, id="no gate"),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_it_computes_what_the_straightforward_network_does_one_pointer_at_a_time(config: dict[str, Any]):
    ours = small_selector(**config)
    theirs = StraightforwardPointer(ours.config).double()
    theirs.load_state_dict(ours.state_dict())
    query, pool = problem(candidates=6)
    pointers = all_pointers(6, 3, queries=2)[:, ::7]
    found = ours.log_probs(query, pool, pointers)
    expected = torch.stack([theirs(query, pool, one) for one in pointers.unbind(1)], dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
def test_many_queries_at_once_are_read_as_each_alone(config: dict[str, Any]):
    selector, (query, pool) = small_selector(**config), problem(queries=8)
    pointers = all_pointers(5, 2, queries=8)
    alone = [selector.log_probs(query[one : one + 1], pool[one : one + 1], pointers[:1]) for one in range(8)]
    torch.testing.assert_close(selector.log_probs(query, pool, pointers), torch.cat(alone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
def test_its_gradients_are_those_of_the_straightforward_network(config: dict[str, Any]):
    ours = small_selector(**config)
    theirs = StraightforwardPointer(ours.config).double()
    theirs.load_state_dict(ours.state_dict())
    query, pool = problem(candidates=6)
    pointers = all_pointers(6, 2, queries=2)[:, ::3]
    ours.log_probs(query, pool, pointers).sum(-1).square().sum().backward()
    theirs.grouped(query, pool, pointers).square().sum().backward()
    expected = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_absorbed_attention_is_multi_head_attention_with_padding_and_dropout(heads: int, training: bool):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, heads, dropout=0.4, batch_first=True).double().train(training)
    nn.init.normal_(theirs.in_proj_bias)
    ours = PoolAttention(16, heads=heads, dropout=0.4).double().train(training)
    ours.load_state_dict(theirs.state_dict())
    state, pool = torch.randn(3, 16).double(), torch.randn(3, 7, 20).double()
    usable = torch.arange(7) < torch.tensor([[7], [4], [1]])
    projection = torch.randn(16, 20).double()
    torch.manual_seed(1)
    found = ours(state, pool, usable, projection=projection)
    torch.manual_seed(1)
    candidates = pool @ projection.T
    expected, _ = theirs(state[:, None], candidates, candidates, key_padding_mask=~usable, need_weights=True)
    torch.testing.assert_close(found, expected[:, 0], rtol=0, atol=1e-12)


def test_weights_have_the_names_of_the_published_checkpoints():
    config = PointerConfig(embedding_dim=512, layers=2)
    shapes = {name: tuple(weight.shape) for name, weight in PointerSelector(config).state_dict().items()}
    layer = {
        "in_proj_weight": (768, 256),
        "in_proj_bias": (768,),
        "out_proj.weight": (256, 256),
        "out_proj.bias": (256,),
    }
    assert shapes == {
        "input_proj.weight": (256, 512),
        **{f"cross_attn_layers.{n}.{name}": shape for n in range(2) for name, shape in layer.items()},
        **{f"attn_norms.{n}.{name}": (256,) for n in range(2) for name in ("weight", "bias")},
        "query_proj.weight": (256, 256),
        "cand_proj.weight": (256, 256),
        "query_update_gate.weight": (256, 512),
        "query_update_gate.bias": (256,),
    }


def test_without_a_gate_the_second_pick_is_the_first_without_what_was_taken():
    selector, (query, pool) = small_selector(gate=False), problem()
    first, second = selector.log_probs(query, pool, torch.tensor([[[0, 1]], [[3, 2]]]))[:, 0].unbind(-1)
    alone = selector.log_probs(query, pool, torch.tensor([[[1]], [[2]]]))[:, 0, 0]
    torch.testing.assert_close(second, alone - torch.log1p(-first.exp()))


def test_with_a_gate_the_second_pick_depends_on_the_first():
    selector, (query, pool) = small_selector(), problem()
    odds = selector.log_probs(query, pool, torch.tensor([[[0, 2], [0, 3], [1, 2], [1, 3]]] * 2))[..., 1]
    assert ((odds[:, 0] - odds[:, 1]) - (odds[:, 2] - odds[:, 3])).abs().min() > 1e-3


def test_a_bi_encoder_compares_two_candidates_whatever_else_is_in_the_pool():
    selector, (query, pool) = small_selector(layers=0), problem()
    other = pool.clone()
    other[:, 4] = -3 * pool[:, 4]
    odds = [selector.log_probs(query, each, torch.tensor([[[0], [1]]] * 2))[..., 0].diff() for each in (pool, other)]
    torch.testing.assert_close(odds[0], odds[1])


def test_a_taken_or_padded_position_has_no_probability():
    selector, (query, pool) = small_selector(), problem()
    usable = torch.tensor([[True, True, True, False, False]] * 2)
    log_probs = selector.log_probs(query, pool, torch.tensor([[[0, 0], [0, 3], [0, 1]]] * 2), usable)
    assert log_probs[..., 1].isneginf().tolist() == [[True, True, False]] * 2


def test_the_same_generator_draws_the_same_pointers():
    selector, (query, pool) = small_selector(), problem()
    drawn = [
        selector.sample(
            query, pool, shots=3, draws=20, temperature=1.3, generator=torch.Generator().manual_seed(seed)
        ).pointers
        for seed in (5, 5, 6)
    ]
    assert drawn[0].equal(drawn[1])
    assert not drawn[0].equal(drawn[2])


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_draws_have_the_frequencies_of_the_flattened_policy(temperature: float):
    selector, (query, pool) = small_selector(gate=False), problem(queries=1, candidates=4)
    drawn = selector.sample(
        query, pool, shots=1, draws=20_000, temperature=temperature, generator=torch.Generator().manual_seed(0)
    )
    log_probs = selector.log_probs(query, pool, torch.arange(4).view(1, 4, 1))[0, :, 0]
    expected = torch.softmax(log_probs / temperature, dim=0)
    found = drawn.pointers.flatten().bincount(minlength=4) / 20_000
    assert ((found - expected).abs() < 4 * (expected * (1 - expected) / 20_000).sqrt()).all()


def test_greedy_takes_the_likeliest_at_each_pick():
    selector, (query, pool) = small_selector(), problem()
    state, keys, usable = selector.encode(query, pool)
    first = selector.step(state[:, None], keys, ~usable[:, None]).argmax(-1)
    blocked = torch.zeros(2, 1, 5, dtype=torch.bool).scatter(-1, first[..., None], True)
    second = selector.step(selector.advance(state[:, None], keys, first), keys, blocked).argmax(-1)
    assert selector.greedy(query, pool, shots=2).equal(torch.cat([first, second], dim=1))


def test_padding_takes_no_beam_from_a_query():
    selector, (query, pool) = small_selector(), problem(candidates=4)
    usable = torch.tensor([[True] * 4, [True, True, False, False]])
    found = selector.beam(query, pool, shots=2, width=5, usable=usable)
    assert found.pointers.shape == (2, 2, 2)
    assert found.log_probs.isfinite().all()
    alone = selector.beam(query[:1], pool[:1], shots=2, width=5)
    assert found.pointers[0].equal(alone.pointers[0, :2])


@pytest.mark.parametrize("way", ["sample", "beam", "greedy"])
def test_generation_drops_nothing_and_leaves_the_mode(way: str):
    selector, (query, pool) = small_selector(dropout=0.5, attention_dropout=0.5), problem()
    ways = {
        "sample": lambda: (
            selector.sample(
                query, pool, shots=2, draws=4, temperature=1.0, generator=torch.Generator().manual_seed(0)
            ).pointers
        ),
        "beam": lambda: selector.beam(query, pool, shots=2, width=4).pointers,
        "greedy": lambda: selector.greedy(query, pool, shots=2),
    }
    expected = ways[way]()
    selector.train()
    assert ways[way]().equal(expected)
    assert selector.training


def test_learning_drops_and_evaluation_does_not():
    selector, (query, pool) = small_selector(dropout=0.5), problem()
    pointers = all_pointers(5, 2, queries=2)
    spread = {
        mode: (selector.train(mode).log_probs(query, pool, pointers) - selector.log_probs(query, pool, pointers)).abs()
        for mode in (True, False)
    }
    assert spread[True].max() > 0.1
    assert spread[False].max() == 0


@pytest.mark.parametrize("candidates", [3, 9], ids=["few vectors", "many vectors"])
def test_it_drops_what_the_straightforward_network_does(candidates: int):
    ours, (query, pool) = small_selector(dropout=0.5).train(), problem(candidates=candidates)
    theirs = StraightforwardPointer(ours.config).double().train()
    theirs.load_state_dict(ours.state_dict())
    pointers = all_pointers(candidates, 2, queries=2)
    torch.manual_seed(7)
    found = ours.log_probs(query, pool, pointers).sum(-1)
    torch.manual_seed(7)
    torch.testing.assert_close(found, theirs.grouped(query, pool, pointers), rtol=0, atol=1e-12)


def test_half_precision_gives_log_probabilities_in_full():
    selector, (query, pool) = small_selector().float(), problem()
    pointers = all_pointers(5, 2, queries=2)
    full = selector.log_probs(query.float(), pool.float(), pointers)
    with torch.autocast("cpu", torch.bfloat16):
        half = selector.log_probs(query.float(), pool.float(), pointers)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, full, rtol=0, atol=0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"query": torch.zeros(2, 9)}, "width 9", id="query of another encoder"),
        pytest.param({"pool": torch.zeros(2, 5, 9)}, "use the embeddings of the encoder", id="pool of another encoder"),
        pytest.param({"pool": torch.zeros(3, 5, 12)}, r"must be \(B, d\), \(B, K, d\)", id="other number of pools"),
        pytest.param({"pointers": torch.tensor([[[0, 5]]] * 2)}, "positions 0 to 4", id="beyond the pool"),
        pytest.param({"pointers": torch.tensor([[[-1, 0]]] * 2)}, "from -1", id="before the pool"),
        pytest.param({"pointers": torch.zeros(2, 1, 6).long()}, "6 picks from a pool of 5", id="more picks than pool"),
        pytest.param({"pointers": torch.zeros(2, 1, 0).long()}, "0 picks", id="no pick"),
        pytest.param({"usable": torch.tensor([[True] + [False] * 4] * 2)}, "2 picks from a pool of 1", id="padding"),
    ],
)
def test_what_cannot_be_scored_is_named(arguments: dict[str, Any], words: str):
    query, pool = problem()
    given = {"query": query, "pool": pool, "pointers": torch.tensor([[[0, 1]]] * 2)} | arguments
    with pytest.raises(ValueError, match=words):
        small_selector().log_probs(**given)


def test_heads_must_share_the_width():
    with pytest.raises(ValueError, match="3 heads cannot share a width of 256"):
        PointerConfig(heads=3)
