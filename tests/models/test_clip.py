"""CLIP: its vectors are those of transformers' own forward pass, and its names lead to safetensors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from models.causal_weights import SAFE_REVISIONS, VIT_B_32, find_clip
from models.clip import ClipEmbedder
from models.model_errors import ModelUnavailable
from tests.models.tiny_vision import make_png, make_tiny_clip, make_tiny_qwen

TEXTS = ["What is on the table?", "a", ""]
LONG = "and on " * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def embedder(folder: Path) -> ClipEmbedder:
    return ClipEmbedder(str(folder), device="cpu")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    """transformers' own model, with the processing written out."""
    from transformers import CLIPModel

    return CLIPModel.from_pretrained(folder).eval()


def unit(vectors: torch.Tensor) -> np.ndarray[Any, Any]:
    return (vectors / vectors.norm(dim=-1, keepdim=True)).numpy()


@torch.inference_mode()
def test_texts_are_those_of_the_model_itself(embedder: ClipEmbedder, theirs: Any):
    tokens = embedder.tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert np.allclose(embedder.embed_texts(TEXTS), unit(theirs(**tokens, pixel_values=BLACK).text_embeds), atol=1e-5)


@torch.inference_mode()
def test_pictures_are_those_of_the_model_itself(embedder: ClipEmbedder, theirs: Any):
    pngs = [make_png(seed, width=32, height=32) for seed in range(3)]
    pixels = torch.stack([by_hand(png) for png in pngs])
    tokens = embedder.tokenizer(["a"], return_tensors="pt")
    expected = unit(theirs(**tokens, pixel_values=pixels).image_embeds)
    assert np.allclose(embedder.embed_images(pngs), expected, atol=1e-5)


BLACK = torch.zeros(1, 3, 32, 32)
MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073])
SPREAD = torch.tensor([0.26862954, 0.26130258, 0.27577711])
"""Of the pictures that CLIP was trained with."""


def by_hand(png: bytes) -> torch.Tensor:
    """(3, 32, 32) for a picture of that size."""
    pixels = torch.tensor(np.asarray(PIL.Image.open(io.BytesIO(png)).convert("RGB"))) / 255
    return ((pixels - MEAN) / SPREAD).permute(2, 0, 1)


def test_what_is_transparent_lies_on_white(embedder: ClipEmbedder):
    def png(picture: PIL.Image.Image) -> bytes:
        file = io.BytesIO()
        picture.save(file, "PNG")
        return file.getvalue()

    glass, white = PIL.Image.new("RGBA", (9, 9), (0, 0, 0, 0)), PIL.Image.new("RGB", (9, 9), "white")
    assert np.array_equal(embedder.embed_images([png(glass)]), embedder.embed_images([png(white)]))


def test_batches_of_one_shape_give_the_same_vectors(folder: Path, embedder: ClipEmbedder):
    batched = ClipEmbedder(str(folder), device="cpu")
    batched._batch = 4  # as on a GPU
    pngs = [make_png(seed) for seed in range(6)]
    assert np.allclose(batched.embed_images(pngs), embedder.embed_images(pngs), atol=1e-5)
    assert np.allclose(batched.embed_texts([*TEXTS, LONG, "b"]), embedder.embed_texts([*TEXTS, LONG, "b"]), atol=1e-5)


def test_the_id_names_the_weights_and_the_precision(folder: Path, embedder: ClipEmbedder, tmp_path: Path):
    assert embedder.id == f"{folder.name}@{find_clip(str(folder)).fingerprint}/fp32"
    other = make_tiny_clip(tmp_path / folder.name, seed=1)
    assert ClipEmbedder(str(other), device="cpu").id != embedder.id


@pytest.mark.parametrize("name", ["clip", VIT_B_32])
def test_the_default_is_taken_in_a_revision_that_has_safetensors(name: str):
    with pytest.raises(ModelUnavailable, match=f"{VIT_B_32}@{SAFE_REVISIONS[VIT_B_32]}.*hf download {VIT_B_32}"):
        find_clip(name)


def test_another_kind_of_model_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ModelUnavailable, match="model_type 'qwen2_5_vl'"):
        find_clip(str(make_tiny_qwen(tmp_path)))


def test_pickled_weights_are_refused(tmp_path: Path):
    folder = make_tiny_clip(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match="no safetensors"):
        ClipEmbedder(str(folder))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_nearly_the_same_vectors(folder: Path, embedder: ClipEmbedder):
    on_gpu, pngs = ClipEmbedder(str(folder), device="cuda"), [make_png(seed) for seed in range(70)]
    assert np.allclose(on_gpu.embed_images(pngs), embedder.embed_images(pngs), atol=1e-3)
    assert np.array_equal(on_gpu.embed_images(pngs[:3]), on_gpu.embed_images(pngs)[:3])
