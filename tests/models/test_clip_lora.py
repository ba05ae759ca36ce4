"""A CLIP with LoRA adapters on both encoders is the model that has them in its weights; others are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.clip import ClipEmbedder
from models.model_errors import ModelUnavailable
from tests.models.tiny_adapter import CONFIG, merge_adapter
from tests.models.tiny_vision import make_png, make_tiny_clip, read, write

pytest.importorskip("peft", reason="adapters need peft, which is not installed here")

LAYERS = 2
PNGS = [make_png(0), make_png(1)]
TEXTS = ["what is 0?", "what is 1?"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_clip(tmp_path / "clip", layers=LAYERS)


@pytest.fixture
def adapters(folder: Path, tmp_path: Path) -> Path:
    merge_adapter(folder, adapter=tmp_path / "adapters", merged=tmp_path / "merged")
    config = tmp_path / "adapters" / CONFIG
    write(config, read(config) | {"task_type": None})  # a CLIP writes nothing
    return tmp_path / "adapters"


def test_with_adapters_it_is_the_model_that_they_make(folder: Path, adapters: Path, tmp_path: Path):
    found = ClipEmbedder(str(folder), adapters=adapters, device="cpu")
    expected, plain = (ClipEmbedder(str(place), device="cpu") for place in (tmp_path / "merged", folder))
    assert np.allclose(found.embed_images(PNGS), expected.embed_images(PNGS), atol=1e-5)
    assert np.allclose(found.embed_texts(TEXTS), expected.embed_texts(TEXTS), atol=1e-5)
    assert not np.allclose(found.embed_images(PNGS), plain.embed_images(PNGS), atol=1e-3)
    assert not np.allclose(found.embed_texts(TEXTS), plain.embed_texts(TEXTS), atol=1e-3)


def test_the_id_names_them(folder: Path, adapters: Path):
    found, plain = ClipEmbedder(str(folder), adapters=adapters), ClipEmbedder(str(folder))
    assert found.id.startswith(f"{folder.name}+adapters@")
    assert found.id != plain.id


@pytest.mark.parametrize("layers", [LAYERS - 1, LAYERS + 1], ids=["shallower", "deeper"])
def test_adapters_of_another_model_are_refused(adapters: Path, tmp_path: Path, layers: int):
    other = make_tiny_clip(tmp_path / "other", layers=layers)
    with pytest.raises(ModelUnavailable, match="does not fit the model"):
        ClipEmbedder(str(other), adapters=adapters)
