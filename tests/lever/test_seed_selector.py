"""Lever-Plus's network over ours: its losses against numbers by hand, its checkpoints, its encoder."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tasks.lever import (
    PointerSelectorV3,
    build_model_v3_with_adapter,
    compute_group_relative_advantage,
    compute_softmax_weights,
    load_v3_from_grpo_checkpoint,
    load_v3_from_sft_checkpoint,
    normalize_rewards_zscore,
)
from tasks.lever.learning.checkpoints import save_selector
from tests.lever.seed_files import CONFIG, lightning, save, seed_state
from tests.lever.seed_world import LABELS, POOL, QUERY, REWARDS, SMALL, model
from tests.models.tiny_vision import make_png, make_tiny_clip


def test_rce_weighs_sequences_by_the_softmax_of_their_rewards() -> None:
    made = model().eval()
    log_probs = made.log_probs(QUERY, POOL, LABELS).sum(-1)
    by_hand = -(torch.softmax(REWARDS / 0.5, -1) * log_probs).sum(-1).mean()
    torch.testing.assert_close(made.compute_rce_loss(QUERY, POOL, LABELS, REWARDS, temperature=0.5), by_hand)


def test_top1_is_the_member_with_the_highest_reward() -> None:
    made = model().eval()
    log_probs = made.log_probs(QUERY, POOL, LABELS).sum(-1)
    found = made.compute_rce_loss(QUERY, POOL, LABELS, torch.tensor([[0.0, 2.0, 1.0], [0, 1, 2]]), use_top1_only=True)
    torch.testing.assert_close(found, -(log_probs[0, 1] + log_probs[1, 2]) / 2)


def test_at_its_start_grpo_has_ratio_one_and_no_divergence_with_dropout_on() -> None:
    made = model().train()
    old = made.compute_log_probs_per_beam(QUERY, POOL, LABELS).detach()
    found = made.compute_grpo_loss(QUERY, POOL, LABELS, REWARDS, old)
    assert found["mean_ratio"].item() == 1
    assert found["kl"].item() == 0
    assert found["loss"].item() == pytest.approx(0, abs=1e-6)
    assert made.training


def test_top_k_takes_advantages_over_the_whole_group() -> None:
    made = model().eval()
    old = made.compute_log_probs_per_beam(QUERY, POOL, LABELS).detach()
    rewards = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    found = made.compute_grpo_loss(QUERY, POOL, LABELS, rewards, old, use_top_k=2)
    assert found["mean_advantage"].item() == pytest.approx(1 / 3 / math.sqrt(1 / 3))


def test_advantages_by_hand() -> None:
    found = model().compute_advantage(torch.tensor([[2.0, 0.0, 1.0], [0.50, 0.52, 0.48]]))
    torch.testing.assert_close(found, torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.2, -0.2]]), atol=1e-6, rtol=0)
    torch.testing.assert_close(model(advantage_clip=0.5).compute_advantage(REWARDS)[0], torch.tensor([0.5, -0.5, 0.0]))
    torch.testing.assert_close(model().compute_advantage(REWARDS, normalize=False)[0], torch.tensor([1.0, -1.0, 0.0]))


def test_functions_of_rewards_by_hand() -> None:
    torch.testing.assert_close(normalize_rewards_zscore(torch.tensor([1.0, 3.0, 2.0])), torch.tensor([-1.0, 1.0, 0.0]))
    columns = normalize_rewards_zscore(torch.tensor([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]), dim=0)
    torch.testing.assert_close(columns, torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    torch.testing.assert_close(
        compute_group_relative_advantage(torch.tensor([[1.0, 3.0]]), normalize=False), torch.tensor([[-1.0, 1.0]])
    )
    torch.testing.assert_close(compute_softmax_weights(torch.tensor([0.0, math.log(3.0)])), torch.tensor([0.25, 0.75]))


def test_checkpoints_of_lever_plus_and_ours_load_by_its_names(tmp_path: Path) -> None:
    state = seed_state()
    v2 = load_v3_from_sft_checkpoint(str(save(lightning(state), tmp_path / "v2.ckpt")), device="cpu")
    v3 = load_v3_from_grpo_checkpoint(save({"model_state_dict": state}, tmp_path / "v3.pt"), device="cpu")
    (tmp_path / "own.safetensors").write_bytes(save_selector(v2, meta={}))
    own = load_v3_from_sft_checkpoint(tmp_path / "own.safetensors", device="cpu")
    for loaded in (v2, v3, own):
        assert isinstance(loaded, PointerSelectorV3)
        assert loaded.config == CONFIG
        assert (loaded.d_model, loaded.hidden_dim, loaded.num_layers) == (6, 8, 2)
        assert all(torch.equal(value, state[key]) for key, value in loaded.state_dict().items())
        assert not loaded.training


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_clip(tmp_path_factory.mktemp("clip"), dimension=16))


def test_a_network_behind_a_clip_embeds_pictures_and_questions(clip: str) -> None:
    made = build_model_v3_with_adapter(SMALL._replace(d_model=16), clip_name=clip, device="cpu")
    pictures, questions = [make_png(0), make_png(1)], ["What?", "Who?"]
    joint = made.query_embeddings(pictures, questions)
    assert joint.shape == (2, 16)
    torch.testing.assert_close(joint.norm(dim=-1), torch.ones(2))
    both = torch.from_numpy(made.encoder.embed_images(pictures) + made.encoder.embed_texts(questions))
    torch.testing.assert_close(joint, torch.nn.functional.normalize(both, dim=-1))
    assert made.pointer_selector.greedy(joint, joint[None].expand(2, -1, -1), shots=2).shape == (2, 2)
