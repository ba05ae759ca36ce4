"""CLIP as an encoder of pictures and texts into one space; LoRA adapters are added to its weights.

Source: Radford et al. 2021, arXiv:2103.00020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.causal_weights import adapted, check_adapter, device_for, failures_named, progress_hidden
from models.prompts import open_picture, sendable
from models.weight_files import ClipWeights, find_clip

GPU_BATCH = 64

Item = TypeVar("Item")


class Clip(NamedTuple):
    """A CLIP in memory; typed Any because transformers has no types worth the name."""

    model: Any
    tokenizer: Any
    image_processor: Any

    def pixels(self, pngs: Sequence[bytes]) -> Tensor:
        """(n, 3, side, side). Raises RequestRefused for what is no picture."""
        pictures = [open_picture(png) for png in pngs]
        return self.image_processor(images=pictures, return_tensors="pt")["pixel_values"]

    def tokens(self, texts: Sequence[str], *, width: int | None = None) -> dict[str, Tensor]:
        """input_ids and attention_mask, (n, tokens); texts that are too long lose their end.

        width: tokens of every row; None: as many as the longest has.
        """
        return dict(
            self.tokenizer(
                [sendable(text) for text in texts],
                padding="longest" if width is None else "max_length",
                truncation=True,
                max_length=width or self.most_tokens,
                return_tensors="pt",
            )
        )

    @property
    def most_tokens(self) -> int:
        """Tokens that a text is cut to, its begin and end tokens included: 77 in every published CLIP."""
        return self.model.config.text_config.max_position_embeddings


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
        self._clip = load_clip(weights)
        self._clip.model.to(self._device)
        self.dimension: int = self._clip.model.config.projection_dim
        self.id = f"{weights.label}@{weights.fingerprint}/fp32"

    def embed_images(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        """(len(pngs), dimension), L2-normalised. Raises RequestRefused for what is no picture."""
        return self._embed(
            pngs, lambda part: image_features(self._clip.model, self._clip.pixels(part).to(self._device))
        )

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension), L2-normalised; of a text that is longer than 77 tokens, the beginning."""
        width = self._clip.most_tokens if self._batch > 1 else None

        def forward(part: Sequence[str]) -> Tensor:
            tokens = self._clip.tokens(part, width=width)
            return text_features(self._clip.model, {name: value.to(self._device) for name, value in tokens.items()})

        return self._embed(texts, forward)

    def embed_classes(self, pngs: Sequence[bytes]) -> None:
        """None: a CLIP names no classes, see VisionEmbedder."""
        del pngs

    @torch.inference_mode()
    def _embed(self, items: Sequence[Item], forward: Callable[[Sequence[Item]], Tensor]) -> NDArray[np.float32]:
        vectors = np.empty((len(items), self.dimension), np.float32)
        for start in range(0, len(items), self._batch):
            part = items[start : start + self._batch]
            filled = [*part, *[part[-1]] * (self._batch - len(part))]
            vectors[start : start + len(part)] = forward(filled)[: len(part)].cpu().numpy()
        return vectors


def image_features(model: Any, pixels: Tensor) -> Tensor:
    """(n, dimension), L2-normalised; pixels: (n, 3, side, side)."""
    pooled = model.vision_model(pixel_values=pixels).pooler_output
    return F.normalize(model.visual_projection(pooled), dim=-1)


def text_features(model: Any, tokens: dict[str, Tensor]) -> Tensor:
    """(n, dimension), L2-normalised; tokens: as Clip.tokens gives them."""
    pooled = model.text_model(**tokens).pooler_output
    return F.normalize(model.text_projection(pooled), dim=-1)


def load_clip(weights: ClipWeights) -> Clip:
    """The model with its adapters added to its weights, on the CPU, in fp32. Raises ModelUnavailable."""
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with progress_hidden(), failures_named(weights.folder):
        model = CLIPModel.from_pretrained(weights.folder, use_safetensors=True, dtype=torch.float32, **source)
        tokenizer = AutoTokenizer.from_pretrained(weights.folder, **source)
        processor = AutoImageProcessor.from_pretrained(weights.folder, backend="pil", **source)
    if weights.adapters:
        check_adapter(weights.adapters)
        model = adapted(model, weights.adapters)
    return Clip(model.eval(), tokenizer, processor)
