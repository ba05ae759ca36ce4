"""LoRA on a CLIP: it is on every attention layer, learns alone, and is loaded and merged without a change."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.clip import (
    TARGETS,
    Clip,
    ClipEmbedder,
    LoraSelector,
    Shown,
    add_lora,
    image_features,
    load_clip,
    load_lora,
    merged,
)
from models.clip_weights import find_clip
from models.model_errors import ModelUnavailable
from models.pointer import PointerConfig, PointerSelector
from tests.models.tiny_vision import make_png, make_tiny_clip

LAYERS = 2
BOTH_TOWERS = 2
POOLS = torch.tensor([[0, 1, 2, 3], [3, 4, 5, 0]])
LABELS = torch.tensor([[[2, 0]], [[1, 3]]])
"""(B, 1, S): one pointer to be learnt for each query."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_clip(tmp_path_factory.mktemp("clip"), layers=LAYERS)


@pytest.fixture
def clip(folder: Path) -> Clip:
    return load_clip(find_clip(str(folder)))


@pytest.fixture
def model(clip: Clip) -> LoraSelector:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = PointerConfig(embedding_dim=16, hidden=32, layers=1, dropout=0.0, attention_dropout=0.0)
        return LoraSelector(clip.model, PointerSelector(config))


@pytest.fixture
def bank(clip: Clip) -> Shown:
    return shown(clip, range(6))


@pytest.fixture
def queries(clip: Clip) -> Shown:
    return shown(clip, (10, 11))


def plain_model(folder: Path) -> Any:
    return load_clip(find_clip(str(folder))).model


def shown(clip: Clip, seeds: Any) -> Shown:
    return Shown(clip.pixels([make_png(seed) for seed in seeds]), clip.tokens([f"what is {seed}?" for seed in seeds]))


def loss_of(model: LoraSelector, queries: Shown, bank: Shown) -> Tensor:
    return -model.log_probs(queries, bank, pools=POOLS, pointers=LABELS).sum(-1).mean()


def adapters_of(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in model.named_parameters() if "lora_" in name}


def test_every_projection_of_every_attention_layer_has_an_adapter(model: LoraSelector):
    assert len(adapters_of(model.clip)) == 2 * len(TARGETS) * LAYERS * BOTH_TOWERS  # A and B of each
    assert all("lora_" in name for name, value in model.clip.named_parameters() if value.requires_grad)


def test_new_adapters_add_nothing(folder: Path, clip: Clip):
    pixels = clip.pixels([make_png(0)])
    with torch.no_grad():
        before = image_features(clip.model, pixels)
        assert torch.equal(image_features(add_lora(clip.model), pixels), before)


def test_rank_and_scale_are_those_of_the_spec(model: LoraSelector):
    config = model.clip.peft_config["default"]
    assert (config.r, config.lora_alpha, set(config.target_modules)) == (16, 32, set(TARGETS))


def test_gradients_reach_only_the_adapters_and_the_pointer_network(model: LoraSelector, queries: Shown, bank: Shown):
    loss_of(model, queries, bank).backward()
    reached = {name for name, value in model.named_parameters() if value.grad is not None}
    learning = {name for name, value in model.named_parameters() if value.requires_grad}
    assert reached == learning
    assert {name for name in reached if name.startswith("clip.")} == {
        f"clip.{name}" for name in adapters_of(model.clip)
    }
    moved = {tower for name in reached for tower in ("vision_model", "text_model") if tower in name}
    assert moved == {"vision_model", "text_model"}


def test_training_lowers_the_loss_and_leaves_the_weights_below_alone(model: LoraSelector, queries: Shown, bank: Shown):
    frozen = {name: value.clone() for name, value in model.clip.named_parameters() if "lora_" not in name}
    before = {name: value.clone() for name, value in adapters_of(model.clip).items()}
    losses = train(model, queries, bank, steps=15)
    assert losses[-1] < 0.5 * losses[0]
    assert all(torch.equal(value, frozen[name]) for name, value in model.clip.named_parameters() if name in frozen)
    assert not any(torch.equal(value, before[name]) for name, value in adapters_of(model.clip).items())


def test_the_adapters_alone_can_learn_it(model: LoraSelector, queries: Shown, bank: Shown):
    model.selector.requires_grad_(False)
    losses = train(model, queries, bank, steps=30)
    assert losses[-1] < 0.7 * losses[0]


def train(model: LoraSelector, queries: Shown, bank: Shown, *, steps: int) -> list[float]:
    optimizer, losses = torch.optim.AdamW(model.learning(), lr=0.01), []
    for _ in range(steps):
        loss = loss_of(model, queries, bank)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def trained(model: LoraSelector, queries: Shown, bank: Shown, tmp_path: Path) -> tuple[LoraSelector, Path]:
    train(model, queries, bank, steps=3)
    model.clip.save_pretrained(tmp_path / "adapters")
    return model, tmp_path / "adapters"


def test_adapters_come_back_as_they_were(trained: tuple[LoraSelector, Path], folder: Path):
    model, kept = trained
    again = load_lora(plain_model(folder), kept, trainable=True)
    found = adapters_of(again)
    assert {name: value.tolist() for name, value in adapters_of(model.clip).items()} == {
        name: value.tolist() for name, value in found.items()
    }
    assert all(value.requires_grad for value in found.values())


def test_peft_itself_reads_them(trained: tuple[LoraSelector, Path], folder: Path, clip: Clip):
    from peft import PeftModel

    model, kept = trained
    again, pixels = PeftModel.from_pretrained(plain_model(folder), str(kept)), clip.pixels([make_png(0)])
    with torch.no_grad():
        assert torch.equal(image_features(again, pixels), image_features(model.clip, pixels))


def test_merged_into_the_weights_they_compute_the_same(trained: tuple[LoraSelector, Path], clip: Clip):
    model, pixels = trained[0], clip.pixels([make_png(3), make_png(4)])
    with torch.no_grad():
        before = image_features(model.clip, pixels)
        plain = merged(model.clip)
        assert torch.allclose(image_features(plain, pixels), before, atol=1e-5)
    assert not adapters_of(plain)


def test_the_embedder_takes_them_and_names_them(trained: tuple[LoraSelector, Path], folder: Path, clip: Clip):
    model, kept = trained
    plain, adapted = (ClipEmbedder(str(folder), adapters=place, device="cpu") for place in (None, kept))
    with torch.no_grad():
        expected = image_features(model.clip, clip.pixels([make_png(0)])).numpy()
    assert np.allclose(adapted.embed_images([make_png(0)]), expected, atol=1e-5)
    assert not np.allclose(plain.embed_images([make_png(0)]), expected, atol=1e-3)
    assert adapted.id.startswith(f"{folder.name}+adapters@")
    assert adapted.id != plain.id


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(ValueError, match="LoRA cannot be put into this model"):
        add_lora(torch.nn.Sequential(torch.nn.Linear(4, 4)))


def test_a_model_that_would_be_adapted_by_halves_is_refused(clip: Clip):
    attention = clip.model.text_model.encoder.layers[1].self_attn
    attention.query, attention.q_proj = attention.q_proj, torch.nn.Identity()
    with pytest.raises(ValueError, match=r"layer 1 of the text encoder|cannot be put into"):
        add_lora(clip.model)


def test_a_pointer_network_of_another_width_is_refused(clip: Clip):
    with pytest.raises(ValueError, match=r"takes embeddings 512 wide and this CLIP gives 16"):
        LoraSelector(clip.model, PointerSelector(PointerConfig(hidden=32)))


@pytest.mark.parametrize("layers", [LAYERS - 1, LAYERS + 1], ids=["shallower", "deeper"])
def test_adapters_of_another_model_are_refused(trained: tuple[LoraSelector, Path], tmp_path: Path, layers: int):
    other = plain_model(make_tiny_clip(tmp_path / "other", layers=layers))
    with pytest.raises(ValueError, match="16 differ"):
        load_lora(other, trained[1])


@pytest.mark.parametrize("way", ["load_lora", "find_clip"])
def test_a_folder_without_adapters_is_said(clip: Clip, folder: Path, tmp_path: Path, way: str):
    with pytest.raises(ModelUnavailable, match="holds no adapter"):
        load_lora(clip.model, tmp_path) if way == "load_lora" else find_clip(str(folder), adapters=tmp_path)


def test_without_the_library_the_remedy_is_said(clip: Clip, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install peft"):
        add_lora(clip.model)
