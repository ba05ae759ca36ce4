"""Tiny models that see, which tests make for themselves: a CLIP, three Qwen-VL and a LLaVA of random weights."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch

from tests.models.tiny import WORDS, _quiet, _tokenizer

SIDE = 32
"""Pixels of a side of the pictures that the tiny CLIP and the tiny LLaVA take."""
HUGE = 30_000
"""Pixels of a side of a picture that nobody should decode."""
PATCH = 4
"""Pixels of a side of a patch of the tiny Qwen2.5-VL, which merges four patches into one token."""
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
QWEN_SPECIAL = ("<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>")
QWEN_EYE: dict[str, Any] = {"depth": 2, "num_heads": 2, "patch_size": PATCH, "initializer_range": 0.2}
LLAVA_IMAGE = "<image>"


def make_png(seed: int, *, width: int = 16, height: int = 16, mode: str = "RGB") -> bytes:
    """Noise; another seed, another picture."""
    shape = (height, width) if mode == "L" else (height, width, len(mode))
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def make_huge_png() -> bytes:
    """White, 30,000 × 30,000 pixels in about 100 kB, and whole."""
    packer, row = zlib.compressobj(9), b"\0" + b"\xff" * (HUGE // 8)
    data = b"".join(packer.compress(row * 100) for _ in range(HUGE // 100)) + packer.flush()
    return _png(HUGE, data)


def make_png_without_pixels() -> bytes:
    """All of its checksums are right, and its data are no pixels."""
    return _png(16, b"no pixels")


def _png(side: int, data: bytes) -> bytes:
    """One bit a pixel."""
    header = side.to_bytes(4) * 2 + bytes([1, 0, 0, 0, 0])
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4) for name, body in chunks
    )


def make_tiny_clip(folder: Path, *, seed: int = 0, dimension: int = 16, layers: int = 2) -> Path:
    """A CLIP whose tokenizer reads bytes, in the layout of the hub."""
    from transformers import CLIPConfig, CLIPModel
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = _clip_tokenizer()
    tower: dict[str, Any] = {"num_hidden_layers": layers, "num_attention_heads": 2, "projection_dim": dimension}
    config = CLIPConfig(
        text_config={
            **tower,
            "hidden_size": 32,
            "intermediate_size": 64,
            "vocab_size": len(tokenizer),
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={**tower, "hidden_size": 48, "intermediate_size": 96, "image_size": SIDE, "patch_size": 8},
        projection_dim=dimension,
        initializer_factor=4.0,  # features of random weights that differ by more than rounding
    )
    _save(_seeded(seed, lambda: CLIPModel(config)), folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}).save_pretrained(
        folder
    )
    return folder


def make_tiny_qwen(
    folder: Path,
    *,
    seed: int = 0,
    chat_template: str | None = CHAT_TEMPLATE,
    context_tokens: int = 1024,
    most_pixels: int = 1024,
) -> Path:
    """A Qwen2.5-VL; a picture of 16 × 16 pixels takes it 4 tokens."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    tokenizer = _seeing_tokenizer(QWEN_SPECIAL, chat_template, QWEN_IMAGE, context_tokens)
    config = Qwen2_5_VLConfig(
        text_config=_qwen_text(tokenizer, context_tokens),
        vision_config={
            **QWEN_EYE,
            "hidden_size": 64,
            "intermediate_size": 64,
            "out_hidden_size": 64,
            "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        **_qwen_tokens(tokenizer),
    )
    _save(_seeded(seed, lambda: Qwen2_5_VLForConditionalGeneration(config)), folder, tokenizer)
    _save_qwen_pictures(folder, most_pixels)
    return folder


def make_tiny_qwen2(folder: Path, *, context_tokens: int = 1024, most_pixels: int = 1024) -> Path:
    """A Qwen2-VL, with pictures like those of `make_tiny_qwen`."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    tokenizer = _seeing_tokenizer(QWEN_SPECIAL, CHAT_TEMPLATE, QWEN_IMAGE, context_tokens)
    config = Qwen2VLConfig(
        text_config=_qwen_text(tokenizer, context_tokens),
        vision_config={**QWEN_EYE, "embed_dim": 64, "hidden_size": 64, "mlp_ratio": 1},
        **_qwen_tokens(tokenizer),
    )
    _save(_seeded(0, lambda: Qwen2VLForConditionalGeneration(config)), folder, tokenizer)
    _save_qwen_pictures(folder, most_pixels)
    return folder


def make_tiny_qwen3(folder: Path, *, context_tokens: int = 1024, most_pixels: int = 1024) -> Path:
    """A Qwen3-VL, which feeds what it sees into its first layers too; with pictures like those of `make_tiny_qwen`."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    tokenizer = _seeing_tokenizer(QWEN_SPECIAL, CHAT_TEMPLATE, QWEN_IMAGE, context_tokens)
    eye = {"hidden_size": 64, "intermediate_size": 64, "out_hidden_size": 64, "num_position_embeddings": 64}
    # vLLM asks for `mrope_interleaved`, as the hub's configurations have it; transformers always interleaves
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
    config = Qwen3VLConfig(
        text_config={**_qwen_text(tokenizer, context_tokens), "rope_parameters": rope, "head_dim": 32},
        vision_config={**QWEN_EYE, **eye, "deepstack_visual_indexes": [0]},
        **_qwen_tokens(tokenizer),
    )
    _save(_seeded(0, lambda: Qwen3VLForConditionalGeneration(config)), folder, tokenizer)
    _save_qwen_pictures(folder, most_pixels)
    return folder


def _qwen_text(tokenizer: Any, context_tokens: int) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 6, 6]}
    return {**_text_sizes(tokenizer, context_tokens), "rope_parameters": rope}


def _qwen_tokens(tokenizer: Any) -> dict[str, Any]:
    names = ("vision_start_token_id", "image_token_id", "video_token_id", "vision_end_token_id")
    return dict(zip(names, tokenizer.convert_tokens_to_ids(list(QWEN_SPECIAL)), strict=True))


def _save_qwen_pictures(folder: Path, most_pixels: int) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    pixels: dict[str, Any] = {"min_pixels": (2 * PATCH) ** 2, "max_pixels": most_pixels}
    Qwen2VLImageProcessorPil(patch_size=PATCH, **pixels).save_pretrained(folder)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), "utf-8")


def make_tiny_llava(folder: Path, *, seed: int = 0, context_tokens: int = 1024) -> Path:
    """A LLaVA; a picture takes it 16 tokens."""
    from transformers import LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = _seeing_tokenizer((LLAVA_IMAGE,), CHAT_TEMPLATE, LLAVA_IMAGE, context_tokens)
    config = LlavaConfig(**_llava_sizes(tokenizer, context_tokens), image_seq_length=(SIDE // 8) ** 2)
    _save(_seeded(seed, lambda: LlavaForConditionalGeneration(config)), folder, tokenizer)
    images = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    LlavaProcessor(images, tokenizer, **LLAVA_PARTS, chat_template=tokenizer.chat_template).save_pretrained(folder)
    return folder


def make_tiny_llava_next(folder: Path) -> Path:
    """A LLaVA-NeXT, which cuts a picture into as many tiles as its shape needs."""
    from transformers import LlavaNextConfig, LlavaNextForConditionalGeneration, LlavaNextProcessor
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    tokenizer = _seeing_tokenizer((LLAVA_IMAGE,), CHAT_TEMPLATE, LLAVA_IMAGE, 1024)
    tiles = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]
    config = LlavaNextConfig(**_llava_sizes(tokenizer, 1024), image_grid_pinpoints=tiles)
    _save(_seeded(0, lambda: LlavaNextForConditionalGeneration(config)), folder, tokenizer)
    side: dict[str, Any] = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    images = LlavaNextImageProcessorPil(**side, image_grid_pinpoints=tiles)
    LlavaNextProcessor(images, tokenizer, **LLAVA_PARTS, chat_template=tokenizer.chat_template).save_pretrained(folder)
    return folder


LLAVA_PARTS: dict[str, Any] = {
    "patch_size": 8,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
}


def _llava_sizes(tokenizer: Any, context_tokens: int) -> dict[str, Any]:
    return {
        "text_config": {"model_type": "llama", **_text_sizes(tokenizer, context_tokens)},
        "vision_config": {
            "model_type": "clip_vision_model",
            "hidden_size": 48,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": SIDE,
            "patch_size": 8,
            "initializer_factor": 4.0,
        },
        "image_token_index": tokenizer.convert_tokens_to_ids(LLAVA_IMAGE),
        "vision_feature_layer": -1,
    }


def _clip_tokenizer() -> Any:
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def _seeing_tokenizer(special: tuple[str, ...], template: str | None, image: str, context_tokens: int) -> Any:
    tokenizer = _tokenizer(WORDS, context_tokens)
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.chat_template = template and template.replace("IMAGE", image)
    return tokenizer


def _text_sizes(tokenizer: Any, context_tokens: int) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": context_tokens,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.2,
        "tie_word_embeddings": False,
    }


def _seeded(seed: int, build: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().eval()


def _save(model: Any, folder: Path, tokenizer: Any = None) -> None:
    if tokenizer is not None:
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(model.generation_config, name, getattr(tokenizer, name))
        tokenizer.save_pretrained(folder)
    with _quiet():
        model.save_pretrained(folder)
