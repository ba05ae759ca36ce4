"""Our GRPO loss beside TRL's, in value and gradient, on a trainer that has nothing but the loss.

TRL's ratio of a sequence is exp of the *mean* of its log-ratios (GSPO), its divergence the mean of k3 over the tokens;
ours are those of the sum. Given the means instead of the sums, both must agree.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tasks.lever.learning.losses import GrpoLoss, advantages, grpo_loss, k3

pytestmark = [pytest.mark.peers, pytest.mark.slow]

QUERIES, GROUP, CLIP = 3, 5, 0.2


@pytest.fixture(scope="module")
def trainer_class() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the libraries that it imports
        pytest.importorskip("trl", reason="trl is not installed: pip install -e '.[dev]'")
        from trl.trainer.grpo_trainer import GRPOTrainer  # pyright: ignore[reportMissingImports]
    return GRPOTrainer


@pytest.mark.parametrize("beta", [0.0, 0.04, 1.0])
@pytest.mark.parametrize("picks", [1, 2, 4])
def test_loss_and_gradient_are_those_of_trl(trainer_class: Any, picks: int, beta: float):
    draw = 0.3 * torch.randn(3, QUERIES, GROUP, picks, generator=torch.Generator().manual_seed(picks)).double()
    new, old, ref = draw[0] - 1, draw[1] - 1, draw[2] - 1
    rewards = torch.randint(0, 4, (QUERIES, GROUP), generator=torch.Generator().manual_seed(1)).double()
    advantage = advantages(rewards)
    ours_new, theirs_new = new.clone().requires_grad_(), new.clone().requires_grad_()

    ours = _ours(ours_new, old, ref, advantage, beta=beta)
    theirs, metrics = _theirs(trainer_class, theirs_new, old, ref, advantage, beta=beta)
    ours.loss.backward()
    theirs.backward()

    assert ours.clip_fraction.item() > 0.1  # clipping takes part
    assert ours.loss.item() == pytest.approx(theirs.item(), rel=1e-12)
    torch.testing.assert_close(ours_new.grad, theirs_new.grad, rtol=0, atol=1e-12)
    assert metrics["clip_ratio/region_mean"] == [pytest.approx(ours.clip_fraction.item())]
    if beta:
        assert metrics["kl"] == [pytest.approx(ours.kl.item())]


def test_members_that_do_not_count_are_as_if_trl_had_never_seen_them(trainer_class: Any):
    draw = 0.3 * torch.randn(3, QUERIES, GROUP, 1, generator=torch.Generator().manual_seed(0)).double()
    new, old, ref = draw[0].requires_grad_(), draw[1], draw[2]
    rewards = torch.randint(0, 4, (QUERIES, GROUP), generator=torch.Generator().manual_seed(1)).double()
    judged = (torch.arange(GROUP) < GROUP - 1).expand(QUERIES, -1)
    advantage = advantages(rewards, judged=judged)
    ours = grpo_loss(new[..., 0], old[..., 0], ref[..., 0], advantage, beta=0.1, judged=judged).loss
    theirs, _ = _theirs(trainer_class, new[:, :-1], old[:, :-1], ref[:, :-1], advantage[:, :-1], beta=0.1)
    (found,), (expected,) = torch.autograd.grad(ours, new), torch.autograd.grad(theirs, new)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def _ours(new: Tensor, old: Tensor, ref: Tensor, advantage: Tensor, *, beta: float) -> GrpoLoss:
    """Of log-probabilities (B, G, S) of picks, by TRL's convention: means, not sums."""
    return grpo_loss(
        new.mean(-1), old.mean(-1), ref.mean(-1), advantage, clip=CLIP, beta=beta, exact_kl=k3(new, ref).mean()
    )


def _theirs(
    trainer_class: Any, new: Tensor, old: Tensor, ref: Tensor, advantage: Tensor, *, beta: float
) -> tuple[Tensor, dict[str, list[float]]]:
    """TRL's loss and what it logs, of the same numbers as rows of a batch (B · G, S)."""
    rows = {"new": new.flatten(0, 1), "old": old.flatten(0, 1), "ref": ref.flatten(0, 1)}
    metrics: dict[str, dict[str, list[float]]] = {"train": defaultdict(list)}
    trainer = SimpleNamespace(
        loss_type="grpo",
        importance_sampling_level="sequence",
        beta=beta,
        epsilon_low=CLIP,
        epsilon_high=CLIP,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False),
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        aux_loss_enabled=False,
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(gather=_same, gather_for_metrics=_same, reduce=lambda values, reduction: values),
        _entropy_bonus_enabled=False,
        _metrics=metrics,
        _get_per_token_logps_and_entropies=lambda *_, **__: (rows["new"], torch.zeros_like(rows["new"]), None),
    )
    tokens = torch.ones(rows["new"].shape, dtype=torch.int64)
    batch = {
        "prompt_ids": tokens[:, :1],
        "prompt_mask": tokens[:, :1],
        "completion_ids": tokens,
        "completion_mask": tokens,
        "advantages": advantage.flatten(),
        "old_per_token_logps": rows["old"],
        "ref_per_token_logps": rows["ref"],
    }
    loss = trainer_class._compute_loss(trainer, trainer.model, batch)
    return loss, metrics["train"]


def _same(values: Tensor) -> Tensor:
    return values
