"""Lever-Plus's trainer over our losses, for its own loaders. `learning.trainings` resumes and is judged."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader

from tasks.lever.compat.seed_selector import PointerSelectorV3, adaptive_kl_beta
from tasks.lever.learning.losses import linear_temperature
from tasks.lever.lever_errors import RewardUnusable

Batch = dict[str, Any]


@dataclass(eq=False)
class GRPOTrainer:
    """RCE, then GRPO, epoch by epoch, on batches of `collate_fn_rl_v3`."""

    model: PointerSelectorV3
    train_loader: DataLoader[Batch]
    val_loader: DataLoader[Batch]
    device: str | torch.device
    rce_epochs: int = 1
    rce_lr: float = 1e-5
    rce_temp_start: float = 2.0
    rce_temp_end: float = 0.5
    use_top1_only: bool = False
    grpo_epochs: int = 3
    grpo_lr: float = 5e-6
    grpo_early_epochs: int = 0
    grpo_early_top_k: int | None = None
    """The loss is taken over so many of each group; None: all of them."""
    grpo_late_top_k: int | None = None
    kl_target_min: float = 0.01
    kl_target_max: float = 0.1
    kl_adjustment_factor: float = 1.5
    gradient_clip: float = 1.0

    def __post_init__(self) -> None:
        self.model = self.model.to(self.device)

    def train(self) -> list[dict[str, float]]:
        """Both stages; the figures of each epoch. GRPO's ratios are taken to the policy that RCE has left."""
        optimizer = AdamW(self.model.parameters(), lr=self.rce_lr)
        found = [self.train_rce_epoch(optimizer, epoch, self.rce_epochs) for epoch in range(self.rce_epochs)]
        old = self.compute_old_log_probs(copy.deepcopy(self.model))
        optimizer = AdamW(self.model.parameters(), lr=self.grpo_lr)
        return found + [
            self.train_grpo_epoch(optimizer, old, epoch, self.grpo_epochs) for epoch in range(self.grpo_epochs)
        ]

    @torch.no_grad()
    def compute_old_log_probs(self, sft_model: PointerSelectorV3) -> dict[int | str, Tensor]:
        """Query id → (G,) log-probabilities of its pointers under `sft_model`."""
        found: dict[int | str, Tensor] = {}
        for batch in self._on_device(self.train_loader):
            log_probs = sft_model.compute_log_probs_per_beam(*_inputs(batch)).cpu()
            known = batch["judged"].cpu()
            found |= {query: log_probs[row][known[row]] for row, query in enumerate(batch["query_id"])}
        return found

    def train_rce_epoch(self, optimizer: Optimizer, epoch: int, total_epochs: int) -> dict[str, float]:
        """One pass; `rce_loss` is the mean over its batches. The temperature falls in a line over all epochs."""
        self.model.train()
        steps = total_epochs * len(self.train_loader)

        def figures(step: int, batch: Batch) -> dict[str, Tensor]:
            number = epoch * len(self.train_loader) + step
            loss = self.model.compute_rce_loss(
                *_inputs(batch),
                batch["beam_rewards_raw"],
                temperature=linear_temperature(number, steps, self.rce_temp_start, self.rce_temp_end),
                use_top1_only=self.use_top1_only,
                judged=batch["judged"],
            )
            return {"loss": loss}

        return {"rce_loss": self._epoch(optimizer, figures)["loss"]}

    def train_grpo_epoch(
        self, optimizer: Optimizer, old_log_probs_dict: Mapping[int | str, Tensor], epoch: int, total_epochs: int
    ) -> dict[str, float]:
        """One pass; `grpo_loss` and the other figures of `compute_grpo_loss`, the means over its batches."""
        del total_epochs
        self.model.train()
        top_k = self.grpo_early_top_k if epoch < self.grpo_early_epochs else self.grpo_late_top_k

        def figures(step: int, batch: Batch) -> dict[str, Tensor]:
            del step
            old = pad_sequence([old_log_probs_dict[query] for query in batch["query_id"]], batch_first=True)
            found = self.model.compute_grpo_loss(
                *_inputs(batch), batch["beam_rewards"], old.to(self.device), use_top_k=top_k, judged=batch["judged"]
            )
            targets = self.kl_target_min, self.kl_target_max, self.kl_adjustment_factor
            self.model.kl_beta = adaptive_kl_beta(found["kl"].item(), self.model.kl_beta, *targets)
            return found

        found = self._epoch(optimizer, figures)
        return {"grpo_loss": found.pop("loss"), **found}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """`val_loss`, the RCE loss at temperature 1. It tells nothing of the answers: do not choose epochs by it."""
        training = self.model.training
        self.model.eval()
        found = [
            self.model.compute_rce_loss(*_inputs(batch), batch["beam_rewards_raw"], judged=batch["judged"]).item()
            for batch in self._on_device(self.val_loader)
        ]
        self.model.train(training)
        return {"val_loss": _mean(found)}

    def _epoch(self, optimizer: Optimizer, figures: Callable[[int, Batch], dict[str, Tensor]]) -> dict[str, float]:
        """Descend along `loss` on every batch; the mean of each figure."""
        found: dict[str, list[float]] = {"loss": []}
        for step, batch in enumerate(self._on_device(self.train_loader)):
            optimizer.zero_grad()
            of_batch = figures(step, batch)
            of_batch["loss"].backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.gradient_clip)
            optimizer.step()
            for name, value in of_batch.items():
                found.setdefault(name, []).append(value.item())
        return {name: _mean(values) for name, values in found.items()}

    def _on_device(self, loader: Iterable[Batch]) -> Iterable[Batch]:
        for batch in loader:
            moved = {name: one.to(self.device) if isinstance(one, Tensor) else one for name, one in batch.items()}
            judged = torch.ones_like(moved["beam_rewards"], dtype=torch.bool)
            yield {"judged": judged, **moved}


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """(B, d), (B, K, d), (B, G, S)."""
    return batch["query_emb"], batch["cand_emb"], batch["beam_labels"]


def _mean(values: list[float]) -> float:
    if not values:
        raise RewardUnusable("the loader gave no batch: there is nothing to learn from")
    return sum(values) / len(values)
