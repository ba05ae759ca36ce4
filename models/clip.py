"""CLIP as an encoder of pictures and texts into one space; LoRA adapters are added to its weights.

Source: Radford et al. 2021, arXiv:2103.00020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.causal_weights import device_for, find_clip, merge_adapter, name_failures
from models.prompts import open_picture, replace_surrogates

GPU_BATCH = 64

Item = TypeVar("Item")


class ClipEmbedder:
    """A CLIP from a folder, the Hugging Face cache or the hub; on the GPU if there is one, in fp32 everywhere.

    A vector is a pure function of its picture or text: on a CPU each is embedded alone, on a GPU in batches of one
    shape, whose empty rows are filled up (for a fixed number of threads, and on one kind of device).
    Only safetensors are read and no code of the model is run; pictures are resized by Pillow on every machine.
    Raises ModelUnavailable.
    """

    def __init__(self, name: str = "clip", *, adapters: Path | None = None, device: str | None = None) -> None:
        """name: as find_clip takes it. adapters: a folder of LoRA weights, as peft's `save_pretrained` writes it."""
        weights = find_clip(name, adapters=adapters)
        self._device = torch.device(device_for(device))
        self._batch = GPU_BATCH if self._device.type != "cpu" else 1
        from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

        source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        with name_failures(weights.folder):
            model: Any = CLIPModel.from_pretrained(weights.folder, use_safetensors=True, dtype=torch.float32, **source)
            self.tokenizer: Any = AutoTokenizer.from_pretrained(weights.folder, **source)
            self.image_processor: Any = AutoImageProcessor.from_pretrained(weights.folder, backend="pil", **source)
        merged: Any = merge_adapter(model, weights.adapter) if weights.adapter else model
        self.model: Any = merged.eval().to(self._device)
        self.dimension: int = self.model.config.projection_dim
        self.id = f"{weights.label}@{weights.fingerprint}/fp32"

    def embed_images(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        """Return L2-normalised vectors, (len(pngs), dimension), in order. Raises RequestRefused: unreadable picture."""

        def forward(part: Sequence[bytes]) -> Tensor:
            pictures = [open_picture(png) for png in part]
            return image_features(self.model, self._on_device(self.image_processor(pictures, return_tensors="pt")))

        return self._embed(pngs, forward)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return L2-normalised vectors of texts, (len(texts), dimension), in order; 77 tokens of a text are read."""
        options: dict[str, Any] = {"truncation": True, "return_tensors": "pt"}
        options["max_length"] = self.model.config.text_config.max_position_embeddings  # 77 in every published CLIP
        options["padding"] = "max_length" if self._batch > 1 else "longest"

        def forward(part: Sequence[str]) -> Tensor:
            tokens = self._on_device(self.tokenizer([replace_surrogates(text) for text in part], **options))
            return F.normalize(self.model.text_projection(self.model.text_model(**tokens).pooler_output), dim=-1)

        return self._embed(texts, forward)

    def _on_device(self, inputs: Any) -> dict[str, Tensor]:
        return {name: value.to(self._device) for name, value in inputs.items()}

    @torch.inference_mode()
    def _embed(self, items: Sequence[Item], forward: Callable[[Sequence[Item]], Tensor]) -> NDArray[np.float32]:
        """Return vectors of items, (len(items), dimension): `forward` gets batches of one size, the last filled up."""
        vectors = np.empty((len(items), self.dimension), np.float32)
        for start in range(0, len(items), self._batch):
            part = items[start : start + self._batch]
            filled = [*part, *[part[-1]] * (self._batch - len(part))]
            vectors[start : start + len(part)] = forward(filled)[: len(part)].cpu().numpy()
        return vectors


def image_features(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Return L2-normalised features, (n, dimension), of `inputs["pixel_values"]`, (n, 3, side, side)."""
    pooled = model.vision_model(pixel_values=inputs["pixel_values"]).pooler_output
    return F.normalize(model.visual_projection(pooled), dim=-1)
