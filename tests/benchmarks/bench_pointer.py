"""The pointer network beside the straightforward one with the same weights, on one CPU thread.

Pools of 64 candidates of width 512, two picks, 32 queries at once. Both sides take turns in this process; figures are
medians of CPU seconds. That both compute the same is tests/models/test_pointer.py.

    generation    15 pointers of each query drawn, then 15 given ones scored; the other side does a forward of the batch
                  for each pointer
    grpo step     forward and backward over 16 pointers of each query, and the update; the other side reads each pool
                  once as well, but with nn.MultiheadAttention, and asks the reference in every step
    … exact KL    the same, with the divergence of all 4,032 ordered pointers of each pool instead of the estimate from
                  16 of them; the other side keeps to the estimate
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.learning.losses import advantages, exact_kl, grpo_loss, score_pointers
from tests.benchmarks.measuring import Figures, medians, take_turns
from tests.benchmarks.peers.straightforward_pointer import StraightforwardPointer

QUERIES, CANDIDATES, SHOTS = 32, 64, 2
DRAWS, GROUP = 15, 16


class Work(NamedTuple):
    """What both sides are given."""

    query: Tensor
    pool: Tensor
    pointers: Tensor
    """(B, G, S)"""
    advantage: Tensor
    """(B, G)"""


class Sides(NamedTuple):
    """Two networks with the same weights, and the reference that both must stay near."""

    ours: PointerSelector
    theirs: StraightforwardPointer
    reference: StraightforwardPointer


class Comparison(NamedTuple):
    """What both sides do."""

    task: str
    ours: Callable[[], object]
    theirs: Callable[[], object]


def measure(rounds: int = 15) -> Figures:
    """Medians of rounds in turn."""
    torch.set_num_threads(1)
    work = make_work()
    for layers in (1, 3):
        sides = make_sides(layers)
        for task, ours, theirs in comparisons(sides, work):
            for side in (ours, theirs):  # warms up
                side()
            ways = {"ours": lambda _, ours=ours: ours(), "theirs": lambda _, theirs=theirs: theirs()}
            for name, seconds in medians(take_turns(ways, rounds=rounds)).items():
                yield f"{task}, layers {layers}, {name}", seconds


def make_work() -> Work:
    """Random vectors and pointers."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(QUERIES, 512, generator=generator)
    pool = torch.randn(QUERIES, CANDIDATES, 512, generator=generator)
    pointers = torch.rand(QUERIES, GROUP, CANDIDATES, generator=generator).argsort(-1)[..., :SHOTS]
    rewards = torch.randint(0, 3, (QUERIES, GROUP), generator=generator).float()
    return Work(query, pool, pointers, advantages(rewards))


def make_sides(layers: int) -> Sides:
    """Of one architecture, as GRPO has them: nothing is dropped."""
    config = PointerConfig(layers=layers)
    torch.manual_seed(layers)
    ours, reference = PointerSelector(config).eval(), PointerSelector(config).eval()
    peers = [StraightforwardPointer(config).eval() for _ in range(2)]
    for peer, own in zip(peers, (ours, reference), strict=True):
        peer.load_state_dict(own.state_dict())
    return Sides(ours, *peers)


def comparisons(sides: Sides, work: Work) -> list[Comparison]:
    """What is measured of one architecture."""
    query, pool, advantage = work.query, work.pool, work.advantage
    given = work.pointers[:, :DRAWS]
    ours, theirs, reference = sides
    old = ours.log_probs(*work[:3]).sum(-1).detach()
    frozen = copy.deepcopy(ours)
    frozen.load_state_dict(reference.state_dict())
    with torch.no_grad():  # of fixed pools and pointers, once and for all
        known = score_pointers(frozen, *work[:3], exact=True)
    learners, peer = (copy.deepcopy(ours), copy.deepcopy(ours)), copy.deepcopy(theirs)
    updates = [torch.optim.AdamW(net.parameters(), lr=1e-5) for net in (*learners, peer)]

    @torch.no_grad()
    def generate_ours() -> None:
        ours.sample(query, pool, shots=SHOTS, draws=DRAWS, temperature=1.0, generator=torch.Generator())
        ours.log_probs(query, pool, given)

    @torch.no_grad()
    def generate_theirs() -> None:
        generator = torch.Generator()
        for pointer in given.unbind(1):
            theirs.draw(query, pool, SHOTS, generator)
            theirs(query, pool, pointer)

    def grpo_ours() -> None:
        new = learners[0].log_probs(*work[:3]).sum(-1)
        _update(updates[0], grpo_loss(new, old, known.log_probs, advantage, beta=0.1).loss)

    def grpo_exactly() -> None:
        new = score_pointers(learners[1], *work[:3], exact=True)
        kl = exact_kl(new.tables, known.tables).kl.mean()
        _update(updates[1], grpo_loss(new.log_probs, old, known.log_probs, advantage, beta=0.1, exact_kl=kl).loss)

    def grpo_theirs() -> None:
        with torch.no_grad():
            asked = reference.grouped(*work[:3])
        _update(updates[2], _plain_grpo(peer.grouped(*work[:3]), old, asked, advantage))

    return [
        Comparison("generation and log-probs", generate_ours, generate_theirs),
        Comparison("grpo step", grpo_ours, grpo_theirs),
        Comparison("grpo step, exact KL", grpo_exactly, grpo_theirs),
    ]


def _update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()


def _plain_grpo(new: Tensor, old: Tensor, ref: Tensor, advantage: Tensor) -> Tensor:
    ratio = (new - old).exp()
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    return -(surrogate - 0.1 * ((ref - new).exp() - (ref - new) - 1)).mean()
