"""CLIP as an encoder of pictures and texts into one space, and low-rank adapters (LoRA) on both of its encoders.

Sources: CLIP, Radford et al. 2021, arXiv:2103.00020; LoRA, Hu et al. 2021, arXiv:2106.09685, by the library peft.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.causal_weights import device_for, failures_named, progress_hidden
from models.clip_weights import ClipWeights, find_clip
from models.model_errors import ModelUnavailable
from models.pointer import PointerSelector
from models.prompt_pictures import open_picture
from models.prompts import sendable

GPU_BATCH = 64
RANK = 16
ALPHA = 32
TARGETS = ("q_proj", "k_proj", "v_proj", "out_proj")
"""Projections of every attention layer, in both encoders, that get an adapter."""
WEIGHTS = "adapter_model.safetensors"

Item = TypeVar("Item")


class Clip(NamedTuple):
    """A CLIP in memory; typed Any because transformers has no types worth the name."""

    model: Any
    tokenizer: Any
    image_processor: Any

    def pixels(self, pngs: Sequence[bytes]) -> Tensor:
        """(n, 3, side, side): the pictures as the model wants them. Raises RequestRefused."""
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
        """77, in every CLIP that was published."""
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
        self._clip = _with_adapters(weights) if adapters else load_clip(weights)
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
        """A CLIP names no classes."""
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


def joint_features(images: Tensor, texts: Tensor) -> Tensor:
    """(n, dimension): unit vectors of pictures and of their questions as one, normalised again."""
    return F.normalize((images + texts) / 2, dim=-1)


def load_clip(weights: ClipWeights) -> Clip:
    """The model without adapters, on the CPU, in fp32. Raises ModelUnavailable."""
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

    source: dict[str, Any] = {"local_files_only": True}
    with progress_hidden(), failures_named(weights.folder):
        model = CLIPModel.from_pretrained(
            weights.folder, use_safetensors=True, dtype=torch.float32, trust_remote_code=False, **source
        )
        tokenizer = AutoTokenizer.from_pretrained(weights.folder, trust_remote_code=False, **source)
        processor = AutoImageProcessor.from_pretrained(weights.folder, backend="pil", **source)
    return Clip(model.eval(), tokenizer, processor)


def _with_adapters(weights: ClipWeights) -> Clip:
    assert weights.adapters is not None
    clip = load_clip(weights)
    return clip._replace(model=merged(load_lora(clip.model, weights.adapters)))


class Shown(NamedTuple):
    """Pictures and their questions, n of them, as Clip.pixels and Clip.tokens give them."""

    pixels: Tensor
    """(n, 3, side, side)"""
    tokens: dict[str, Tensor]
    """Each (n, tokens)."""


class LoraSelector(nn.Module):
    """A pointer network behind a CLIP whose adapters learn with it; nothing else of the CLIP does."""

    def __init__(self, clip: Any, selector: PointerSelector) -> None:
        """clip: a CLIPModel; it is changed in place. Raises ModelUnavailable, and ValueError as add_lora does."""
        super().__init__()
        width = clip.config.projection_dim
        if selector.config.embedding_dim != width:
            raise ValueError(
                f"the pointer network takes embeddings {selector.config.embedding_dim} wide and this CLIP gives "
                f"{width}; build it with embedding_dim={width}"
            )
        self.clip = add_lora(clip)
        self.selector = selector

    def embed(self, shown: Shown) -> Tensor:
        """(n, d): unit vectors of pictures and questions together."""
        return joint_features(image_features(self.clip, shown.pixels), text_features(self.clip, shown.tokens))

    def log_probs(self, queries: Shown, bank: Shown, *, pools: Tensor, pointers: Tensor) -> Tensor:
        """(B, G, S): of each step of the pointers.

        queries: B of them. bank: the candidates that occur, each once. pools: (B, K), rows of the bank.
        pointers: (B, G, S), positions in the pool.
        """
        candidates = self.embed(bank)[pools]  # (B, K, d)
        return self.selector.log_probs(self.embed(queries), candidates, pointers)

    def learning(self) -> Iterator[nn.Parameter]:
        """The trainable parameters: the adapters and the pointer network."""
        return (parameter for parameter in self.parameters() if parameter.requires_grad)


def add_lora(clip: Any, *, rank: int = RANK, alpha: int = ALPHA) -> Any:
    """The CLIP as a PeftModel, frozen but for new adapters on all of TARGETS; before training they add nothing.

    Raises ModelUnavailable without peft, and ValueError if an attention layer does not get its adapters.
    """
    _require_peft()
    from peft import LoraConfig  # pyright: ignore[reportMissingImports]

    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(TARGETS), lora_dropout=0.0, bias="none")
    return _adapted(clip, config)


def load_lora(clip: Any, folder: Path, *, trainable: bool = False) -> Any:
    """The CLIP with adapters that were saved. Raises ModelUnavailable, and ValueError if they are another model's."""
    _require_peft()
    if not (folder / WEIGHTS).is_file():
        raise ModelUnavailable(f"{folder} holds no {WEIGHTS}; name one that peft's save_pretrained wrote")
    from peft import LoraConfig, set_peft_model_state_dict  # pyright: ignore[reportMissingImports]

    config = LoraConfig.from_pretrained(str(folder))
    config.inference_mode = not trainable
    config.base_model_name_or_path = None  # where the CLIP lay when it was trained; _check_state tells another one
    adapted = _adapted(clip, config)
    state = load_file(folder / WEIGHTS)
    _check_state(adapted, state, folder)
    set_peft_model_state_dict(adapted, state)
    return adapted


def merged(adapted: Any) -> Any:
    """A plain CLIPModel that computes the same, with the adapters added into its weights."""
    return adapted.merge_and_unload(safe_merge=True)


def _adapted(clip: Any, config: Any) -> Any:
    from peft import get_peft_model  # pyright: ignore[reportMissingImports]

    try:
        adapted = get_peft_model(clip, config)
    except ValueError as error:
        raise ValueError(f"LoRA cannot be put into this model: {error}") from error
    _check_adapted(adapted)
    return adapted


def _require_peft() -> None:
    if importlib.util.find_spec("peft") is None:
        raise ModelUnavailable("LoRA needs the library peft, which is not installed; run `pip install peft`")


def _check_adapted(adapted: Any) -> None:
    """Raises ValueError unless each target of each attention layer of both encoders has an adapter."""
    base = adapted.get_base_model()
    for name, tower in (("vision", base.vision_model), ("text", base.text_model)):
        for number, layer in enumerate(tower.encoder.layers):
            for target in TARGETS:
                if not hasattr(getattr(layer.self_attn, target), "lora_A"):
                    raise ValueError(
                        f"layer {number} of the {name} encoder has no adapter on {target}; LoRA would train a part of "
                        "the model only: use a CLIP whose attention layers have " + ", ".join(TARGETS)
                    )


def _check_state(adapted: Any, state: dict[str, Tensor], folder: Path) -> None:
    """Raises ValueError unless the file holds what this model's adapters want, no more and no less."""
    from peft import get_peft_model_state_dict  # pyright: ignore[reportMissingImports]

    wanted = {name: tuple(value.shape) for name, value in get_peft_model_state_dict(adapted).items()}
    found = {name: tuple(value.shape) for name, value in state.items()}
    if differing := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
        name = differing[0]
        raise ValueError(
            f"the adapters in {folder} are another model's: {len(differing)} differ, such as {name} "
            f"(the file has {found.get(name)}, the model wants {wanted.get(name)}); give the CLIP that they were "
            "trained with"
        )
