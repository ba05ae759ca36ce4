"""Lever-Plus's trainer learns, from RL data to a network that prefers what was rewarded."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from tasks.lever import GRPOTrainer, RLBeamDatasetWithEmbedding, collate_fn_rl_v3
from tests.lever.seed_world import D, K, model, record, rows


def world(queries: int = 12) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    """RL data in which the candidates most like the query are the right ones; embeddings by row."""
    candidates, asked = rows(20, D), rows(queries, D, seed=2)
    order = torch.Generator().manual_seed(3)
    data: dict[str, Any] = {}
    for query in range(queries):
        pool = torch.randperm(20, generator=order)[:K]
        best = (candidates[pool] @ asked[query]).argsort(descending=True).tolist()
        pointers = [best[:2], best[1:3], best[2:4], best[:1:-1][:2]]
        scores = [(1, 1.0), (1, 0.6), (0, 0.3), (0, 0.0)]
        data[str(query)] = {
            "candidate_pool_ids": [f"c{row}" for row in pool.tolist()],
            "pointer_candidates": [record(one, *score) for one, score in zip(pointers, scores, strict=True)],
        }
    return data, asked, candidates


def loader(queries: int = 12, batch_size: int = 4) -> DataLoader[Any]:
    data, asked, candidates = world(queries)
    dataset = RLBeamDatasetWithEmbedding(data, asked, candidates, [f"c{row}" for row in range(20)])
    return DataLoader(dataset, batch_size=batch_size, collate_fn=collate_fn_rl_v3)


def trainer(**changes: Any) -> GRPOTrainer:
    return GRPOTrainer(model(dropout=0.0, attn_dropout=0.0), loader(), loader(), "cpu", **changes)


def best_likely(of: GRPOTrainer) -> float:
    """Mean log-probability of the best pointer of each query."""
    batch = next(iter(loader(batch_size=12)))
    log_probs = of.model.compute_log_probs_per_beam(batch["query_emb"], batch["cand_emb"], batch["beam_labels"])
    return log_probs[:, 0].mean().item()


def test_batches_carry_what_the_trainer_reads() -> None:
    batch = next(iter(loader()))
    shapes = {name: tuple(value.shape) for name, value in batch.items() if isinstance(value, torch.Tensor)}
    assert shapes == {
        "query_emb": (4, D),
        "cand_emb": (4, K, D),
        "beam_labels": (4, 4, 2),
        "beam_rewards_raw": (4, 4),
        "beam_rewards": (4, 4),
        "judged": (4, 4),
    }
    assert batch["query_id"] == [0, 1, 2, 3]
    torch.testing.assert_close(batch["beam_rewards_raw"][0], torch.tensor([2.0, 1.6, 0.3, 0.0]))


def test_rce_epochs_lower_the_loss_and_raise_the_best_pointer() -> None:
    made = trainer(rce_temp_start=1.0, rce_temp_end=1.0)
    optimizer = torch.optim.AdamW(made.model.parameters(), lr=3e-3)
    before = best_likely(made)
    found = [made.train_rce_epoch(optimizer, epoch, 6)["rce_loss"] for epoch in range(6)]
    assert found[-1] < found[0]
    assert best_likely(made) > before


def test_grpo_epochs_lower_the_loss_and_raise_the_best_pointer() -> None:
    made = trainer()
    optimizer = torch.optim.AdamW(made.model.parameters(), lr=1e-3)
    old, before = made.compute_old_log_probs(made.model), best_likely(made)
    found = [made.train_grpo_epoch(optimizer, old, epoch, 5) for epoch in range(5)]
    assert found[-1]["grpo_loss"] < found[0]["grpo_loss"]
    assert found[-1].keys() >= {"ppo_loss", "kl_loss", "kl", "mean_ratio", "mean_advantage", "std_advantage"}
    assert best_likely(made) > before
